//! Rereading files while the daemon works.

use std::convert::Infallible;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// Receives SIGHUP, which does not end the process once this exists.
#[derive(Debug)]
pub(crate) struct Reload(Signal);

impl Reload {
    /// Listens from now on.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(signal(SignalKind::hangup()).context("cannot listen for signals")?))
    }

    /// Returns when the daemon must reread its files.
    pub(crate) async fn requested(&mut self) {
        self.0.recv().await;
        tracing::info!(signal = "SIGHUP", "reading files again");
    }

    /// Calls `read` on each SIGHUP, until the returned value is dropped.
    pub(crate) fn in_background(self, read: impl FnMut() + Send + 'static) -> JoinSet<Infallible> {
        let mut reading = JoinSet::new();
        reading.spawn(self.each(read));
        reading
    }

    /// Calls `read` on each SIGHUP, forever.
    pub(crate) async fn each(mut self, mut read: impl FnMut()) -> Infallible {
        loop {
            self.requested().await;
            read();
        }
    }
}

/// Logs the outcome of rereading one kind of files.
pub(crate) fn note<E: std::fmt::Display>(what: &str, outcome: Result<(), E>) {
    match outcome {
        Ok(()) => tracing::info!("{what} were read again, and hold for new connections"),
        Err(error) => tracing::error!(%error, "{what} stay as they were"),
    }
}
