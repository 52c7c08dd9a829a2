//! The errors of restoring a stored plan.

use thiserror::Error;

use crate::error::PlanError;

/// An error of restoring a stored plan on this topology.
/// The first four errors are due to an edited topology file. Restore the parts that they name, or end the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoredPlanError {
    /// The topology has no node of this name.
    #[error(
        "the stored plan uses {0:?}, and the topology has no node of that name: put it back, or end the job"
    )]
    NoNode(String),
    /// A link of the plan is missing, or is at another port.
    #[error(
        "the stored plan uses a link from {from:?} port {from_port} to {to:?} port {to_port}, and in the topology \
         {now}: put the link back, or end the job"
    )]
    NoLink {
        /// The end that is farther from the server.
        from: String,
        /// The port at the end `from`.
        from_port: u16,
        /// The end that is nearer to the server.
        to: String,
        /// The port at the end `to`.
        to_port: u16,
        /// A description of the present link at the port `from_port`.
        now: String,
    },
    /// A node on a worker's path has another id, or runs our program now and did not before, or the
    /// reverse.
    #[error(
        "the hop stack of worker {worker:?} in the stored plan does not fit {node:?}: its id, or whether it is \
         programmable, was changed in the topology; change that back, or end the job"
    )]
    HopStack {
        /// The worker.
        worker: String,
        /// The node.
        node: String,
    },
    /// The stored job is invalid on this topology.
    #[error("the stored plan is of a job that cannot be: {0}")]
    Job(PlanError),
    /// The stored data is inconsistent: it was altered, or was never a plan.
    #[error("the stored plan is damaged: {0}")]
    Damaged(String),
}
