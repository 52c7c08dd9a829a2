//! The thread that writes. A disk may take its time, and only those who have to know wait for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::health::Health;
use super::store::Store;
use super::stored::StoredJob;
use super::{Changes, JournalError};
use crate::jobs::JobKey;

/// Between two attempts to write what the disk has not taken, and between two looks at whether the file is still there.
const INTERVAL: Duration = Duration::from_secs(1);
/// Who waits for a disk that does not answer is told so after this time.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

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
    health: Arc<Health>,
}

impl Writer {
    /// `patience`: how long the disk may take before it is said to hang.
    pub(super) fn start(store: Arc<Store>, patience: Duration) -> io::Result<Self> {
        let (entries, handed_in) = channel();
        let health = Health::watched(store.file().to_owned(), patience)?;
        let tell = Arc::clone(&health);
        let work = move || {
            work(&store, &tell, &handed_in);
            tell.close();
        };
        let thread = thread::Builder::new().name("journal".into()).spawn(work)?;
        Ok(Self { entries: Some(entries), thread: Some(thread), health })
    }

    /// What stands in the way of writing; `None`: nothing.
    pub(super) fn problem(&self) -> Option<JournalError> {
        self.health.problem()
    }

    /// What the disk has refused to take, the last time that this was tried.
    pub(super) fn refusal(&self) -> Option<JournalError> {
        self.health.refusal()
    }

    pub(super) fn write(&self, key: JobKey, job: Option<StoredJob>) -> Written {
        let (done, written) = oneshot::channel();
        if let Some(entries) = &self.entries {
            // Without a thread nobody answers, which is what whoever waits is told.
            let _ = entries.send(Entry { key, job, done });
        }
        Written(Some(Waiting { written, health: Arc::clone(&self.health) }))
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

fn work(store: &Store, health: &Health, handed_in: &Receiver<Entry>) {
    // What is not on disk yet: each job as it was handed in last.
    let mut owed = Changes::new();
    loop {
        let first = handed_in.recv_timeout(INTERVAL);
        let is_closed = matches!(first, Err(RecvTimeoutError::Disconnected));
        // What has come meanwhile goes with it: the disk is waited for once.
        let waiting = take(store, first.into_iter().chain(handed_in.try_iter()), &mut owed);
        health.asks();
        let written = store.make(&owed);
        health.answered(&written);
        if written.is_ok() {
            owed.clear();
        }
        for done in waiting {
            // Not everyone waits.
            let _ = done.send(written.clone());
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

/// A job that was handed in. Whoever drops it does not wait; it is written all the same, as soon as the disk can.
#[derive(Debug)]
#[must_use = "whoever acts on a change waits until it is on disk"]
pub(crate) struct Written(Option<Waiting>);

#[derive(Debug)]
struct Waiting {
    written: oneshot::Receiver<Result<(), JournalError>>,
    health: Arc<Health>,
}

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
            Some(waiting) => waiting.written.await.unwrap_or(Err(JournalError::Stopped)),
            None => Ok(()),
        }
    }

    /// As [`outcome`](Self::outcome), for a caller that is to be answered in any case.
    ///
    /// # Errors
    /// The disk has not taken it, or does not answer.
    pub(crate) async fn outcome_soon(self) -> Result<(), JournalError> {
        let health = self.0.as_ref().map(|waiting| Arc::clone(&waiting.health));
        match (timeout(ANSWER_PATIENCE, self.outcome()).await, health) {
            (Ok(outcome), _) => outcome,
            (Err(_), Some(health)) => Err(health.hangs(ANSWER_PATIENCE)),
            // Where nothing is written down, nothing is waited for.
            (Err(_), None) => Ok(()),
        }
    }
}
