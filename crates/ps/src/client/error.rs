//! Errors that prevent a worker from continuing.

use std::time::Duration;

use thiserror::Error;
use tonic::Status;
use tributary_codec::{DecodeError, EncodeError, Kind};
use tributary_transport::ConnectError;

use crate::parts::PartError;

/// An error that prevents a worker from continuing.
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
    /// The codec needs a codebook on which all workers agree. The server has no messages for this
    /// agreement.
    #[error(
        "{0} needs a codebook that all workers agree on, which goes over the fabric: choose another codec"
    )]
    Codec(Kind),
    /// The gradient has the wrong length.
    #[error("a gradient of {got} values for a model of {expected} parameters")]
    Length {
        /// The number of the model's parameters.
        expected: usize,
        /// The number of values in the gradient.
        got: usize,
    },
    /// A part does not fit into the gradient, or the parts do not cover the whole gradient.
    #[error(transparent)]
    Parts(#[from] PartError),
    /// The gradient cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The TLS authentication between a server and this worker failed.
    #[error(transparent)]
    NoTrust(ConnectError),
    /// A server has refused this worker or its gradient.
    #[error("the parameter server {server} refuses: {}", status.message())]
    Refused {
        /// The server's address.
        server: String,
        /// The status with which the server refused.
        status: Status,
    },
    /// Two servers have different settings for the job.
    #[error(
        "the parameter servers {server} and {other} have the job with other settings: start both with the same job file"
    )]
    OtherJob {
        /// The address of one server.
        server: String,
        /// The address of the other server.
        other: String,
    },
    /// A server was unreachable for longer than the worker's patience.
    #[error("the parameter server {server} has been unreachable for {patience:?}: {reason}. Is it running?")]
    Unreachable {
        /// The server's address.
        server: String,
        /// Time for which the worker waited for the server.
        patience: Duration,
        /// The error of the last attempt.
        reason: String,
    },
    /// The worker cannot decode a server's change of the parameters.
    #[error("the parameter server {server} sent parameters that cannot be decoded: {error}")]
    Decode {
        /// The server's address.
        server: String,
        /// The decoding error.
        error: DecodeError,
    },
    /// A server sent a wrong number of parameters.
    #[error("the parameter server {server} sent {got} values where {expected} are expected")]
    Step {
        /// The server's address.
        server: String,
        /// The number of parameters in the server's range.
        expected: usize,
        /// The number of parameters that the server sent.
        got: usize,
    },
    /// The runtime in which the client was created is shutting down.
    #[error("the runtime that the client was made in has stopped: keep it until training is over")]
    Stopped,
}
