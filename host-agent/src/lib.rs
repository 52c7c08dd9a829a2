//! The worker and server roles on a host.
//!
//! [`WorkerAgent`] and [`ServerAgent`] are the [handles](Handle) of agents. An agent is one thread that owns a port and
//! a state machine of [`tributary_protocol`]. The thread reads frames, sends what the state machine returns, and sleeps
//! until the next frame, call of the handle, or timeout. The agent receives its configuration from the controller through a [`Membership`].
//! [`HostPort`] is the port of a real host. Within one process, a [`tributary_link::link`] also serves as a port.
//!
//! [`AgentDaemon`] is the agent of a host, to which training processes connect over a Unix socket. [`Servers`] are the
//! aggregation servers of a host. The `agent` and `server` commands and the demo run both. [`ControllerSession`] is their
//! session with the controller.

mod backoff;
mod controller_session;
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

pub use controller_session::{Cable, ControllerSession, ControllerSessionConfig, RefusedError};
pub use daemon::{
    AgentConfig, AgentDaemon, AgentObserver, CollectiveAmount, CollectiveKind, JobStats, Limits,
    MAX_SESSIONS, RunningAgent, SocketError,
};
pub use error::{AgentError, JobError, JoinError};
pub use handle::Handle;
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
    /// The counters of the agent's state machine.
    pub protocol: P,
    /// The counters of the agent's port.
    pub traffic: Traffic,
}
