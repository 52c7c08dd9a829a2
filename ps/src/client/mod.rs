//! The worker's side.
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

mod backoff;
mod encoder;
mod fabric;
mod groups;
mod link;
mod outgoing;
mod session;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tonic::Status;
use tributary_codec::{DecodeError, EncodeError, Kind};
use tributary_transport::{ConnectError, Remote};

pub use fabric::{Contribution, Contributor, Fabric, FabricError, operation_name};

use crate::parts::Parts;
pub use crate::parts::{MAX_PARTS, PartError};
use crate::policy::Worker;
use link::{HandIn, Link};

/// What a message has besides parameters, at most.
const MESSAGE_ROOM: usize = 64 << 10;

/// How a worker takes part in a job.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The servers, each of which holds a range of the parameters, in the ranges' order.
    pub servers: Vec<Remote>,
    /// The job's name.
    pub job: String,
    /// The job's token, if it has one.
    pub token: Vec<u8>,
    /// This worker's rank.
    pub worker: Worker,
    /// What gradients are encoded with.
    pub codec: Kind,
    /// What parameters are encoded with on their way back; error feedback is always part of it.
    pub parameters_codec: Kind,
    /// How long a server may be away before the worker gives up.
    pub patience: Duration,
    /// What a group's gradients may be aggregated by on their way; none: all of them go to the servers over TCP.
    pub fabric: Option<Arc<dyn Fabric>>,
}

impl ClientOptions {
    /// Without a token, a codec and a fabric, and with a patience of five minutes.
    pub fn new(servers: Vec<Remote>, job: impl Into<String>, worker: Worker) -> Self {
        let patience = Duration::from_secs(300);
        let (job, token) = (job.into(), Vec::new());
        let (codec, parameters_codec) = (Kind::None, Kind::None);
        Self { servers, job, token, worker, codec, parameters_codec, patience, fabric: None }
    }
}

/// Why a worker cannot go on.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No server, or more than there are parameters.
    #[error("{servers} servers for {parameters} parameters: each needs at least one")]
    Servers {
        /// Servers given.
        servers: usize,
        /// Parameters of the model.
        parameters: usize,
    },
    /// A codec that needs all workers' agreement, for which the server has no messages.
    #[error(
        "{0} needs a codebook that all workers agree on, which goes over the fabric: choose another codec"
    )]
    Codec(Kind),
    /// A gradient of another length.
    #[error("a gradient of {got} values for a model of {expected} parameters")]
    Length {
        /// Parameters of the model.
        expected: usize,
        /// Values given.
        got: usize,
    },
    /// A part that cannot be one of the gradient, or parts that are none.
    #[error(transparent)]
    Parts(#[from] PartError),
    /// A gradient that cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A server and this worker do not trust each other.
    #[error(transparent)]
    NoTrust(ConnectError),
    /// A server has refused this worker or its gradient.
    #[error("the parameter server {server} refuses: {}", status.message())]
    Refused {
        /// Which one.
        server: String,
        /// What it said.
        status: Status,
    },
    /// A server was away for longer than the worker's patience.
    #[error("the parameter server {server} is not there for {patience:?}: {reason}. Is it running?")]
    Away {
        /// Which one.
        server: String,
        /// How long it was waited for.
        patience: Duration,
        /// What the last try said.
        reason: String,
    },
    /// A server's change of the parameters that cannot be decoded.
    #[error("the parameter server {server} sent parameters that cannot be decoded: {error}")]
    Decode {
        /// Which one.
        server: String,
        /// What is wrong.
        error: DecodeError,
    },
    /// A server's message that makes no sense.
    #[error("the parameter server {server} sent {got} values where {expected} are expected")]
    Step {
        /// Which one.
        server: String,
        /// Values of its range.
        expected: usize,
        /// Values that it sent.
        got: usize,
    },
    /// The runtime that the client was made in is shutting down.
    #[error("the runtime that the client was made in has stopped: keep it until training is over")]
    Stopped,
}

/// What to compute the next gradient from.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Which iteration comes next: how many of this worker's gradients all parameters contain. After a server
    /// has gone back to its checkpoint it is lower than expected, and what is lost has to be done again.
    pub iteration: u64,
    /// Updates that have been made to the parameters, by all workers' gradients; with several servers those of
    /// the one that is the furthest behind. A server's restart from its checkpoint takes it back, too.
    pub updates: u64,
    /// The whole model's parameters.
    pub parameters: Vec<f32>,
    /// Whose gradient, or leaving, made the last server let this worker go on.
    pub released_by: Worker,
    /// Whether this worker is in a synchronous group.
    pub in_group: bool,
}

/// A worker's part in a job. Dropping it is leaving.
pub struct Client {
    links: Vec<Link>,
    parameters: usize,
    /// What there is of the next gradient.
    parts: Parts,
    /// Held by what is being handed in, whether or not its caller still waits.
    turn: Arc<Mutex<()>>,
}

impl Client {
    /// Joins a job. Returns when the job has started, with the first step. `initial` is what the model starts
    /// from if the servers have no parameters yet. To be called in a tokio runtime: a task for each server
    /// keeps listening while the caller computes.
    ///
    /// # Errors
    /// [`ClientError`]
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
        let link = |server| Link::new(&options, server, range(server), &initial[range(server)]);
        let links = (0..servers).map(link).collect();
        let mut client = Self { links, parameters, parts: Parts::new(parameters), turn: Arc::default() };
        let step = client.exchange(|_| HandIn::Nothing).await?;
        Ok((client, step))
    }

    /// Hands in the gradient of the last step's iteration and waits for the next step. A server that is away
    /// is waited for. Whether the gradient goes to a server or to the fabric is the servers' matter.
    ///
    /// The policy may let this worker wait for other workers' gradients: their callers must not wait for this
    /// call in turn.
    ///
    /// # Errors
    /// [`ClientError`]; after [`ClientError::Encode`] and [`ClientError::Length`] the worker may push another
    /// gradient.
    pub async fn push(&mut self, gradient: &[f32]) -> Result<Step, ClientError> {
        if gradient.len() != self.parameters {
            return Err(ClientError::Length { expected: self.parameters, got: gradient.len() });
        }
        if !self.parts.is_empty() {
            return Err(PartError::Open.into());
        }
        // No server gets its piece of a gradient that another piece of cannot be encoded.
        check_finite(0, gradient)?;
        self.exchange(|link| link.share(gradient)).await
    }

    /// Hands in a part of the gradient of the last step's iteration, before the rest of it is there: its values from
    /// the model's parameter `first` on. Parts come in any order. They leave at once, unless the whole gradient goes to
    /// the fabric, and mean nothing to the servers before [`push_parts`](Self::push_parts).
    ///
    /// With a codec that loses something each part is encoded by itself, so that what arrives depends on the parts.
    ///
    /// # Errors
    /// [`ClientError::Parts`] and [`ClientError::Encode`]: it is not counted, and the parts before it stay.
    pub fn push_part(&mut self, first: usize, part: &[f32]) -> Result<(), ClientError> {
        check_finite(first, part)?;
        self.parts.add(first as u64, part.len() as u64)?;
        self.links.iter().for_each(|link| link.part(first, part));
        Ok(())
    }

    /// As [`push`](Self::push), of the gradient that the parts make up. A call that is given up has handed it in, unless
    /// an earlier one that was given up still waits.
    ///
    /// # Errors
    /// [`ClientError`]; after [`ClientError::Parts`] parts are still missing.
    pub async fn push_parts(&mut self) -> Result<Step, ClientError> {
        self.parts.check_whole()?;
        self.exchange(|_| HandIn::Parts).await
    }

    /// Whether parts of the next gradient are there.
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Lets go of the parts: there will be no gradient of them. Waits for a step whose caller has given up.
    pub async fn drop_parts(&mut self) {
        if !self.parts.is_empty() {
            self.parts.clear();
            // A task that has gone has no parts.
            let _ = join_all(self.links.iter().map(Link::drop_parts)).await;
        }
    }

    /// Something for each server, and a step from each.
    async fn exchange(&mut self, hand_in: impl Fn(&Link) -> HandIn) -> Result<Step, ClientError> {
        let turn = Arc::new(Arc::clone(&self.turn).lock_owned().await);
        self.parts.clear();
        let (released, _) = watch::channel(false);
        // All servers are asked before this waits again: no one of them if the caller gives up, or all.
        let exchanges: Vec<_> = self
            .links
            .iter()
            .map(|link| {
                let (released, answered) =
                    (&released, link.exchange(hand_in(link), released.subscribe(), &turn));
                async move {
                    let step = answered.await;
                    // The other servers must not hold what this one has let go: they could wait for each other.
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

/// Names the first value that cannot be encoded, of those from number `first` on.
fn check_finite(first: usize, values: &[f32]) -> Result<(), EncodeError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(place) => {
            Err(EncodeError::NotFinite { position: first.saturating_add(place), value: values[place] })
        }
        None => Ok(()),
    }
}
