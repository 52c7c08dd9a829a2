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
    /// The servers. Each holds a range of the parameters, in this order.
    pub servers: Vec<Remote>,
    /// The job's name.
    pub job: String,
    /// The job's token, if it has one.
    pub token: Vec<u8>,
    /// This worker's rank.
    pub worker: Worker,
    /// Number of workers that share the data, if this worker knows it. The worker cannot join a job with
    /// another number.
    pub workers: Option<NonZeroU16>,
    /// Further settings that all workers must share, as text of up to 255 bytes.
    ///
    /// A worker cannot join workers with a different text. If the text is empty, the servers do not compare
    /// it.
    pub settings: String,
    /// The codec of gradients.
    pub codec: Kind,
    /// The codec of the parameters that the servers return; it always has error feedback.
    pub parameters_codec: Kind,
    /// Time for which a server may be unreachable before the worker gives up.
    pub patience: Duration,
    /// The fabric that may aggregate a group's gradients. With `None`, all gradients go to the servers over
    /// TCP.
    pub fabric: Option<Arc<dyn Fabric>>,
    /// Receives reports about the servers and workers for which this worker waits.
    ///
    /// The first report comes two seconds after the wait begins, further reports every five seconds.
    /// Reports that do not fit in the channel are dropped.
    pub waits: Option<mpsc::Sender<Waiting>>,
}

impl ClientOptions {
    /// Creates options without token, number of workers, settings, codecs and fabric. The patience is five
    /// minutes.
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

/// The parameters from which the worker computes its next gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The next iteration: the number of this worker's gradients that all parameters contain. After a
    /// server has restarted from its checkpoint, the number is lower than expected, and the worker must
    /// repeat the lost iterations.
    pub iteration: u64,
    /// The number of updates that all workers' gradients have made. With several servers, the lowest number
    /// of all servers. After a server has restarted from its checkpoint, this number is lower, too.
    pub updates: u64,
    /// The whole model's parameters.
    pub parameters: Vec<f32>,
    /// The worker whose gradient or departure made the last server release this worker.
    pub released_by: Worker,
    /// True if this worker is in a synchronous group.
    pub in_group: bool,
}
