//! Why a stored plan cannot be used.

use thiserror::Error;

use crate::error::PlanError;

/// Why a stored plan does not fit this topology.
/// The first four are due to an edited topology file: put back what they name, or end the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoredPlanError {
    /// A node of the plan is gone.
    #[error(
        "the stored plan uses {0:?}, and the topology has no node of that name: put it back, or end the job"
    )]
    NoNode(String),
    /// A link of the plan is gone, or is at another port.
    #[error(
        "the stored plan uses a link from {from:?} port {from_port} to {to:?} port {to_port}, and in the topology \
         {now}: put the link back, or end the job"
    )]
    NoLink {
        /// The end that is farther from the server.
        from: String,
        /// Its port.
        from_port: u16,
        /// The other end.
        to: String,
        /// Its port.
        to_port: u16,
        /// The present value.
        now: String,
    },
    /// A node on a worker's way has another id, or no longer runs our program, or now does.
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
    /// The stored job makes no sense on this topology.
    #[error("the stored plan is of a job that cannot be: {0}")]
    Job(PlanError),
    /// The stored data contradicts itself: it has been altered, or was never a plan.
    #[error("the stored plan is damaged: {0}")]
    Damaged(String),
}
