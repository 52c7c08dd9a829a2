//! The client of a parameter server, which a worker uses to join a job and to push its gradients.
//!
//! ```no_run
//! # async fn train(gradient: impl Fn(&[f32], u64) -> Vec<f32>) -> Result<(), Box<dyn std::error::Error>> {
//! use tributary_codec::Kind;
//! use tributary_ps::client::{Client, ClientOptions};
//!
//! use tributary_transport::Remote;
//!
//! let server = Remote::parameter_server("10.0.0.1:29812", None)?;
//! let options = ClientOptions::new(vec![server], "digits", 0);
//! let (mut client, mut step) = Client::join(options, &[0.0; 1000]).await?;
//! while step.iteration < 100 {
//!     step = client.push(&gradient(&step.parameters, step.iteration)).await?;
//! }
//! # Ok(())
//! # }
//! ```

mod agreement;
mod backoff;
mod encoder;
mod error;
mod exchange;
mod groups;
mod host_fabric;
mod options;
mod outgoing;
mod server_handle;
mod server_task;
mod session;
mod waiting;

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::{Mutex, watch};
use tributary_codec::EncodeError;

pub use host_fabric::{Contribution, Contributor, Fabric, FabricError, operation_name};

use crate::parts::Parts;
pub use crate::parts::{MAX_PARTS, PartError};
use agreement::Agreement;
pub use error::ClientError;
use exchange::HandIn;
pub use options::{ClientOptions, Step};
use server_handle::ServerHandle;
pub use waiting::Waiting;

/// A worker's part in a job. Dropping it leaves the job.
pub struct Client {
    handles: Vec<ServerHandle>,
    parameters: usize,
    /// The parts of the next gradient that the caller has handed in.
    parts: Parts,
    /// The lock of the present exchange. The exchange holds it even if its caller has stopped waiting.
    turn: Arc<Mutex<()>>,
}

impl Client {
    /// Joins a job. Returns the first step when the job has started. `initial` are the model's initial
    /// parameters; the servers use them if they have no parameters yet. Must be called in a tokio runtime,
    /// because a task for each server receives messages while the caller computes.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub async fn join(options: ClientOptions, initial: &[f32]) -> Result<(Self, Step), ClientError> {
        let (servers, parameters) = (options.servers.len(), initial.len());
        if servers == 0 || servers > parameters {
            return Err(ClientError::Servers { servers, parameters });
        }
        if let Some(codec) =
            [options.codec, options.parameters_codec].into_iter().find(|c| c.needs_agreement())
        {
            return Err(ClientError::Codec(codec));
        }
        let range = |server| server * parameters / servers..(server + 1) * parameters / servers;
        let agreement = Arc::<Agreement>::default();
        let handle = |server| {
            let initial = &initial[range(server)];
            ServerHandle::new(&options, server, range(server), initial, Arc::clone(&agreement))
        };
        let handles = (0..servers).map(handle).collect();
        let mut client = Self { handles, parameters, parts: Parts::new(parameters), turn: Arc::default() };
        let step = client.exchange(|_| HandIn::Nothing).await?;
        Ok((client, step))
    }

    /// Hands in the gradient of the last step's iteration, and waits for the next step. If a server is
    /// unreachable, this call waits for it, too. The servers decide whether the gradient goes to a server
    /// or to the fabric.
    ///
    /// The policy may let this worker wait for other workers' gradients. So the code that produces those
    /// gradients must not wait for this call.
    ///
    /// # Errors
    /// Any [`ClientError`]. After [`ClientError::Encode`] and [`ClientError::Length`] the worker may push
    /// another gradient.
    pub async fn push(&mut self, gradient: &[f32]) -> Result<Step, ClientError> {
        if gradient.len() != self.parameters {
            return Err(ClientError::Length { expected: self.parameters, got: gradient.len() });
        }
        if !self.parts.is_empty() {
            return Err(PartError::Open.into());
        }
        // All values are checked first: if one server's share cannot be encoded, no server may receive its
        // share.
        check_finite(0, gradient)?;
        self.exchange(|handle| handle.share(gradient)).await
    }

    /// Adds a part of the gradient of the last step's iteration before the gradient is complete.
    ///
    /// The part's values start at the model's parameter `first`. Parts may come in any order. The worker sends them at
    /// once, unless the whole gradient goes to the fabric. The servers do not use them before
    /// [`push_parts`](Self::push_parts).
    ///
    /// With a lossy codec each part is encoded separately, so the decoded values depend on the parts.
    ///
    /// # Errors
    /// [`ClientError::Parts`] and [`ClientError::Encode`]: the part is not counted, and earlier parts stay.
    pub fn push_part(&mut self, first: usize, part: &[f32]) -> Result<(), ClientError> {
        check_finite(first, part)?;
        self.parts.add(first as u64, part.len() as u64)?;
        self.handles.iter().for_each(|handle| handle.part(first, part));
        Ok(())
    }

    /// Pushes the gradient that consists of the parts, as [`push`](Self::push) does. If the caller drops
    /// the future, the gradient is still handed in, unless an earlier call whose future was dropped is
    /// still in progress.
    ///
    /// # Errors
    /// Any [`ClientError`]. After [`ClientError::Parts`] some parts are still missing.
    pub async fn push_parts(&mut self) -> Result<Step, ClientError> {
        self.parts.check_whole()?;
        self.exchange(|_| HandIn::Parts).await
    }

    /// Returns true if the caller has added parts of the next gradient.
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Drops the parts of an unfinished gradient. First waits for a call whose future was dropped.
    pub async fn drop_parts(&mut self) {
        if !self.parts.is_empty() {
            self.parts.clear();
            // A task that has ended has no parts.
            let _ = join_all(self.handles.iter().map(ServerHandle::drop_parts)).await;
        }
    }

    /// Hands in a gradient to each server, and waits for a step from each.
    async fn exchange(&mut self, hand_in: impl Fn(&ServerHandle) -> HandIn) -> Result<Step, ClientError> {
        let turn = Arc::new(Arc::clone(&self.turn).lock_owned().await);
        self.parts.clear();
        let (released, _) = watch::channel(false);
        // No `await` stands between the requests: if the caller drops this future, it has sent either all requests or
        // none.
        let exchanges: Vec<_> = self
            .handles
            .iter()
            .map(|handle| {
                let (released, answered) =
                    (&released, handle.exchange(hand_in(handle), released.subscribe(), &turn));
                async move {
                    let step = answered.await;
                    // The other servers must release this worker, too. Otherwise two servers could wait for
                    // each other.
                    released.send_replace(true);
                    step
                }
            })
            .collect();
        drop(turn);
        let steps = try_join_all(exchanges).await?;
        let (mut iteration, mut updates) = (u64::MAX, u64::MAX);
        let (mut parameters, mut released_by, mut in_group) = (Vec::with_capacity(self.parameters), 0, false);
        for step in steps {
            (iteration, updates) = (iteration.min(step.iteration), updates.min(step.updates));
            parameters.extend(step.parameters);
            released_by = step.released_by;
            in_group |= step.in_group;
        }
        Ok(Step { iteration, updates, parameters, released_by, in_group })
    }
}

/// Returns an error if a value cannot be encoded. `first` is the position of `values` in the gradient.
fn check_finite(first: usize, values: &[f32]) -> Result<(), EncodeError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(place) => {
            Err(EncodeError::NotFinite { position: first.saturating_add(place), value: values[place] })
        }
        None => Ok(()),
    }
}
