//! The journal: jobs on disk, for a controller that restarts.
//!
//! A change of a job that must survive the controller is written before the controller or a member acts on it.
//!
//! Callers submit jobs while they hold the lock of the controller's state, so that the jobs reach the disk in the order
//! in which they changed. They wait for the disk after they have released the lock.

mod error;
#[cfg(feature = "journal")]
mod file_identity;
mod health;
#[cfg(feature = "journal")]
mod store;
#[cfg(not(feature = "journal"))]
#[path = "without_store.rs"]
mod store;
mod stored;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tributary_topology::Topology;

use crate::jobs::{Job, JobKey, JobRecord};
pub use error::JournalError;
use store::Store;
use stored::StoredJob;
use writer::Writer;
pub(crate) use writer::Written;

/// The journal of jobs. `None` if the controller runs without a journal.
#[derive(Debug, Default)]
pub(crate) struct Journal(Option<Open>);

#[derive(Debug)]
struct Open {
    writer: Writer,
    store: Arc<Store>,
}

impl Journal {
    /// Opens the journal in `folder`, and creates the folder if it does not exist.
    pub(crate) fn open(folder: &Path) -> Result<Self, JournalError> {
        Self::of(Store::in_folder(folder)?, health::PATIENCE)
    }

    fn of(store: Store, patience: Duration) -> Result<Self, JournalError> {
        let store = Arc::new(store);
        let writer = Writer::start(Arc::clone(&store), patience);
        let writer = writer.map_err(|reason| JournalError::Thread(reason.to_string()))?;
        Ok(Self(Some(Open { writer, store })))
    }

    /// Returns true if there is a journal, so that jobs survive the controller.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until all submitted jobs are on disk, and closes the file, so that another controller can open
    /// it.
    pub(crate) fn close(&self) {
        if let Some(open) = &self.0 {
            open.writer.close();
        }
    }

    /// Returns true if there is a journal and this controller created it.
    pub(crate) fn is_new(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.store.is_new())
    }

    /// Returns the error that prevents writing jobs to disk; `None` if writes succeed.
    pub(crate) fn problem(&self) -> Option<JournalError> {
        self.0.as_ref().and_then(|open| open.writer.problem())
    }

    /// Returns the error of the last write; `None` if it succeeded or is still in progress.
    pub(crate) fn refusal(&self) -> Option<JournalError> {
        self.0.as_ref().and_then(|open| open.writer.refusal())
    }

    /// Submits the present state of a job to be written. A job that is over is removed from the journal.
    pub(crate) fn keep(&self, topology: &Topology, key: JobKey, job: &Job) -> Written {
        let Some(open) = &self.0 else { return Written::nowhere() };
        open.writer.write(key, job.is_alive().then(|| StoredJob::new(topology, job)))
    }

    /// Returns all jobs in the journal, in the order of their creation.
    pub(crate) fn load(&self, topology: &Topology) -> Result<Vec<LoadedJob>, JournalError> {
        let Some(Open { store, .. }) = &self.0 else { return Ok(Vec::new()) };
        let kept = |(key, bytes): (JobKey, Vec<u8>)| {
            let stored = StoredJob::from_json(&bytes).map_err(|reason| store.damaged(&reason))?;
            let name = stored.name.clone();
            let has_started = stored.has_started;
            let (elastic, is_queued) = (stored.elastic, stored.is_queued);
            let record = stored.into_record(topology);
            let record = record.map_err(|reason| reason.to_string());
            Ok(LoadedJob { key, name, has_started, is_queued, elastic, record })
        };
        store.records().into_iter().map(kept).collect()
    }
}

/// Checks a job's record as a starting controller would, and returns the job's name. An entry point for
/// fuzzing.
///
/// # Errors
/// The record is damaged, or does not fit the topology.
pub fn check_record(record: &[u8], topology: &Topology) -> Result<String, String> {
    let stored = StoredJob::from_json(record).map_err(|reason| reason.to_string())?;
    stored.into_record(topology).map(|record| record.name).map_err(|reason| reason.to_string())
}

/// A job that was read from the journal.
#[derive(Debug)]
pub(crate) struct LoadedJob {
    pub(crate) key: JobKey,
    pub(crate) name: String,
    /// True if the controller had sent the start to the job's members.
    pub(crate) has_started: bool,
    /// True if the job waits for slots.
    pub(crate) is_queued: bool,
    /// True if the job's processes support other processes that join and leave.
    pub(crate) elastic: bool,
    /// The job's record, or the reason why it no longer fits the topology.
    pub(crate) record: Result<JobRecord, String>,
}
