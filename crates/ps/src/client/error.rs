//! Why a worker cannot continue.

use std::time::Duration;

use thiserror::Error;
use tonic::Status;
use tributary_codec::{DecodeError, EncodeError, Kind};
use tributary_transport::ConnectError;

use crate::parts::PartError;

/// Why a worker cannot continue.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The caller named no server, or more servers than the model has parameters.
    #[error("{servers} servers for {parameters} parameters: each needs at least one")]
    Servers {
        /// The number of servers.
        servers: usize,
        /// The number of the model's parameters.
        parameters: usize,
    },
    /// The codec needs all workers' agreement, for which the server has no messages.
    #[error(
        "{0} needs a codebook that all workers agree on, which goes over the fabric: choose another codec"
    )]
    Codec(Kind),
    /// The gradient has the wrong length.
    #[error("a gradient of {got} values for a model of {expected} parameters")]
    Length {
        /// The number of the model's parameters.
        expected: usize,
        /// The number of values given.
        got: usize,
    },
    /// A part does not fit into the gradient, or the parts are not a whole gradient.
    #[error(transparent)]
    Parts(#[from] PartError),
    /// The gradient cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A server and this worker do not trust each other.
    #[error(transparent)]
    NoTrust(ConnectError),
    /// A server has refused this worker or its gradient.
    #[error("the parameter server {server} refuses: {}", status.message())]
    Refused {
        /// The server.
        server: String,
        /// Its answer.
        status: Status,
    },
    /// Two servers have the job with other settings.
    #[error(
        "the parameter servers {server} and {other} have the job with other settings: start both with the same job file"
    )]
    OtherJob {
        /// One server.
        server: String,
        /// The other one.
        other: String,
    },
    /// A server was away for longer than the worker's patience.
    #[error("the parameter server {server} is not there for {patience:?}: {reason}. Is it running?")]
    Away {
        /// The server.
        server: String,
        /// Time for which the worker waited for it.
        patience: Duration,
        /// The error of the last attempt.
        reason: String,
    },
    /// A server's change of the parameters that cannot be decoded.
    #[error("the parameter server {server} sent parameters that cannot be decoded: {error}")]
    Decode {
        /// Which one.
        server: String,
        /// The decoding error.
        error: DecodeError,
    },
    /// A server's message that makes no sense.
    #[error("the parameter server {server} sent {got} values where {expected} are expected")]
    Step {
        /// Which one.
        server: String,
        /// Values of its range.
        expected: usize,
        /// Values that it sent.
        got: usize,
    },
    /// The runtime that the client was made in is shutting down.
    #[error("the runtime that the client was made in has stopped: keep it until training is over")]
    Stopped,
}
