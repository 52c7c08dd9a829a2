use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tributary_codec::{EncodeError, LanesError};

use crate::regroup::{Detached, Regroup};

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
    /// The connection to the agent broke.
    #[error(
        "{what}: the connection to this host's agent broke ({cause}): has `tributary agent` died, or was it stopped? Look \
         at its log, start it again, and start the job's processes again"
    )]
    AgentLost {
        /// What there will be no answer to.
        what: String,
        /// What went wrong.
        cause: String,
    },
    /// The agent refused a request.
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
    /// The job has come to its end, or was ended; in words.
    #[error("{0}")]
    JobEnded(String),
    /// Nothing was reduced, and the elements are untouched: members have joined, or whose data they process has changed,
    /// and all of them have to synchronise first. Only in a job whose processes were all
    /// [elastic](crate::JoinOptions::elastic) when they joined it.
    #[error(
        "ranks {:?} have joined the job, whose members are {:?} and process the data of {:?}: every process has to \
         synchronise its parameters before it reduces again",
        .0.joined, .0.ranks, .0.shards
    )]
    Regroup(Regroup),
    /// Nothing was reduced, and the elements are untouched: the job goes on without this process for now. Only in a job
    /// that was created so that it does something about processes that get slow, and as [`Regroup`](Self::Regroup).
    #[error("the job goes on without this process until it is as fast as the others again: {}", .0.reason)]
    Detached(Detached),
    /// The agent says what this version does not understand.
    #[error("the agent's answer makes no sense ({0}): do both have the same version?")]
    BadAnswer(&'static str),
    /// There is no shared memory to be had.
    #[error("cannot {step} shared memory {}: {reason}", path.display())]
    SharedMemory {
        /// What was being done.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        reason: io::Error,
    },
    /// An operation with the segment has no answer yet, so that the agent may still write to it.
    #[error(
        "an operation with this segment is under way, or its connection broke: wait for its end, or use another segment"
    )]
    SegmentInUse,
    /// An all-reduce before this one was refused. This one would have taken its place in the order, and has not been
    /// started.
    #[error("the all-reduce was not started, since one that was started before it was refused")]
    NotStarted,
    /// The runtime in which the process joined its job is not there any more.
    #[error("the runtime in which the job was joined has ended: keep it as long as the job")]
    Interrupted,
    /// A gradient cannot be quantised; every member has an error, and the job goes on.
    #[error("rank {rank}, {name}: {error}")]
    NotQuantised {
        /// This member.
        rank: u32,
        /// The operation's name.
        name: String,
        /// What is wrong.
        error: EncodeError,
    },
    /// What came back is no sum of quantised gradients, or there are too many members for one.
    #[error(transparent)]
    Lanes(#[from] LanesError),
    /// A gradient for which no memory was made.
    #[error(
        "a gradient needs {values} integers, and {room} were made room for: ask for as many values as it has"
    )]
    TooLong {
        /// How many it needs.
        values: usize,
        /// How many there are.
        room: usize,
    },
    /// A quantised sum is that of all members or none: a level says nothing without their number.
    #[error(
        "{name} was summed over {contributors} of {members} members, since others have left meanwhile: quantised sums \
         need all of them. Reduce again: the next one is that of those who are left"
    )]
    MembersMissing {
        /// The operation's name.
        name: String,
        /// How many were inside, at least in one place.
        contributors: u32,
        /// How many there should be.
        members: u32,
    },
    /// Shared memory has at least one byte.
    #[error("a segment cannot be empty: give it a size")]
    EmptySegment,
}

impl ClientError {
    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn refused(status: tonic::Status) -> Self {
        match innermost(&status) {
            Some(cause) => Self::AgentLost { what: "a request".into(), cause },
            None => Self::Refused { code: status.code(), message: status.message().into() },
        }
    }

    /// The stream of all-reduces has ended before this one of `who` had an answer.
    pub(crate) fn lost(who: &str, tensor: &str, status: &tonic::Status) -> Self {
        let cause = innermost(status).unwrap_or_else(|| status.message().into());
        Self::AgentLost { what: format!("all-reduce of \"{tensor}\", {who}"), cause }
    }
}

/// What has broken a call's connection: tonic's own words say no more than that. `None`: it is the agent's answer.
fn innermost(status: &tonic::Status) -> Option<String> {
    let first = std::error::Error::source(status);
    std::iter::successors(first, |cause| cause.source()).last().map(ToString::to_string)
}
