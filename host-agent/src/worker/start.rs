//! All-reduces for whose results no thread waits.

use std::sync::Arc;

use tokio::sync::oneshot;
use tributary_protocol::{AllReduce, Bounds};

use super::role::{Asked, Command, Reply};
use super::{Completion, KeptAlive, Terms, WorkerAgent};
use crate::error::AgentError;

impl WorkerAgent {
    /// Starts an all-reduce on these terms, behind all that were started before, and returns a future of
    /// its outcome. When this returns, its place in the order is fixed. `bounds`: those of its elements, if they are
    /// known. `held` is dropped with the operation's data.
    ///
    /// # Errors
    /// [`AgentError::Ended`]. The future's errors are those of [`all_reduce`](Self::all_reduce),
    /// [`AgentError::Deadline`] and [`AgentError::StreamBroken`].
    pub(crate) fn start_reduce(
        self: &Arc<Self>,
        operation: AllReduce,
        bounds: Option<Bounds>,
        terms: Terms,
        held: KeptAlive,
    ) -> Result<impl Future<Output = Result<Completion, AgentError>> + Send + 'static + use<>, AgentError>
    {
        let (sender, result) = oneshot::channel();
        // The answer is dropped if the caller no longer waits for it.
        let reply: Reply = Box::new(move |reduction| drop(sender.send(reduction)));
        self.0.submit(Command::Reduce(Asked { operation, bounds, terms, held, reply }))?;
        let agent = Arc::clone(self);
        Ok(async move { result.await.map_err(|_| agent.0.ended())? })
    }
}
