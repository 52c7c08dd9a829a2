//! A host's daemon as the controller sees it: present, as long as it holds one
//! stream to the controller.
//!
//! Over this stream the daemon introduces itself, reports what its training processes do and which cable probes it
//! receives, and learns what to serve. While the controller is away, the daemon waits for it; if the controller refuses
//! the daemon, it says why.

mod cable;
mod condition;
mod config;
mod conversation;
mod duties;

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::backoff::Backoff;
use crate::part::Servers;
pub use config::{AttendConfig, Cable};
use conversation::{Conversation, End};
pub(crate) use duties::{Duties, Progress};

/// The relation of a daemon to its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The controller does not answer, or has not yet.
    Away,
    /// The controller has welcomed the daemon.
    Welcome,
    /// One of the two refuses the other: says which, and why.
    Refused(String),
}

/// The controller does not want this daemon, or one of the two does not trust the other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct TurnedAway {
    /// The reason, and the side that refuses the other.
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

    /// Waits until the controller has welcomed this daemon; while the controller is away, it keeps waiting.
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
                Err(TurnedAway { reason: "the attendance has ended: this is a bug, please report it".into() })
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
                tracing::error!(controller, "{reason}");
            } else {
                tracing::warn!(controller, reason, "waiting for the controller");
            }
            said = reason;
        }
        state.send_replace(now);
        backoff.wait().await;
    }
}
