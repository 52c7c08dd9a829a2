use thiserror::Error;
use tributary_protocol::TakeOverError;
use tributary_wire::{Rank, Seq};

use crate::error::SwitchError;
use crate::journal::JournalError;
use crate::state::CreateError;

/// Reasons why a job has not changed over.
/// The job stays in its present generation, and is checked again.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
    /// The job has no plan or no id for the generation.
    #[error(transparent)]
    Plan(#[from] CreateError),
    /// The controller cannot write the generation's tables.
    #[error("its tables cannot be installed: {error}")]
    Tables {
        error: SwitchError,
        /// True if the job has not started, and the switch will never accept the tables.
        hopeless: bool,
    },
    /// The host that should serve the job does not join.
    #[error("host {0} was asked to serve it and did not join in time")]
    NoServer(String),
    /// Members did not stop for the change.
    #[error("{} did not answer", ranks(.0))]
    Silent(Vec<Rank>),
    /// The members are not at the beginning of the same operation, so that no worker can join.
    #[error("its members did not come to the beginning of one operation in time, so that nobody can come in")]
    NoBoundary,
    /// Something more urgent has happened.
    #[error("something more urgent has happened to it")]
    Overtaken,
    /// The positions at which members have stopped do not fit together.
    #[error("what its members hold does not fit together: {0}")]
    Survivors(TakeOverError),
    /// A member has not handed over a slice that it reported to have.
    #[error("slice {0} was finished, and the member that has it did not give it")]
    MissingSlice(Seq),
    /// A member sent an invalid slice.
    #[error("rank {rank} gave a slice that cannot be used: {reason}")]
    BadSlice { rank: Rank, reason: tributary_api::ConfigError },
    /// The change cannot be written to the journal.
    #[error("it cannot be written down: {0}")]
    Journal(JournalError),
    /// The job is over.
    #[error("it is over")]
    Over,
}

impl ChangeError {
    /// Returns true if another attempt would fail, too.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Tables { hopeless: true, .. })
    }
}

fn ranks(ranks: &[Rank]) -> String {
    let each: Vec<_> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
    each.join(", ")
}
