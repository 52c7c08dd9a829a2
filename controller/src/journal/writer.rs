//! The thread that writes to disk. Because a disk may be slow, only callers that need the outcome wait
//! for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::JournalError;
use super::health::Health;
use super::store::Store;
use super::stored::{Changes, StoredJob};
use crate::jobs::JobKey;

/// Interval between two attempts to write after a failure, and between two checks that the file still
/// exists.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time that a caller waits for an unresponsive disk before it gets an error.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// A record to write to the journal; `job` is `None` if the journal must remove the job.
#[derive(Debug)]
struct Entry {
    key: JobKey,
    job: Option<StoredJob>,
    done: oneshot::Sender<Result<(), JournalError>>,
}

/// Writes jobs to the journal in the order in which they are submitted.
/// Dropping the writer waits until all submitted jobs are written.
#[derive(Debug)]
pub(super) struct Writer {
    /// `None` after [`close`](Self::close).
    thread: Mutex<Option<WriterThread>>,
    health: Arc<Health>,
}

#[derive(Debug)]
struct WriterThread {
    entries: Sender<Entry>,
    handle: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread. A write that takes longer than `patience` is reported as a hang of the disk.
    pub(super) fn start(store: Arc<Store>, patience: Duration) -> io::Result<Self> {
        let (entries, handed_in) = channel();
        let health = Health::watched(store.file().to_owned(), patience)?;
        let tell = Arc::clone(&health);
        let work = move || {
            work(&store, &tell, &handed_in);
            store.close();
            tell.close();
        };
        let handle = thread::Builder::new().name("journal".into()).spawn(work)?;
        Ok(Self { thread: Mutex::new(Some(WriterThread { entries, handle })), health })
    }

    /// Returns the error that prevents writing; `None` if writes succeed.
    pub(super) fn problem(&self) -> Option<JournalError> {
        self.health.problem()
    }

    /// Returns the error of the last write; `None` if it succeeded.
    pub(super) fn refusal(&self) -> Option<JournalError> {
        self.health.refusal()
    }

    pub(super) fn write(&self, key: JobKey, job: Option<StoredJob>) -> Written {
        let (done, written) = oneshot::channel();
        if let Some(thread) = &*self.thread.lock() {
            // If the thread has ended, the caller gets an error from `Written`.
            let _ = thread.entries.send(Entry { key, job, done });
        }
        Written(Some(Waiting { written, health: Arc::clone(&self.health) }))
    }

    /// Waits until all submitted jobs are written and the file is closed. Later writes get
    /// [`JournalError::Stopped`].
    pub(super) fn close(&self) {
        let thread = self.thread.lock().take();
        if let Some(WriterThread { entries, handle }) = thread {
            drop(entries);
            // A panic of the thread needs no report here: its callers have already received an error.
            let _ = handle.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn work(store: &Store, health: &Health, handed_in: &Receiver<Entry>) {
    // Changes that are not on disk yet, with the latest record of each job.
    let mut owed = Changes::new();
    loop {
        let first = handed_in.recv_timeout(INTERVAL);
        let is_closed = matches!(first, Err(RecvTimeoutError::Disconnected));
        // Further entries that have arrived are written with the first one, to wait only once for the disk.
        let waiting = take(store, first.into_iter().chain(handed_in.try_iter()), &mut owed);
        health.asks();
        let written = store.make(&owed);
        health.answered(&written);
        if written.is_ok() {
            owed.clear();
        }
        for done in waiting {
            // An error means that the caller does not wait for the outcome.
            let _ = done.send(written.clone());
        }
        if is_closed {
            return;
        }
    }
}

/// Adds submitted entries to the pending changes `owed`. Returns the channels for the outcome.
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

/// A job that was submitted to the journal. It is written even if no caller waits for the outcome.
#[derive(Debug)]
#[must_use = "whoever acts on a change waits until it is on disk"]
pub(crate) struct Written(Option<Waiting>);

#[derive(Debug)]
struct Waiting {
    written: oneshot::Receiver<Result<(), JournalError>>,
    health: Arc<Health>,
}

impl Written {
    /// Returns the outcome for a controller without a journal.
    pub(super) fn nowhere() -> Self {
        Self(None)
    }

    /// Waits until the job is on disk.
    /// After an error, the job is still written when the disk works again, unless a newer state was submitted in the
    /// meantime.
    ///
    /// # Errors
    /// The write failed.
    pub(crate) async fn outcome(self) -> Result<(), JournalError> {
        match self.0 {
            Some(waiting) => waiting.written.await.unwrap_or(Err(JournalError::Stopped)),
            None => Ok(()),
        }
    }

    /// Waits until the job is on disk, for at most [`ANSWER_PATIENCE`].
    ///
    /// # Errors
    /// The write failed, or the disk does not answer.
    pub(crate) async fn outcome_soon(self) -> Result<(), JournalError> {
        let health = self.0.as_ref().map(|waiting| Arc::clone(&waiting.health));
        match (timeout(ANSWER_PATIENCE, self.outcome()).await, health) {
            (Ok(outcome), _) => outcome,
            (Err(_), Some(health)) => Err(health.hangs(ANSWER_PATIENCE)),
            // Without a journal there is nothing to wait for.
            (Err(_), None) => Ok(()),
        }
    }
}
