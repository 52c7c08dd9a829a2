//! The interface between the server and a fabric that aggregates gradients.

use std::sync::Arc;

/// A fabric to which the hosts of this server and of workers belong.
pub trait GroupFabric: Send + Sync {
    /// Starts to make a reduction. Returns at once; its events go to `events`, from any thread.
    fn open(&self, request: GroupRequest, events: GroupEvents) -> Box<dyn Reduction>;
}

/// The reduction to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRequest {
    /// The parameter server's job.
    pub job: String,
    /// The reduction's number, unique in the job as long as this process lives.
    pub group: u64,
    /// The hosts of the workers, by their names in the topology: at least two, all different.
    pub hosts: Vec<String>,
    /// The number of f32 values that are aggregated in a round.
    pub length: usize,
}

/// A reduction that is being made, or at work. Dropping it ends it; later events are ignored.
pub trait Reduction: Send {
    /// Announces a round: all hosts will contribute to this operation.
    /// Rounds are counted from 0, and several may be waiting for their sums.
    fn expect(&mut self, round: u64);
}

/// The receiver of a reduction's events. Never blocks.
pub type GroupEvents = Arc<dyn Fn(GroupEvent) + Send + Sync>;

/// An event of a reduction.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupEvent {
    /// There is a fabric job for the hosts to join.
    Opened {
        /// Its name.
        job: String,
        /// Its token.
        token: Vec<u8>,
    },
    /// All hosts have joined: rounds may begin.
    Live,
    /// A round is done.
    Sum(Sum),
    /// The reduction has ended.
    Failed {
        /// The reason, as text for users.
        reason: String,
    },
}

/// The result of a round. Its check was right.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// The round's number.
    pub round: u64,
    /// The sum of the contributions' weights.
    pub weight: u32,
    /// The number of hosts that have contributed, zeros included.
    pub contributors: u32,
    /// The sum of weight · gradient, not divided.
    pub values: Vec<f32>,
}
