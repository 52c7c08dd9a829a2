use std::io;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};
use tributary_link::LinkError;
use tributary_protocol::{CollectiveError, StartError};
use tributary_transport::ConnectError;
use tributary_wire::{Rank, WireError};

use crate::worker::{Detached, Wait};

/// Why an agent cannot start, refuses a request, or has ended.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The configuration is for the other role.
    #[error(
        "job \"{job}\": this host was started as a {started_as}, but the controller means another role for it"
    )]
    OtherRole {
        /// The job's name.
        job: String,
        /// `worker` or `server`.
        started_as: &'static str,
    },
    /// A server is asked to read the sums of a job whose creator did not permit that.
    #[error(
        "job \"{job}\": this server is to read its sums, but the job was not created for that: its creator has to ask for \
         server_reads"
    )]
    NoSecret {
        /// The job's name.
        job: String,
    },
    /// The job's parameters contradict one another.
    #[error(transparent)]
    Config(#[from] tributary_protocol::ConfigError),
    /// A frame with the hop stack of the configuration cannot be written.
    #[error("the job's hop stack does not fit into a frame: {0}")]
    Frame(WireError),
    /// The operating system refused what an agent needs to run.
    #[error("cannot {step}: {reason}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The system's reason.
        reason: io::Error,
    },
    /// Another program uses the host's UDP port of INA packets.
    #[error("cannot take UDP port {port}, where INA packets go: {reason}; does another program use it?")]
    UdpPort {
        /// The port.
        port: u16,
        /// The system's reason.
        reason: io::Error,
    },
    /// The host's interface cannot be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The job's frames would be lost at this host's own interface.
    #[error(
        "this host's interface carries packets of {carried} bytes, and the job's have up to {needed}: raise its MTU (`ip link set \
         INTERFACE mtu {needed}`), and that at the other end of its cable, or say in the topology what its link carries"
    )]
    Mtu {
        /// The longest packet of the job, in bytes.
        needed: usize,
        /// The longest packet that the interface carries, in bytes.
        carried: usize,
    },
    /// The all-reduce has failed, on every member alike unless the error says otherwise.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The members' sum is wrong, and the job has failed because of it.
    #[error("all-reduce of \"{tensor}\": {verdict}")]
    Disputed {
        /// The tensor's name.
        tensor: String,
        /// The outcome of comparing the members' contributions, as the controller reports it to all members.
        verdict: String,
    },
    /// The members' sum is wrong, and their contributions were not compared.
    #[error("{error}. The controller, which would say which rank gave what, was not told: {problem}")]
    NotCompared {
        /// The local error: a [`CollectiveError::WrongSum`].
        error: Box<CollectiveError>,
        /// Why the controller does not know of it.
        problem: JoinError,
    },
    /// The all-reduce was not started.
    #[error(transparent)]
    Refused(#[from] StartError),
    /// The all-reduce was not started because an earlier all-reduce was not: it would have taken the
    /// earlier place in the order.
    #[error("it was not started, since an all-reduce before it was refused")]
    StreamBroken,
    /// The all-reduce has taken longer than its deadline. The job continues.
    #[error("{error}; it was given {limit:?}; {wait}{}{}", not_waiting(.absent), set_back(.setback))]
    Deadline {
        /// Time that it was given.
        limit: Duration,
        /// The last wait of the operation.
        wait: Box<Wait>,
        /// The missing contributions: a [`CollectiveError::Abandoned`].
        error: Box<CollectiveError>,
        /// Members that do not wait for a result, as their agents last reported: they may not have begun it.
        absent: Vec<String>,
        /// Why the job has not changed over, as the controller last reported; empty if nothing is in the way.
        setback: String,
    },
    /// Nothing was reduced: members have joined, and this caller has not synchronised with them.
    #[error("ranks {joined:?} have joined the job: all members have to synchronise before they reduce again")]
    Regroup {
        /// Their ranks.
        joined: Vec<Rank>,
    },
    /// Nothing was reduced: the job continues without this worker, whose process is much slower than the
    /// others, until it is well again.
    #[error("the job goes on without this worker for now: {}", .0.reason)]
    Detached(Detached),
    /// The controller requests an impossible change of generation.
    #[error("job \"{job}\": the controller asks for a change that cannot be carried out: {problem}")]
    Change {
        /// The job's name.
        job: String,
        /// The problem with the change.
        problem: String,
    },
    /// The agent's thread has ended.
    #[error("{agent} has ended: {reason}")]
    Ended {
        /// The agent's name.
        agent: String,
        /// Why.
        reason: String,
    },
}

fn not_waiting(members: &[String]) -> String {
    match members.join(", ") {
        none if none.is_empty() => none,
        members => format!(
            "; not waiting for a result when its agent told last: {members}: look at what its process does instead"
        ),
    }
}

fn set_back(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!("; the job cannot change over: {reason}") }
}

impl From<WireError> for AgentError {
    fn from(error: WireError) -> Self {
        Self::Frame(error)
    }
}

impl AgentError {
    pub(crate) fn system(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::System { step, reason }
    }
}

/// Why a host cannot take part in a job, or cannot continue.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The controller's address does not answer, or one side does not trust the other.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The controller refused a request, or does not answer.
    #[error("the controller {} {request}: {message} ({code:?})", refusal(*.code))]
    Refused {
        /// The purpose of the request.
        request: &'static str,
        /// The kind of refusal; [`Code::Unavailable`] where the connection broke, and
        /// [`Code::DeadlineExceeded`] where no answer came in time.
        code: Code,
        /// The controller's words.
        message: String,
    },
    /// The controller's configuration for this host is invalid.
    #[error("the controller's configuration for this host is unusable: {0}; do both have the same version?")]
    BadConfig(tributary_api::ConfigError),
    /// The controller sent an event that this version does not know.
    #[error("the controller sent an event of an unknown kind: update this agent")]
    UnknownEvent,
    /// There are no more events.
    #[error("this host's part in the job is over")]
    Over,
}

fn refusal(code: Code) -> &'static str {
    match code {
        // tonic's codes for connections that cannot be made, or break.
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => {
            "cannot be reached to"
        }
        _ => "refuses to",
    }
}

impl JoinError {
    pub(crate) fn refused(request: &'static str) -> impl FnOnce(Status) -> Self {
        move |status| Self::Refused { request, code: status.code(), message: status.message().into() }
    }
}

/// Why a host's part in a job is over before the job's end.
#[derive(Debug, Error)]
pub enum JobError {
    /// The job could not be joined, or the controller has gone away.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// This host's agent could not start, or go on.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The job failed.
    #[error("job \"{job}\" failed: {reason}")]
    Failed {
        /// The job's name.
        job: String,
        /// The controller's reason, with the name of the host or switch at fault.
        reason: String,
        /// True if members had a wrong sum.
        wrong_sum: bool,
    },
    /// The job was ended while members were still missing.
    #[error("job \"{job}\" was ended before all of its members had joined")]
    NeverStarted {
        /// The job's name.
        job: String,
    },
    /// This host has left the job.
    #[error("this host left job \"{job}\": {reason}")]
    Left {
        /// The job's name.
        job: String,
        /// Why.
        reason: String,
    },
    /// The job continues without this host.
    #[error("job \"{job}\" goes on without this host: {reason}")]
    Removed {
        /// The job's name.
        job: String,
        /// Why, with the name of the host, switch or link at fault.
        reason: String,
    },
    /// The controller has sent an event that makes no sense at this point.
    #[error(
        "job \"{job}\": the controller says {event}, which makes no sense here: do both have the same version?"
    )]
    OutOfPlace {
        /// The job's name.
        job: String,
        /// The event.
        event: &'static str,
    },
}
