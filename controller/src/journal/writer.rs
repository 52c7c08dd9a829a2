//! The thread that writes. A disk may take its time, and only those who have to know wait for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

use super::store::Store;
use super::stored::StoredJob;
use super::{Changes, JournalError};
use crate::jobs::JobKey;

/// Between two attempts to write what the disk has not taken.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A job as it is to be written down; `None`: it is to be forgotten.
#[derive(Debug)]
struct Entry {
    key: JobKey,
    job: Option<StoredJob>,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// Writes jobs down in the order in which they were handed in. Dropping it waits until all of them are written.
#[derive(Debug)]
pub(super) struct Writer {
    entries: Option<Sender<Entry>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(store: Arc<Store>) -> io::Result<Self> {
        let (entries, handed_in) = channel();
        let thread = thread::Builder::new().name("journal".into()).spawn(move || work(&store, &handed_in))?;
        Ok(Self { entries: Some(entries), thread: Some(thread) })
    }

    pub(super) fn write(&self, key: JobKey, job: Option<StoredJob>) -> Written {
        let (done, written) = oneshot::channel();
        if let Some(entries) = &self.entries {
            // Without a thread nobody answers, which is what whoever waits is told.
            let _ = entries.send(Entry { key, job, done });
        }
        Written(Some(written))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.entries = None;
        if let Some(thread) = self.thread.take() {
            // Whoever waited for a thread that has panicked knows.
            let _ = thread.join();
        }
    }
}

fn work(store: &Store, handed_in: &Receiver<Entry>) {
    // What is not on disk yet: each job as it was handed in last.
    let mut owed = Changes::new();
    let mut failing = false;
    loop {
        let first = match owed.is_empty() {
            true => handed_in.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => handed_in.recv_timeout(RETRY_INTERVAL),
        };
        let is_closed = matches!(first, Err(RecvTimeoutError::Disconnected));
        // What has come meanwhile goes with it: the disk is waited for once.
        let waiting = take(store, first.into_iter().chain(handed_in.try_iter()), &mut owed);
        if !owed.is_empty() {
            let written = store.make(&owed);
            tell(&written, std::mem::replace(&mut failing, written.is_err()));
            if written.is_ok() {
                owed.clear();
            }
            for done in waiting {
                // Not everyone waits.
                let _ = done.send(written.clone());
            }
        }
        if is_closed {
            return;
        }
    }
}

/// Adds what was handed in to what is to be written. Gives back who may wait for it.
fn take(
    store: &Store,
    entries: impl Iterator<Item = Entry>,
    owed: &mut Changes,
) -> Vec<oneshot::Sender<Result<(), JournalError>>> {
    let mut waiting = Vec::new();
    for Entry { key, job, done } in entries {
        match job.as_ref().map(StoredJob::to_json).transpose() {
            Ok(bytes) => {
                owed.insert(key, bytes);
                waiting.push(done);
            }
            Err(reason) => drop(done.send(Err(store.cannot_write(&reason)))),
        }
    }
    waiting
}

/// One line for the time that it does not work, however often it is tried.
fn tell(written: &Result<(), JournalError>, was_failing: bool) {
    match written {
        Err(error) if !was_failing => {
            tracing::error!(%error, "jobs on disk are older than they are; no job changes over until that is mended");
        }
        Ok(()) if was_failing => tracing::info!("jobs can be written to disk again, and all are"),
        Ok(()) | Err(_) => {}
    }
}

/// A job that was handed in. Whoever drops it does not wait; it is written all the same, as soon as the disk can.
#[derive(Debug)]
#[must_use = "whoever acts on a change waits until it is on disk"]
pub(crate) struct Written(Option<oneshot::Receiver<Result<(), JournalError>>>);

impl Written {
    /// Where nothing is written down.
    pub(super) fn nowhere() -> Self {
        Self(None)
    }

    /// Waits until it is on disk. After an error it is still written as soon as the disk can, unless the job was handed in
    /// again.
    ///
    /// # Errors
    /// The disk has not taken it.
    pub(crate) async fn outcome(self) -> Result<(), JournalError> {
        match self.0 {
            Some(written) => written.await.unwrap_or(Err(JournalError::Stopped)),
            None => Ok(()),
        }
    }
}
