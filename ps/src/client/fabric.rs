//! What a worker asks of its host's fabric. The client knows no more of it than this.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Why a host cannot take part, for people.
pub type FabricError = Box<dyn Error + Send + Sync>;

/// What every member of a fabric job calls the operation of a round, and the server that reads its sums, too: the name is
/// part of the check.
pub fn operation_name(round: u64) -> String {
    format!("gradient of round {round}")
}

/// A host's access to a fabric that aggregates gradients on their way to the server.
#[tonic::async_trait]
pub trait Fabric: fmt::Debug + Send + Sync {
    /// This host's name in the topology.
    fn host(&self) -> &str;

    /// Takes part in a fabric job whose operations aggregate `length` f32 values. Returns when the host has
    /// joined, or when all have. May be cancelled by dropping the future.
    ///
    /// # Errors
    /// The host cannot take part; the group then goes on without the fabric.
    async fn join(&self, job: &str, token: &[u8], length: usize)
    -> Result<Box<dyn Contributor>, FabricError>;
}

/// A host's part in one fabric job. Dropping it ends the part: the server, which knows of it, ends the job, so that
/// the host need leave only a job that does not end.
#[tonic::async_trait]
pub trait Contributor: Send {
    /// Contributes to an operation. The rounds come in their order, from 0 and without gaps, each after the
    /// last one's future is done; which may be at once, or when the operation is. May be cancelled by dropping
    /// the future; the contributor is dropped then, too.
    ///
    /// # Errors
    /// The host cannot take part any more; the group then goes on without the fabric.
    async fn contribute(&mut self, round: u64, contribution: Contribution) -> Result<(), FabricError>;
}

/// What a host gives to an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Contribution {
    /// A gradient; all its values are finite.
    Gradient {
        /// Not multiplied yet.
        values: Arc<[f32]>,
        /// What the fabric is to multiply it by, and add to the sum of the weights.
        weight: NonZeroU32,
    },
    /// Nothing: zeros, with weight 0, so that the others' sum becomes complete.
    Zeros,
}
