//! Options with which a worker takes part in a job, and the contents of a step.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tributary_codec::Kind;
use tributary_transport::Remote;

use super::host_fabric::Fabric;
use super::waiting::Waiting;
use crate::policy::Worker;

/// Options with which a worker takes part in a job.
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
    /// Number of workers that share the data, if this one knows: it cannot join a
    /// job that has another number.
    pub workers: Option<NonZeroU16>,
    /// Further settings that all workers must share, as text of up to 255 bytes.
    ///
    /// A worker cannot join workers with a different text. Empty if this worker does not check them.
    pub settings: String,
    /// The codec of gradients.
    pub codec: Kind,
    /// The codec of parameters on their way back; it always has error feedback.
    pub parameters_codec: Kind,
    /// Time for which a server may be away before the worker gives up.
    pub patience: Duration,
    /// The fabric that may aggregate a group's gradients; none: all of them go to the servers over TCP.
    pub fabric: Option<Arc<dyn Fabric>>,
    /// Receives reports of the servers and workers that this worker waits for.
    ///
    /// The first report comes two seconds after the wait begins, the next ones every five seconds. Reports that do not
    /// fit in the channel are dropped.
    pub waits: Option<mpsc::Sender<Waiting>>,
}

impl ClientOptions {
    /// Options without a token, a number of workers, settings, codecs and a fabric, and with a
    /// patience of five minutes.
    pub fn new(servers: Vec<Remote>, job: impl Into<String>, worker: Worker) -> Self {
        let patience = Duration::from_secs(300);
        Self {
            servers,
            job: job.into(),
            token: Vec::new(),
            worker,
            workers: None,
            settings: String::new(),
            codec: Kind::None,
            parameters_codec: Kind::None,
            patience,
            fabric: None,
            waits: None,
        }
    }
}

/// Parameters from which to compute the next gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The next iteration: how many of this worker's gradients are in all parameters.
    /// After a server has gone back to its checkpoint it is lower than expected, and the lost iterations have to be
    /// done again.
    pub iteration: u64,
    /// The number of updates of the parameters by all workers' gradients; with several servers, of the
    /// server that is furthest behind. A server's restart from its checkpoint sets it back, too.
    pub updates: u64,
    /// The whole model's parameters.
    pub parameters: Vec<f32>,
    /// The worker whose gradient, or whose leaving, made the last server release this worker.
    pub released_by: Worker,
    /// True if this worker is in a synchronous group.
    pub in_group: bool,
}
