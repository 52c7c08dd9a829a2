//! A daemon's session with the controller: one stream that stays open while the daemon runs.
//!
//! Over this stream the daemon introduces its host, reports the progress of its training processes and the cable probes
//! that it receives, and receives orders to serve jobs. While the controller is unreachable, the daemon retries. If one
//! side refuses the other, the daemon logs the reason.

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
pub use config::{Cable, ControllerSessionConfig};
use conversation::{Conversation, End};
pub(crate) use duties::{Duties, Progress};

/// The state of a daemon's session with its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The controller does not answer, or has not answered yet.
    Unreachable,
    /// The controller has welcomed the daemon.
    Welcome,
    /// One side refuses the other. The text names the side and the reason.
    Refused(String),
}

/// The controller refuses this daemon, or one side does not trust the other.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct RefusedError {
    /// The reason, and the side that refuses the other.
    pub reason: String,
}

/// A daemon's session with its controller. Dropping it ends the session.
#[derive(Debug)]
pub struct ControllerSession {
    state: watch::Receiver<State>,
    work: AbortHandle,
}

impl ControllerSession {
    /// Starts a session that serves the jobs that the controller orders. Must be called in a tokio
    /// runtime.
    pub fn of_servers(config: ControllerSessionConfig, servers: Servers) -> Self {
        Self::start(config, Arc::new(servers))
    }

    pub(crate) fn start(config: ControllerSessionConfig, duties: Arc<dyn Duties>) -> Self {
        let (tell, state) = watch::channel(State::Unreachable);
        let work = tokio::spawn(keep_open(config, duties, tell)).abort_handle();
        Self { state, work }
    }

    /// Waits until the controller has welcomed this daemon. Keeps waiting while the controller is
    /// unreachable.
    ///
    /// # Errors
    /// [`RefusedError`] if the controller refuses this daemon, or if one side does not trust the other.
    pub async fn welcomed(&self) -> Result<(), RefusedError> {
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| *state != State::Unreachable).await;
        match decided.as_deref() {
            Ok(State::Refused(reason)) => Err(RefusedError { reason: reason.clone() }),
            Ok(State::Unreachable | State::Welcome) => Ok(()),
            // The task runs until `self` is dropped, so only a panic can have closed the channel.
            Err(_) => Err(RefusedError {
                reason: "the session task has ended: this is a bug, please report it".into(),
            }),
        }
    }
}

impl Drop for ControllerSession {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Opens a stream to the controller, and opens it again after each end. Never returns.
async fn keep_open(config: ControllerSessionConfig, duties: Arc<dyn Duties>, state: watch::Sender<State>) {
    let mut backoff = Backoff::default();
    // The last logged reason. A reason is logged once and not at every attempt.
    let mut said = String::new();
    // The probes of the last conversation continue while the controller is unreachable, because the host's switch uses
    // them to detect that the host is alive.
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
            End::Unreachable(reason) => (State::Unreachable, reason),
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
