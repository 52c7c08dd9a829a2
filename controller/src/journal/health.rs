//! Monitors the writes of jobs to disk, and reports errors and a disk that does not answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::{Condvar, Mutex};

use super::error::JournalError;

/// The time that a write may take before the disk is reported to hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The state of the journal's writes. The writer, the watchdog and the readers of the status share it.
#[derive(Debug)]
pub(super) struct Health {
    file: PathBuf,
    patience: Duration,
    state: Mutex<WriteState>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct WriteState {
    /// The start time of the write that the disk has not completed; `None` if no write is in progress.
    asked: Option<Instant>,
    /// True once the watchdog has logged that the disk hangs.
    hangs: bool,
    /// The error of the last write; `None` if that write succeeded.
    error: Option<JournalError>,
    is_closed: bool,
}

impl Health {
    /// Creates the state, and starts the watchdog in its own thread, because a writer that hangs cannot
    /// report that.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn watched(file: PathBuf, patience: Duration) -> io::Result<Arc<Self>> {
        let health = Arc::new(Self { file, patience, state: Mutex::default(), closed: Condvar::new() });
        let watched = Arc::clone(&health);
        thread::Builder::new().name("journal-watch".into()).spawn(move || watched.watch())?;
        Ok(health)
    }

    /// Notes that a write begins now.
    pub(super) fn asks(&self) {
        self.state.lock().asked = Some(Instant::now());
    }

    /// Notes the outcome of a write. An outage is logged only once, even if the write is retried many
    /// times.
    pub(super) fn answered(&self, outcome: &Result<(), JournalError>) {
        let mut state = self.state.lock();
        state.asked = None;
        let was_failing = std::mem::take(&mut state.hangs) || state.error.is_some();
        match outcome {
            Err(error) if state.error.is_none() => {
                tracing::error!(%error, "jobs on disk are older than they are; no job changes over until that is repaired");
            }
            Ok(()) if was_failing => tracing::info!("jobs can be written to disk again, and all are"),
            Ok(()) | Err(_) => {}
        }
        state.error = outcome.as_ref().err().cloned();
    }

    /// Notes that there will be no further writes, so that the watchdog ends.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.closed.notify_all();
    }

    /// Returns the error that prevents writing; `None` if writes succeed.
    pub(super) fn problem(&self) -> Option<JournalError> {
        let state = self.state.lock();
        self.overdue(&state).or_else(|| state.error.clone())
    }

    /// Returns the error of the last write; `None` if it succeeded. The journal retries the write until it
    /// succeeds.
    pub(super) fn refusal(&self) -> Option<JournalError> {
        self.state.lock().error.clone()
    }

    /// Returns the error for a disk that has not answered for longer than the limit; `None` otherwise.
    fn overdue(&self, state: &WriteState) -> Option<JournalError> {
        let waited = state.asked.map(|asked| asked.elapsed()).filter(|waited| *waited > self.patience);
        waited.map(|waited| self.hangs(waited))
    }

    /// Returns the error for a disk that has not answered for `waited`.
    pub(super) fn hangs(&self, waited: Duration) -> JournalError {
        JournalError::Hangs { file: self.file.clone(), waited: Duration::from_secs(waited.as_secs()) }
    }

    /// Runs the watchdog, which logs each hang of the disk once.
    fn watch(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            if let Some(error) = self.overdue(&state)
                && !std::mem::replace(&mut state.hangs, true)
            {
                tracing::warn!(%error, "jobs cannot be written down; no job changes over until that is repaired");
            }
            self.closed.wait_for(&mut state, self.patience / 2);
        }
    }
}
