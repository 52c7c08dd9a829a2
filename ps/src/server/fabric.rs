//! What the server asks of a fabric that aggregates gradients on their way. It knows no more of it than this.

use std::sync::Arc;

/// A fabric that this server's host and those of workers belong to.
pub trait GroupFabric: Send + Sync {
    /// Starts to make a reduction. Returns at once; what becomes of it is told to `events`, from any thread.
    fn open(&self, request: GroupRequest, events: GroupEvents) -> Box<dyn Reduction>;
}

/// Which reduction to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRequest {
    /// The parameter server's job.
    pub job: String,
    /// The reduction's number: each of a job has its own, as long as this process lives.
    pub group: u64,
    /// The hosts of the workers, as the topology names them: at least two, all different.
    pub hosts: Vec<String>,
    /// The number of f32 values that are aggregated in a round.
    pub length: usize,
}

/// A reduction in the making, or at work. Dropping it ends it; events that come after that are ignored.
pub trait Reduction: Send {
    /// A round is about to begin: all hosts will contribute to this operation. Rounds count from 0, and there
    /// may be several whose sums are still to come.
    fn expect(&mut self, round: u64);
}

/// Where a reduction's events go. Never blocks.
pub type GroupEvents = Arc<dyn Fn(GroupEvent) + Send + Sync>;

/// What becomes of a reduction.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupEvent {
    /// There is a fabric job that the hosts may join.
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
    /// Nothing more will come of it.
    Failed {
        /// Why, for people.
        reason: String,
    },
}

/// What a round has come to. Its check is known to be right.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// Which one.
    pub round: u64,
    /// Sum of the contributions' weights.
    pub weight: u32,
    /// How many hosts have contributed, zeros included.
    pub contributors: u32,
    /// Sum of weight · gradient, not divided by anything.
    pub values: Vec<f32>,
}
