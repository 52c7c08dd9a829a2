use thiserror::Error;
use tributary_protocol::TakeOverError;
use tributary_wire::{Rank, Seq};

use crate::error::SwitchError;
use crate::journal::JournalError;
use crate::state::CreateError;

/// Why a job has not changed over to its next generation. It stays in the present one, and is looked at again.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
    /// There is no plan, or no id, for it.
    #[error(transparent)]
    Plan(#[from] CreateError),
    /// Its tables cannot be written.
    #[error("its tables cannot be installed: {error}")]
    Tables {
        error: SwitchError,
        /// The job has not started, and the switch will never accept the tables.
        hopeless: bool,
    },
    /// The host that is to serve it does not join.
    #[error("host {0} was asked to serve it and did not join in time")]
    NoServer(String),
    /// Members did not stop for the change.
    #[error("{} did not answer", ranks(.0))]
    Silent(Vec<Rank>),
    /// The members are not at the beginning of the same operation, so that nobody can come in.
    #[error("its members did not come to the beginning of one operation in time, so that nobody can come in")]
    NoBoundary,
    /// Something more urgent has happened.
    #[error("something more urgent has happened to it")]
    Overtaken,
    /// The standings of members do not fit together.
    #[error("what its members hold does not fit together: {0}")]
    Survivors(TakeOverError),
    /// A member has not handed over a slice that it said it has.
    #[error("slice {0} was finished, and the member that has it did not give it")]
    MissingSlice(Seq),
    /// A member sent an invalid slice.
    #[error("rank {rank} gave a slice that cannot be used: {reason}")]
    BadSlice { rank: Rank, reason: tributary_api::ConfigError },
    /// The change cannot be written down.
    #[error("it cannot be written down: {0}")]
    Journal(JournalError),
    /// The job is over.
    #[error("it is over")]
    Over,
}

impl ChangeError {
    /// Whether there is no use in trying again.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Tables { hopeless: true, .. })
    }
}

fn ranks(ranks: &[Rank]) -> String {
    let each: Vec<_> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
    each.join(", ")
}
