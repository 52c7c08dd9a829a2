use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};
use tributary_link::LinkError;
use tributary_protocol::{CollectiveError, StartError};
use tributary_transport::ConnectError;
use tributary_wire::WireError;

use crate::worker::{Detached, Members, Regroup, Wait};

/// The reason why an agent cannot start, refuses a request, or has ended.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The configuration is for the other role.
    #[error(
        "job \"{job}\": this host was started as a {started_as}, but the controller means another role for it"
    )]
    OtherRole {
        /// The job's name.
        job: String,
        /// The role with which this host was started: `worker` or `server`.
        started_as: &'static str,
    },
    /// The number of ports is not that of the job's stripes.
    #[error(
        "the job's slices are for {stripes} threads, each with a port of its own, but there are {ports} ports"
    )]
    Ports {
        /// The number of stripes.
        stripes: usize,
        /// The number of ports.
        ports: usize,
    },
    /// A server must read the sums of a job whose creator did not permit that.
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
        /// The port number.
        port: u16,
        /// The system's reason.
        reason: io::Error,
    },
    /// The host's interface cannot be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The job's frames would be lost at this host's own interface, because its MTU is too small.
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
    /// The all-reduce has failed on every member, unless the error describes a local failure.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The all-reduce has no sum, because another host had given it up before it contributed.
    #[error(
        "collective \"{tensor}\": {} had given it up after the deadline and contributed nothing, so there is no sum: \
         start all-reduces at the same time on all ranks, or give them a longer deadline", host_of(.ranks)
    )]
    Withheld {
        /// The tensor's name.
        tensor: String,
        /// The ranks of the host's processes.
        ranks: Range<u32>,
    },
    /// The members' sum is wrong, and the job has failed because of it.
    #[error("collective \"{tensor}\": {verdict}")]
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
        /// The reason why the report to the controller has failed.
        problem: JoinError,
    },
    /// The all-reduce was not started.
    #[error(transparent)]
    Refused(#[from] StartError),
    /// The all-reduce was not started, because an earlier all-reduce of its stream was not started. It
    /// would have taken the place of the earlier all-reduce in the order.
    #[error("it was not started, since an all-reduce before it was refused")]
    StreamBroken,
    /// The all-reduce has taken longer than its deadline. The job continues.
    #[error("{error}; it was given {limit:?}; {wait}{}{}", not_waiting(.absent), set_back(.setback))]
    Deadline {
        /// The time limit of the operation.
        limit: Duration,
        /// The last wait of the operation.
        wait: Box<Wait>,
        /// The missing contributions, as a [`CollectiveError::Abandoned`].
        error: Box<CollectiveError>,
        /// Members that do not wait for a result, as their agents last reported. They may not have begun the
        /// operation.
        absent: Vec<String>,
        /// The reason why the job has not changed its generation, as the controller last reported; empty if
        /// there is none.
        setback: String,
    },
    /// Nothing was reduced, because members have joined and this caller has not synchronised with them.
    #[error("ranks {:?} have joined the job: all members have to synchronise before they reduce again", .regroup.joined)]
    Regroup {
        /// The change for which all members must synchronise.
        regroup: Regroup,
        /// The members of the job at the time of the error.
        members: Arc<Members>,
    },
    /// Nothing was reduced. The job continues without this worker as long as its process is much slower
    /// than the other processes.
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
        /// The reason why the agent has ended.
        reason: String,
    },
}

fn host_of(ranks: &Range<u32>) -> String {
    match ranks.len() {
        1 => format!("rank {}", ranks.start),
        _ => format!("the host of ranks {} to {}", ranks.start, ranks.end.saturating_sub(1)),
    }
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

/// The reason why a host cannot join a job or stay in it.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The controller's address does not answer, or one side does not trust the other.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The controller refused a request, or does not answer.
    #[error("the controller {} {request}: {message} ({code:?})", refusal(*.code))]
    Refused {
        /// The purpose of the refused request.
        request: &'static str,
        /// The kind of refusal. It is [`Code::Unavailable`] if the connection broke, and
        /// [`Code::DeadlineExceeded`] if no answer arrived in time.
        code: Code,
        /// The controller's message.
        message: String,
    },
    /// The controller's configuration for this host is invalid.
    #[error("the controller's configuration for this host is unusable: {0}; do both have the same version?")]
    BadConfig(tributary_api::ConfigError),
    /// The controller sent an event that this version does not know.
    #[error("the controller sent an event of an unknown kind: update this agent")]
    UnknownEvent,
    /// The membership has ended, so no more events follow.
    #[error("this host's part in the job is over")]
    Over,
}

fn refusal(code: Code) -> &'static str {
    if may_pass(code) { "cannot be reached to" } else { "refuses to" }
}

/// Returns true if the peer cannot be reached.
/// tonic uses these codes for connections that fail or break.
pub(crate) fn is_unreachable(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled)
}

/// Returns true if the peer cannot be reached or is slow, so that a later attempt may succeed.
pub(crate) fn may_pass(code: Code) -> bool {
    is_unreachable(code) || code == Code::DeadlineExceeded
}

impl JoinError {
    pub(crate) fn refused(request: &'static str) -> impl FnOnce(Status) -> Self {
        move |status| Self::Refused { request, code: status.code(), message: status.message().into() }
    }
}

/// The reason why a host's part in a job is over before the job's end.
#[derive(Debug, Error)]
pub enum JobError {
    /// The host could not join the job or join it again.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// This host's agent could not start or continue.
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
        /// The reason why the host has left.
        reason: String,
    },
    /// The job continues without this host.
    #[error("job \"{job}\" goes on without this host: {reason}")]
    Removed {
        /// The job's name.
        job: String,
        /// The reason, with the name of the host, switch or link at fault.
        reason: String,
    },
    /// The controller has sent an event that is not valid at this point.
    #[error(
        "job \"{job}\": the controller says {event}, which makes no sense here: do both have the same version?"
    )]
    OutOfPlace {
        /// The job's name.
        job: String,
        /// A description of the event.
        event: &'static str,
    },
}
