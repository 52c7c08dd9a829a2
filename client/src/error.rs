use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a process cannot reduce or train.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens on the socket, or this user may not connect.
    #[error(
        "no agent at {}: is `tributary agent` running on this host with this --socket, and may this user connect? \
         ({reason})",
        socket.display()
    )]
    NoAgent {
        /// The socket.
        socket: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The agent refused a request, or the connection to it broke.
    #[error("{message}")]
    Refused {
        /// The kind of refusal.
        code: tonic::Code,
        /// The agent's words.
        message: String,
    },
    /// The job is over before its end.
    #[error("the job failed: {0}")]
    JobFailed(String),
    /// The job was ended before this process could take part.
    #[error("the job has ended")]
    JobEnded,
    /// The agent says what this version does not understand.
    #[error("the agent's answer makes no sense ({0}): do both have the same version?")]
    BadAnswer(&'static str),
    /// There is no shared memory to be had.
    #[error("cannot {step} shared memory {}: {source}", path.display())]
    SharedMemory {
        /// What was being done.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A call was broken off before its answer came, so that the agent may still write to the segment.
    #[error("a call with this segment was broken off: the agent may still be writing; use another segment")]
    SegmentInUse,
    /// Shared memory has at least one byte.
    #[error("a segment cannot be empty: give it a size")]
    EmptySegment,
}

impl ClientError {
    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn refused(status: tonic::Status) -> Self {
        Self::Refused { code: status.code(), message: status.message().into() }
    }
}
