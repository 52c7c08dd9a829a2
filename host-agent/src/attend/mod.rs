//! A host's daemon as the controller sees it: present, as long as it holds one stream to the controller.
//!
//! Over this stream the daemon introduces itself, reports what its training processes do and which cable probes it
//! receives, and learns what to serve. While the controller is away, the daemon waits for it; if the controller refuses
//! the daemon, it says why.

mod cable;
mod condition;
mod conversation;

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tributary_api::v1;
use tributary_transport::Remote;
use tributary_wire::MacAddr;

use crate::backoff::Backoff;
use crate::part::{OpenPort, Servers};
use conversation::{Conversation, End};

/// A daemon's attendance at its controller.
#[derive(Clone)]
pub struct AttendConfig {
    /// This host's name in the topology.
    pub host: String,
    /// The controller's API.
    pub controller: Remote,
    /// The daemon's version, as `tributary --version` prints it.
    pub version: String,
    /// Whether it can be the aggregation server of jobs.
    pub serves: bool,
    /// Whether it has training processes.
    pub works: bool,
    /// The interface that leads to this host's switch, whose settings are reported to the controller; `None`: none are
    /// reported.
    pub interface: Option<String>,
    /// The cable to this host's switch; `None`: it is not probed.
    pub cable: Option<Cable>,
}

/// A host's cable.
#[derive(Clone)]
pub struct Cable {
    /// The address of the interface that it is plugged into.
    pub address: MacAddr,
    /// Opens a port that is used for [probes](tributary_wire::probe) only.
    pub open: OpenPort,
}

/// The state of a host's jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    /// Jobs of its training processes.
    pub(crate) jobs: Vec<v1::JobProgress>,
    /// Jobs that it serves.
    pub(crate) served: Vec<v1::ServedJob>,
}

/// What a daemon does for the controller and reports to it.
#[tonic::async_trait]
pub(crate) trait Duties: Send + Sync + 'static {
    /// The state of this host's jobs.
    async fn progress(&self) -> Progress;

    /// Serves a job on this host.
    fn serve(&self, job: &str, token: &[u8]);
}

#[tonic::async_trait]
impl Duties for Servers {
    async fn progress(&self) -> Progress {
        Progress { jobs: Vec::new(), served: self.report().await }
    }

    fn serve(&self, job: &str, token: &[u8]) {
        // The outcome is in the log.
        drop(Self::serve(self, job, token));
    }
}

/// The relation of a daemon to its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The controller does not answer, or has not yet.
    Away,
    /// The controller has welcomed the daemon.
    Welcome,
    /// The controller does not want the daemon, for this reason.
    Refused(String),
}

/// The controller does not want this daemon.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the controller turns this host away: {reason}")]
pub struct TurnedAway {
    /// The controller's words, or the reason for missing trust.
    pub reason: String,
}

/// A daemon's attendance. It ends when this is dropped.
#[derive(Debug)]
pub struct Attendance {
    state: watch::Receiver<State>,
    work: AbortHandle,
}

impl Attendance {
    /// Attends from now on, and serves what the controller orders. Must be called in a tokio runtime.
    pub fn of_servers(config: AttendConfig, servers: Servers) -> Self {
        Self::start(config, Arc::new(servers))
    }

    pub(crate) fn start(config: AttendConfig, duties: Arc<dyn Duties>) -> Self {
        let (tell, state) = watch::channel(State::Away);
        let work = tokio::spawn(attend(config, duties, tell)).abort_handle();
        Self { state, work }
    }

    /// Waits until the controller has welcomed this daemon; while the controller is away, it goes on waiting.
    ///
    /// # Errors
    /// [`TurnedAway`].
    pub async fn welcomed(&self) -> Result<(), TurnedAway> {
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| *state != State::Away).await;
        match decided.as_deref() {
            Ok(State::Refused(reason)) => Err(TurnedAway { reason: reason.clone() }),
            Ok(State::Away | State::Welcome) => Ok(()),
            // While this lives, only a panic can end it.
            Err(_) => {
                Err(TurnedAway { reason: "its task has ended: this is a bug, please report it".into() })
            }
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Attends without end.
async fn attend(config: AttendConfig, duties: Arc<dyn Duties>, state: watch::Sender<State>) {
    let mut backoff = Backoff::default();
    // The last logged reason: each reason is logged once, not once a second.
    let mut said = String::new();
    // While the controller is unreachable, probes still tell the host's switch that it is alive.
    let mut probing = None;
    loop {
        let end = match Conversation::begin(&config, &*duties).await {
            Ok(conversation) => {
                tracing::info!(host = config.host, "the controller has welcomed this host");
                state.send_replace(State::Welcome);
                backoff.reset();
                said.clear();
                // From here on the conversation sends its own probes.
                drop(probing.take());
                let (end, kept) = conversation.go_on().await;
                probing = Some(kept);
                end
            }
            Err(end) => end,
        };
        let (now, reason) = match end {
            End::Away(reason) => (State::Away, reason),
            End::Refused(reason) => (State::Refused(reason.clone()), reason),
        };
        if reason != said {
            let controller = config.controller.address();
            if matches!(now, State::Refused(_)) {
                tracing::error!(controller, reason, "the controller turns this host away");
            } else {
                tracing::warn!(controller, reason, "waiting for the controller");
            }
            said = reason;
        }
        state.send_replace(now);
        backoff.wait().await;
    }
}
