//! Ends the demo on a signal, after its sockets and shared memory have been removed.

use std::sync::Arc;

use anyhow::{Context, Result};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The error of a demo that a signal has stopped.
#[derive(Debug, Clone, Copy, Error)]
#[error("interrupted")]
pub(crate) struct Interrupted {
    /// The exit status that shells use for the signal.
    pub(crate) status: u8,
}

/// Waits for SIGINT or SIGTERM. While this value exists, these signals do not end the process by
/// themselves. Clones share the state.
#[derive(Debug, Clone)]
pub(crate) struct Interruption(Arc<watch::Sender<Option<Interrupted>>>);

impl Interruption {
    /// Starts to receive the signals. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The operating system does not allow the signal handler.
    pub(crate) fn listen() -> Result<Self> {
        let interruption = Self(Arc::new(watch::Sender::new(None)));
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind).context("cannot listen for signals")?;
            let status = u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX);
            let interruption = interruption.clone();
            tokio::spawn(async move {
                if signals.recv().await.is_some() {
                    interruption.0.send_replace(Some(Interrupted { status }));
                }
            });
        }
        Ok(interruption)
    }

    /// Runs `work` to its end, or drops it when a signal arrives.
    ///
    /// # Errors
    /// The errors of `work`; [`Interrupted`].
    pub(crate) async fn or<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            interrupted = self.comes() => Err(interrupted.into()),
        }
    }

    async fn comes(&self) -> Interrupted {
        match self.0.subscribe().wait_for(Option::is_some).await.map(|interrupted| *interrupted) {
            Ok(Some(interrupted)) => interrupted,
            // Does not happen, because this value holds a sender.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
