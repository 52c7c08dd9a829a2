//! The interface through which a worker uses its host's fabric.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The error of a host that cannot take part, as text for users.
pub type FabricError = Box<dyn Error + Send + Sync>;

/// Returns the name of a round's operation. All members of a fabric job, and the server that reads its
/// sums, must use this name, because the check of a result includes it.
pub fn operation_name(round: u64) -> String {
    format!("gradient of round {round}")
}

/// A host's access to a fabric that aggregates gradients on their way to the server.
#[tonic::async_trait]
pub trait Fabric: fmt::Debug + Send + Sync {
    /// This host's name in the topology.
    fn host(&self) -> &str;

    /// Takes part in a fabric job whose operations aggregate `length` f32 values. An implementation may
    /// return when this host has joined, or when all hosts have. Dropping the future cancels the call.
    ///
    /// # Errors
    /// The host cannot take part; the group then continues without the fabric.
    async fn join(&self, job: &str, token: &[u8], length: usize)
    -> Result<Box<dyn Contributor>, FabricError>;
}

/// A host's membership in one fabric job.
///
/// Dropping this value ends the membership. The server ends the job itself, so the host only has to
/// leave a job that does not end.
#[tonic::async_trait]
pub trait Contributor: Send {
    /// Contributes to an operation.
    ///
    /// The caller calls rounds in order, from 0 and without gaps, each after the future of the previous
    /// round has completed. A future may complete at once, or when the operation is done. Dropping the
    /// future cancels the operation; the caller then drops the contributor, too.
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
        /// The values, before they are multiplied by the weight.
        values: Arc<[f32]>,
        /// The weight. The fabric multiplies the values by it and adds it to the sum of the weights.
        weight: NonZeroU32,
    },
    /// Zeros with weight 0. They complete the sum of the other hosts' gradients.
    Zeros,
}
