//! The interface between the server and a fabric that aggregates gradients.

use std::sync::Arc;

/// A fabric that contains the host of this server and the hosts of workers.
pub trait GroupFabric: Send + Sync {
    /// Starts to create a reduction, and returns at once. Its events go to `events`, from any thread.
    fn open(&self, request: GroupRequest, events: GroupEvents) -> Box<dyn Reduction>;
}

/// The request for a reduction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRequest {
    /// The name of the parameter server's job.
    pub job: String,
    /// The reduction's number, unique in the job during the life of this process.
    pub group: u64,
    /// The hosts of the workers, by their names in the topology: at least two, all different.
    pub hosts: Vec<String>,
    /// The number of f32 values that one round aggregates.
    pub length: usize,
}

/// A reduction that is being created or in use. Dropping it ends it; later events are ignored.
pub trait Reduction: Send {
    /// Announces a round: all hosts will contribute to this operation. Rounds are numbered from 0. Several
    /// rounds may wait for their sums at once.
    fn expect(&mut self, round: u64);
}

/// The receiver of a reduction's events. Never blocks.
pub type GroupEvents = Arc<dyn Fn(GroupEvent) + Send + Sync>;

/// An event of a reduction.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupEvent {
    /// The fabric job exists, and the hosts can join it.
    Opened {
        /// The name of the fabric job.
        job: String,
        /// The token of the fabric job.
        token: Vec<u8>,
    },
    /// All hosts have joined, and rounds may begin.
    Live,
    /// The sum of a round.
    Sum(Sum),
    /// The reduction has ended.
    Failed {
        /// The reason of the end, as text for users.
        reason: String,
    },
}

/// The result of a round, after a successful check.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// The round's number.
    pub round: u64,
    /// The sum of the contributions' weights.
    pub weight: u32,
    /// The number of hosts that have contributed, including contributions of zeros.
    pub contributors: u32,
    /// The sum of weight · gradient, before the division by the weight.
    pub values: Vec<f32>,
}
