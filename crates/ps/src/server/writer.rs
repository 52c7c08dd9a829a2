//! A thread that writes checkpoints, so that training does not wait for the disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::checkpoint::{self, Snapshot};
use super::stats::JobStats;

/// Writes one job's checkpoints.
pub(super) struct Writer {
    snapshots: Sender<Snapshot>,
    /// True while a snapshot is being written.
    busy: Arc<AtomicBool>,
    /// The thread. It returns true if the last snapshot was written.
    thread: JoinHandle<bool>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// The thread counts its successful and failed writes. At the end it repeats the last failed write,
    /// unless a later checkpoint was written.
    pub(super) fn start(file: PathBuf, stats: Arc<Mutex<JobStats>>) -> std::io::Result<Self> {
        let (snapshots, receiver) = mpsc::channel::<Snapshot>();
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        let write = move || {
            let write = |snapshot: &Snapshot| {
                let written = checkpoint::write(&file, snapshot);
                let mut stats = stats.lock();
                *if written.is_ok() { &mut stats.checkpoints } else { &mut stats.checkpoint_failures } += 1;
                written
            };
            let mut unwritten = None;
            for snapshot in receiver {
                let written = write(&snapshot);
                if let Err(error) = &written {
                    tracing::error!(%error, "training goes on without this checkpoint");
                }
                unwritten = written.is_err().then_some(snapshot);
                done.store(false, Ordering::Release);
            }
            let Some(Err(error)) = unwritten.as_ref().map(write) else { return true };
            tracing::error!(%error, "the updates since the last checkpoint are lost");
            false
        };
        let thread = thread::Builder::new().name("checkpoints".into()).spawn(write)?;
        Ok(Self { snapshots, busy, thread })
    }

    /// Returns true while the thread writes the last snapshot.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Queues a snapshot behind the previous one.
    pub(super) fn write(&self, snapshot: Snapshot) {
        self.busy.store(true, Ordering::Release);
        // The thread ends only when this writer is dropped.
        let _ = self.snapshots.send(snapshot);
    }

    /// Waits until all snapshots are written. Returns true if the last one was.
    pub(super) fn finish(self) -> bool {
        drop(self.snapshots);
        self.thread.join().unwrap_or(false)
    }
}
