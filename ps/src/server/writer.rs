//! A thread that writes checkpoints, as the disk is slow and training should not wait for it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::checkpoint::{self, Snapshot};
use super::stats::JobStats;

/// Writes one job's checkpoints.
pub(super) struct Writer {
    snapshots: Sender<Snapshot>,
    /// Whether a snapshot is on its way to the disk.
    busy: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread; it counts the checkpoints that it has written.
    pub(super) fn start(file: PathBuf, stats: Arc<Mutex<JobStats>>) -> std::io::Result<Self> {
        let (snapshots, receiver) = mpsc::channel::<Snapshot>();
        let busy = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&busy);
        let write = move || {
            for snapshot in receiver {
                match checkpoint::write(&file, &snapshot) {
                    Ok(()) => stats.lock().unwrap_or_else(PoisonError::into_inner).checkpoints += 1,
                    Err(error) => tracing::error!(%error, "training goes on without this checkpoint"),
                }
                done.store(false, Ordering::Release);
            }
        };
        let thread = thread::Builder::new().name("checkpoints".into()).spawn(write)?;
        Ok(Self { snapshots, busy, thread })
    }

    /// Whether the last snapshot is still being written.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Writes a snapshot after the last one.
    pub(super) fn write(&self, snapshot: Snapshot) {
        self.busy.store(true, Ordering::Release);
        // The thread ends only when this is dropped.
        let _ = self.snapshots.send(snapshot);
    }

    /// Waits until everything is written.
    pub(super) fn finish(self) {
        drop(self.snapshots);
        let _ = self.thread.join();
    }
}
