use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tonic::Code;
use tributary_codec::{EncodeError, LanesError};

use crate::regroup::{Detached, Regroup};

/// The reason why a process cannot reduce or train.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No agent listens on the socket, or this user may not connect to it.
    #[error(
        "no agent at {}: is `tributary agent` running on this host with this --socket, and may this user connect? \
         ({reason})",
        socket.display()
    )]
    NoAgent {
        /// The path of the socket.
        socket: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The connection to the agent broke.
    #[error(
        "{what}: the connection to this host's agent broke ({cause}): has `tributary agent` died, or was it stopped? Look \
         at its log, start it again, and start the job's processes again"
    )]
    AgentLost {
        /// The call that gets no answer.
        what: String,
        /// The reason.
        cause: String,
    },
    /// A deadline has passed while the agent sent nothing. The process has abandoned its agent and left
    /// the job, because the agent may still write to the elements if it continues.
    #[error(
        "{what}: its deadline of {} s has passed, and the agent at {} has said nothing for {} s: is it stopped, or out of \
         file descriptors? Look at its log. This process has left the job: start it again once the agent answers",
        deadline.as_secs_f64(), socket.display(), silent.as_secs()
    )]
    AgentSilent {
        /// The operation or call that gets no answer.
        what: String,
        /// The deadline of the operation or call.
        deadline: Duration,
        /// Time for which the agent had been silent.
        silent: Duration,
        /// The agent's socket.
        socket: PathBuf,
    },
    /// The process has abandoned its agent because of another operation or call.
    #[error(
        "this process has left the job, since a deadline of {} s had passed while the agent at {} said nothing for {} s: \
         start it again once the agent answers",
        deadline.as_secs_f64(), socket.display(), silent.as_secs()
    )]
    GivenUp {
        /// The deadline that had passed.
        deadline: Duration,
        /// Time for which the agent had been silent at that moment.
        silent: Duration,
        /// The agent's socket.
        socket: PathBuf,
    },
    /// The agent refused a request.
    #[error("{message}")]
    Refused {
        /// The kind of refusal.
        code: Code,
        /// The agent's message.
        message: String,
    },
    /// The job has failed; the text is the reason.
    #[error("the job failed: {0}")]
    JobFailed(String),
    /// The job has ended; the text describes the end.
    #[error("{0}")]
    JobEnded(String),
    /// Nothing was reduced, and the elements are unchanged. Members have joined, or the members' share of
    /// the data has changed, so all members must synchronise first. This occurs only in a job whose processes were all
    /// [elastic](crate::JoinOptions::elastic) when they joined.
    #[error(
        "ranks {:?} have joined the job, whose members are {:?} and process the data of {:?}: every process has to \
         synchronise its parameters before it reduces again",
        .0.joined, .0.ranks, .0.shards
    )]
    Regroup(Regroup),
    /// Nothing was reduced, and the elements are unchanged, because the job continues without this
    /// process for now. This occurs only in a job that was created to react to slow processes and whose processes were
    /// all elastic, as for [`Regroup`](Self::Regroup).
    #[error("the job goes on without this process until it is as fast as the others again: {}", .0.reason)]
    Detached(Detached),
    /// This version cannot interpret the agent's answer.
    #[error("the agent's answer makes no sense ({0}): do both have the same version?")]
    BadAnswer(&'static str),
    /// Shared memory cannot be created.
    #[error("cannot {step} shared memory {}: {reason}", path.display())]
    SharedMemory {
        /// The step that failed.
        step: &'static str,
        /// The path of the memory's file.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// An operation with the segment has no answer yet, so the agent may still write to the segment.
    #[error(
        "an operation with this segment is under way, or its connection broke: wait for its end, or use another segment"
    )]
    SegmentInUse,
    /// This all-reduce was not started, because an earlier all-reduce was refused. It would have taken
    /// the place of the earlier all-reduce in the order.
    #[error("the all-reduce was not started, since one that was started before it was refused")]
    NotStarted,
    /// The runtime in which the process joined its job has ended.
    #[error("the runtime in which the job was joined has ended: keep it as long as the job")]
    Interrupted,
    /// A gradient cannot be quantised. Every member gets an error, and the job continues.
    #[error("rank {rank}, {name}: {error}")]
    NotQuantised {
        /// This member's rank.
        rank: u32,
        /// The operation's name.
        name: String,
        /// The reason.
        error: EncodeError,
    },
    /// The result is not a sum of quantised gradients, or the job has too many members for quantised
    /// sums.
    #[error(transparent)]
    Lanes(#[from] LanesError),
    /// The gradient is larger than the memory that was allocated for it.
    #[error(
        "a gradient needs {values} integers, and {room} were made room for: ask for as many values as it has"
    )]
    TooLong {
        /// The number of integers that the gradient needs.
        values: usize,
        /// The number of integers that fit into the memory.
        room: usize,
    },
    /// Some members are missing in a quantised sum. A sum of levels has no meaning without all members.
    #[error(
        "{name} was summed over {contributors} of {members} members, since others have left meanwhile: quantised sums \
         need all of them. Reduce again: the next one is that of those who are left"
    )]
    MembersMissing {
        /// The operation's name.
        name: String,
        /// The number of members included in at least one part of the sum.
        contributors: u32,
        /// The number of members that should be included.
        members: u32,
    },
    /// Shared memory must have at least one byte.
    #[error("a segment cannot be empty: give it a size")]
    EmptySegment,
}

/// The kind of a [`ClientError`], for callers in other languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// This host's agent is not reachable, or has been restarted and does not know this process.
    AgentUnreachable,
    /// A deadline has passed.
    DeadlinePassed,
    /// The agent refuses the token or the user.
    PermissionDenied,
    /// A condition of the call does not hold: the job is over when a process joins, or values have no sum.
    FailedPrecondition,
    /// The job has failed, or continues without this host.
    JobOver,
    /// The job has ended.
    JobEnded,
    /// The members must synchronise.
    Regroup,
    /// The job continues without this process for now.
    Detached,
    /// All other causes.
    Other,
}

impl ClientError {
    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoAgent { .. }
            | Self::AgentLost { .. }
            | Self::GivenUp { .. }
            | Self::Refused { code: Code::Unauthenticated, .. } => ErrorKind::AgentUnreachable,
            Self::AgentSilent { .. } | Self::Refused { code: Code::DeadlineExceeded, .. } => {
                ErrorKind::DeadlinePassed
            }
            Self::Refused { code: Code::FailedPrecondition, .. } => ErrorKind::FailedPrecondition,
            Self::Refused { code: Code::PermissionDenied, .. } => ErrorKind::PermissionDenied,
            Self::Refused { code: Code::Aborted, .. } | Self::JobFailed(_) => ErrorKind::JobOver,
            Self::JobEnded(_) => ErrorKind::JobEnded,
            Self::Regroup(_) => ErrorKind::Regroup,
            Self::Detached(_) => ErrorKind::Detached,
            _ => ErrorKind::Other,
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn refused(status: tonic::Status) -> Self {
        match innermost(&status) {
            Some(cause) => Self::AgentLost { what: "a request".into(), cause },
            None => Self::Refused { code: status.code(), message: status.message().into() },
        }
    }

    /// Creates the error for an all-reduce of `who` that has no answer when its stream ends.
    pub(crate) fn lost(who: &str, tensor: &str, status: &tonic::Status) -> Self {
        let cause = innermost(status).unwrap_or_else(|| status.message().into());
        Self::AgentLost { what: all_reduce(who, tensor), cause }
    }
}

/// Returns the text that names an all-reduce of `who` in errors.
pub(crate) fn all_reduce(who: &str, tensor: &str) -> String {
    format!("collective \"{tensor}\", {who}")
}

/// Returns the reason for a broken connection, which tonic's own text does not contain. `None` if the
/// status is the agent's answer.
fn innermost(status: &tonic::Status) -> Option<String> {
    let first = std::error::Error::source(status);
    std::iter::successors(first, |cause| cause.source()).last().map(ToString::to_string)
}
