//! The worker and server roles on a host.
//!
//! [`WorkerAgent`] and [`ServerAgent`] each run one thread that owns a port and a state machine of
//! [`tributary_protocol`]: it reads frames, asks the state machine what to send, and sleeps until the next frame,
//! command or timeout. The agent learns its part in a job from the controller, through a [`Membership`]. [`HostPort`]
//! is the port of a real host; in one process, [`tributary_link::link`]s serve as well.
//!
//! [`AgentDaemon`] is the agent of a host, which training processes reach over a Unix socket, and [`Servers`] are the
//! aggregation servers of a host: the `agent` and `server` commands and the demo run them. Their [`Attendance`] makes
//! them known to the controller.

mod attend;
mod backoff;
mod daemon;
mod driver;
mod error;
mod handle;
mod host_port;
mod link;
mod membership;
mod part;
mod server;
mod sole_sender;
mod worker;

pub use attend::{AttendConfig, Attendance, Cable, TurnedAway};
pub use daemon::{
    AgentConfig, AgentDaemon, AgentObserver, CollectiveAmount, CollectiveKind, JobStats, Limits,
    MAX_SESSIONS, RunningAgent, SocketError,
};
pub use error::{AgentError, JobError, JoinError};
pub use host_port::HostPort;
pub use link::Traffic;
pub use membership::{JobEvent, JobMember, MemberRole, Membership};
pub use part::{OpenPort, Reserved, Served, Servers, open_once, serve_job};
pub use server::ServerAgent;
pub use sole_sender::{SoleSenderError, forbid_other_senders};
pub use worker::{Detached, Members, Regroup, Situation, Wait, WorkerAgent};

/// An agent's counters since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentStats<P> {
    /// The counters of its state machine.
    pub protocol: P,
    /// The frames of its port.
    pub traffic: Traffic,
}
