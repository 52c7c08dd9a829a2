//! Rereads files while the daemon runs.

use std::convert::Infallible;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// Receives SIGHUP. While this value exists, the signal does not end the process.
#[derive(Debug)]
pub(crate) struct Reload(Signal);

impl Reload {
    /// Starts to receive the signal.
    ///
    /// # Errors
    /// The operating system does not allow the signal handler.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(signal(SignalKind::hangup()).context("cannot listen for signals")?))
    }

    /// Waits for a SIGHUP, which requests that the daemon reread its files.
    pub(crate) async fn requested(&mut self) {
        self.0.recv().await;
        tracing::info!(signal = "SIGHUP", "reading files again");
    }

    /// Calls `read` on each SIGHUP until the returned value is dropped.
    pub(crate) fn in_background(self, read: impl FnMut() + Send + 'static) -> JoinSet<Infallible> {
        let mut reading = JoinSet::new();
        reading.spawn(self.each(read));
        reading
    }

    /// Calls `read` on each SIGHUP, and never returns.
    pub(crate) async fn each(mut self, mut read: impl FnMut()) -> Infallible {
        loop {
            self.requested().await;
            read();
        }
    }
}

/// Logs the result of rereading one kind of files.
pub(crate) fn note<E: std::fmt::Display>(what: &str, outcome: Result<(), E>) {
    match outcome {
        Ok(()) => tracing::info!("{what} were read again, and apply to new connections"),
        Err(error) => tracing::error!(%error, "{what} are unchanged"),
    }
}
