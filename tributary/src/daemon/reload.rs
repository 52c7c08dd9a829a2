//! Files that are read again while the daemon works.

use std::convert::Infallible;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

/// Hears SIGHUP. From the time that this exists it does not end the process.
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

    /// Returns when files are to be read again.
    pub(crate) async fn requested(&mut self) {
        self.0.recv().await;
        tracing::info!(signal = "SIGHUP", "reading files again");
    }

    /// Reads files again whenever that is wanted, until the returned value is dropped.
    pub(crate) fn in_background(self, read: impl FnMut() + Send + 'static) -> JoinSet<Infallible> {
        let mut reading = JoinSet::new();
        reading.spawn(self.each(read));
        reading
    }

    /// Reads files again whenever that is wanted, on and on.
    pub(crate) async fn each(mut self, mut read: impl FnMut()) -> Infallible {
        loop {
            self.requested().await;
            read();
        }
    }
}

/// Says what came of reading one kind of files again.
pub(crate) fn note<E: std::fmt::Display>(what: &str, outcome: Result<(), E>) {
    match outcome {
        Ok(()) => tracing::info!("{what} were read again, and hold for new connections"),
        Err(error) => tracing::error!(%error, "{what} stay as they were"),
    }
}
