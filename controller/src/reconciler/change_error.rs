use thiserror::Error;
use tributary_protocol::TakeOverError;
use tributary_wire::{Rank, Seq};

use crate::error::SwitchError;
use crate::journal::JournalError;
use crate::state::CreateError;

/// Reasons why a job has not changed its generation.
/// The job stays in its present generation, and the reconciler decides again.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
    /// The job cannot get a plan or a job id for the generation.
    #[error(transparent)]
    Plan(#[from] CreateError),
    /// The controller cannot write the generation's tables.
    #[error("its tables cannot be installed: {error}")]
    Tables {
        error: SwitchError,
        /// True if the job has not started and the switch will never accept the tables.
        hopeless: bool,
    },
    /// The host that should become the server did not join in time.
    #[error("host {0} was asked to serve it and did not join in time")]
    NoServer(String),
    /// The members of these ranks did not answer in time.
    #[error("{} did not answer", ranks(.0))]
    Silent(Vec<Rank>),
    /// The members did not reach the beginning of the same operation, so that no worker can join.
    #[error("its members did not come to the beginning of one operation in time, so that nobody can come in")]
    NoBoundary,
    /// A more urgent step became due.
    #[error("something more urgent has happened to it")]
    Overtaken,
    /// The positions at which members stopped contradict each other.
    #[error("what its members hold does not fit together: {0}")]
    Survivors(TakeOverError),
    /// A member did not send a slice that it had reported to have.
    #[error("slice {0} was finished, and the member that has it did not give it")]
    MissingSlice(Seq),
    /// A member sent an invalid slice.
    #[error("rank {rank} gave a slice that cannot be used: {reason}")]
    BadSlice { rank: Rank, reason: tributary_api::ConfigError },
    /// The change could not be written to the journal.
    #[error("it cannot be written down: {0}")]
    Journal(JournalError),
    /// The job is over.
    #[error("it is over")]
    Over,
}

impl ChangeError {
    /// Returns true if another attempt would fail for the same reason.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Tables { hopeless: true, .. })
    }
}

fn ranks(ranks: &[Rank]) -> String {
    let each: Vec<_> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
    each.join(", ")
}
