//! Errors of a simulation's setup.

use thiserror::Error;
use tributary_planner::PlanError;

/// An error in a setup.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FlowError {
    /// A job has nothing to synchronise, or no server.
    #[error(
        "job {job} cannot be simulated: it needs two workers, a server where its method has one, and a gradient"
    )]
    Job {
        /// The index of the job in the setup.
        job: usize,
    },
    /// The planner refuses a job.
    #[error("the planner refuses job {job}: {reason}")]
    Plan {
        /// The index of the job in the setup.
        job: usize,
        /// The planner's reason.
        reason: PlanError,
    },
    /// Two hosts have no path between them, even with all parts alive.
    #[error("no way leads from host {from:?} to host {to:?}: link them in the topology")]
    Apart {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// A number is negative or NaN where a time or a share of the links is needed.
    #[error("{what} has to be a number, and not below 0: it is {value}")]
    Number {
        /// The name of the number.
        what: &'static str,
        /// The value of the number.
        value: f64,
    },
    /// No further event can happen, but some jobs are not done.
    #[error(
        "nothing moves any more after {seconds} simulated seconds, with {unfinished} jobs not done: something that they need is down for ever"
    )]
    Stuck {
        /// Number of jobs that are not done.
        unfinished: usize,
        /// The time when the simulation stopped, in whole seconds.
        seconds: u64,
    },
    /// No fat tree has the requested number of ports or workers.
    #[error("no network for the study: {0}")]
    Network(String),
}
