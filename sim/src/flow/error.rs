//! Why there is no outcome.

use thiserror::Error;
use tributary_planner::PlanError;

/// Why a setup cannot be simulated.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FlowError {
    /// A job has nothing to synchronise, or nobody to serve it.
    #[error(
        "job {job} cannot be simulated: it needs two workers, a server where its method has one, and a gradient"
    )]
    Job {
        /// Its place among the jobs.
        job: usize,
    },
    /// The planner refuses a job.
    #[error("the planner refuses job {job}: {reason}")]
    Plan {
        /// Its place among the jobs.
        job: usize,
        /// Why.
        reason: PlanError,
    },
    /// No way leads from one host to another, with everything alive.
    #[error("no way leads from host {from:?} to host {to:?}: link them in the topology")]
    Apart {
        /// The one.
        from: String,
        /// The other.
        to: String,
    },
    /// A number that is none, or below 0, where a time or a share of the links is needed.
    #[error("{what} has to be a number, and not below 0: it is {value}")]
    Number {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: f64,
    },
    /// Nothing more can happen, but jobs are not done.
    #[error(
        "nothing moves any more after {seconds} simulated seconds, with {unfinished} jobs not done: something that they need is down for ever"
    )]
    Stuck {
        /// Jobs that are not done.
        unfinished: usize,
        /// When, in whole seconds.
        seconds: u64,
    },
    /// No fat tree has so many ports or workers.
    #[error("no network for the study: {0}")]
    Network(String),
}
