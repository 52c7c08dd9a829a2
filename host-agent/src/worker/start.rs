//! All-reduces whose results no thread waits for.

use std::sync::Arc;

use tokio::sync::oneshot;
use tributary_protocol::{AllReduce, Bounds};

use super::role::{Asked, Command, Reply};
use super::{Completion, KeptAlive, Terms, WorkerAgent};
use crate::error::AgentError;

impl WorkerAgent {
    /// Starts an all-reduce on these terms, after all all-reduces that were started before, and returns a
    /// future of its outcome. When `start_reduce` returns, the position of the all-reduce in the order is fixed.
    /// `bounds` are the bounds of its elements, if they are known. `held` is dropped with the operation's data.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended. The future's errors are the errors of
    /// [`all_reduce`](Self::all_reduce), [`AgentError::Deadline`] and [`AgentError::StreamBroken`].
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
