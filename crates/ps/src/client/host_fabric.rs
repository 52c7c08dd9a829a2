//! The interface that a worker needs from its host's fabric. The client knows no more of it than this.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Why a host cannot take part, as text for users.
pub type FabricError = Box<dyn Error + Send + Sync>;

/// The name of a round's operation.
/// All members of a fabric job, and the server that reads its sums, have to use it: the name is part of the check.
pub fn operation_name(round: u64) -> String {
    format!("gradient of round {round}")
}

/// A host's access to a fabric that aggregates gradients on their way to the server.
#[tonic::async_trait]
pub trait Fabric: fmt::Debug + Send + Sync {
    /// This host's name in the topology.
    fn host(&self) -> &str;

    /// Takes part in a fabric job whose operations aggregate `length` f32 values.
    /// Returns when the host has joined, or when all have. Dropping the future cancels this.
    ///
    /// # Errors
    /// The host cannot take part; the group then continues without the fabric.
    async fn join(&self, job: &str, token: &[u8], length: usize)
    -> Result<Box<dyn Contributor>, FabricError>;
}

/// A host's part in one fabric job.
///
/// Dropping it ends the part. The server ends the job itself, so the host need only leave a job that does not end.
#[tonic::async_trait]
pub trait Contributor: Send {
    /// Contributes to an operation.
    ///
    /// The caller calls rounds in order, from 0 and without gaps, each after the future of the previous round is done.
    /// A future may be done at once, or when the operation is done. Dropping the future cancels the operation; the
    /// caller then drops the contributor, too.
    ///
    /// # Errors
    /// The host cannot take part any more; the group then continues without the fabric.
    async fn contribute(&mut self, round: u64, contribution: Contribution) -> Result<(), FabricError>;
}

/// A host's contribution to an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Contribution {
    /// A gradient; all its values are finite.
    Gradient {
        /// The values, not multiplied by the weight yet.
        values: Arc<[f32]>,
        /// The weight by which the fabric multiplies the values, and which it adds to the sum of the weights.
        weight: NonZeroU32,
    },
    /// Zeros, with weight 0, so that the others' sum becomes complete.
    Zeros,
}
