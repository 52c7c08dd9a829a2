//! How a worker takes part in a job, and what it gets in each step.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tributary_codec::Kind;
use tributary_transport::Remote;

use super::host_fabric::Fabric;
use crate::policy::Worker;

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
    /// How many workers share the data, if this one knows: it cannot join a job that has another number.
    pub workers: Option<NonZeroU16>,
    /// The codec of gradients.
    pub codec: Kind,
    /// The codec of parameters on their way back; it always has error feedback.
    pub parameters_codec: Kind,
    /// How long a server may be away before the worker gives up.
    pub patience: Duration,
    /// The fabric that may aggregate a group's gradients; none: all of them go to the servers over TCP.
    pub fabric: Option<Arc<dyn Fabric>>,
}

impl ClientOptions {
    /// Options without a token, a number of workers, codecs and a fabric, and with a patience of five minutes.
    pub fn new(servers: Vec<Remote>, job: impl Into<String>, worker: Worker) -> Self {
        let patience = Duration::from_secs(300);
        let (job, token) = (job.into(), Vec::new());
        let (codec, parameters_codec) = (Kind::None, Kind::None);
        Self { servers, job, token, worker, workers: None, codec, parameters_codec, patience, fabric: None }
    }
}

/// What to compute the next gradient from.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The next iteration: how many of this worker's gradients are in all parameters. After a server has gone back to
    /// its checkpoint it is lower than expected, and the lost iterations have to be done again.
    pub iteration: u64,
    /// The number of updates of the parameters by all workers' gradients; with several servers, of the server that is
    /// furthest behind. A server's restart from its checkpoint sets it back, too.
    pub updates: u64,
    /// The whole model's parameters.
    pub parameters: Vec<f32>,
    /// The worker whose gradient, or whose leaving, made the last server release this worker.
    pub released_by: Worker,
    /// Whether this worker is in a synchronous group.
    pub in_group: bool,
}
