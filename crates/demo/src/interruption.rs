//! The demo's end by a signal: what it has in the file system, sockets and shared memory, goes first.

use std::sync::Arc;

use anyhow::{Context, Result};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A signal has ended the demo before its end.
#[derive(Debug, Clone, Copy, Error)]
#[error("interrupted")]
pub(crate) struct Interrupted {
    /// The exit status, as shells have it.
    pub(crate) status: u8,
}

/// Waits for SIGINT or SIGTERM, neither of which ends the process by itself once this exists.
/// Clones wait for the same.
#[derive(Debug, Clone)]
pub(crate) struct Interruption(Arc<watch::Sender<Option<Interrupted>>>);

impl Interruption {
    /// Listens from now on. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// The operating system refuses.
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

    /// Drives `work` to its end, or drops it at a signal.
    ///
    /// # Errors
    /// The errors of the work; [`Interrupted`].
    pub(crate) async fn or<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            interrupted = self.comes() => Err(interrupted.into()),
        }
    }

    async fn comes(&self) -> Interrupted {
        match self.0.subscribe().wait_for(Option::is_some).await.map(|interrupted| *interrupted) {
            Ok(Some(interrupted)) => interrupted,
            // It cannot be: this has a sender.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
