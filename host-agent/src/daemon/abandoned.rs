//! Removes shared memory whose process ended before the agent had opened it. Its file would otherwise
//! stay until the machine restarts.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use rustix::fs::OFlags;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tributary_api::agent::SegmentName;

/// Removes the files of abandoned segments in the background: at the agent's start, and
/// after each notification.
#[derive(Debug)]
pub(crate) struct Cleaner {
    look: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Cleaner {
    /// Starts the cleaner's task and its first search. Must be called in a tokio runtime.
    pub(crate) fn start() -> Self {
        let look = Arc::new(Notify::new());
        look.notify_one();
        let told = Arc::clone(&look);
        // The searches run one after the other and on a blocking thread, because the folder may hold many files of
        // other programs.
        let task = tokio::spawn(async move {
            loop {
                told.notified().await;
                clean().await;
            }
        });
        Self { look, task }
    }

    /// Returns the notification that starts another search. The caller sends it when a process has ended.
    pub(crate) fn look(&self) -> Arc<Notify> {
        Arc::clone(&self.look)
    }

    /// Searches a last time, and ends the task.
    pub(crate) async fn finish(self) {
        self.task.abort();
        clean().await;
    }
}

async fn clean() {
    // An error means that the runtime stops. The next agent then searches.
    let _ = spawn_blocking(remove_abandoned).await;
}

/// Removes the files of segments that no process holds.
fn remove_abandoned() {
    let entries = match fs::read_dir(SegmentName::FOLDER) {
        Ok(entries) => entries,
        Err(error) => return tracing::debug!(%error, "cannot look for abandoned shared memory"),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<SegmentName>().ok());
    for name in names {
        if let Some(file) = abandoned(&name)
            && fs::remove_file(name.path()).is_ok()
        {
            let bytes = file.metadata().map(|file| file.len()).unwrap_or_default();
            tracing::info!(segment = %name, bytes, "removed shared memory that a process has left behind");
        }
    }
}

/// Opens and locks the file of a segment. `None` if a process holds the lock, or if the file cannot
/// be opened.
fn abandoned(name: &SegmentName) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(name.path()).ok()?;
    (file.metadata().ok()?.is_file() && file.try_lock().is_ok()).then_some(file)
}
