//! Jobs on disk, for a controller that starts again: everything that is worth keeping of each job, written before
//! anybody acts on it.
//!
//! The file is a [`redb`] database: a write is there whole or not at all, whenever the power goes, and pages carry
//! checksums. What is in it is JSON, one record a job, with nodes by their names.

mod stored;

use std::io;
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};
use thiserror::Error;
use tributary_topology::Topology;

use crate::jobs::{Job, JobKey, JobRecord};
use stored::StoredJob;

/// The file in the folder of the controller's state.
const FILE: &str = "jobs.redb";
/// The format of the records. A controller reads its own, and refuses a newer one.
const FORMAT: u64 = 1;

const JOBS: TableDefinition<'_, JobKey, &[u8]> = TableDefinition::new("jobs");
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const FORMAT_KEY: &str = "format";

/// Why jobs cannot be written down, or read.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The folder cannot be made.
    #[error("{}: cannot make the folder of the controller's state: {reason}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the operating system says.
        reason: io::Error,
    },
    /// Another controller has the file.
    #[error("{}: another controller has it open: stop that one, or give this one another --state", file.display())]
    InUse {
        /// The file.
        file: PathBuf,
    },
    /// The file is damaged, or none of ours. It is left as it is.
    #[error(
        "{}: not a journal of jobs, or a damaged one ({reason}). Nothing in it was changed: bring it back from a \
         backup, or move it away to start without jobs",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer version has written the file.
    #[error(
        "{}: written by a newer version (format {found}; this one reads up to {FORMAT}): start that version again, or \
         give this one another --state",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The disk is full, or broken. What was written before is still there.
    #[error("{}: cannot write: {reason}. Make room, or look after the disk", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Where jobs are written down.
#[derive(Debug, Default)]
pub(crate) struct Journal(Option<Open>);

#[derive(Debug)]
struct Open {
    database: Database,
    file: PathBuf,
}

impl Journal {
    /// The journal in a folder, which is made if it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Self, JournalError> {
        let to_folder = |reason| JournalError::Folder { folder: folder.to_owned(), reason };
        std::fs::create_dir_all(folder).map_err(to_folder)?;
        let file = folder.join(FILE);
        let database = Database::create(&file).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => JournalError::InUse { file: file.clone() },
            DatabaseError::Storage(StorageError::Io(reason))
                if reason.kind() != io::ErrorKind::InvalidData =>
            {
                JournalError::Write { file: file.clone(), reason: reason.to_string() }
            }
            other => JournalError::Damaged { file: file.clone(), reason: other.to_string() },
        })?;
        let open = Open { database, file };
        open.check_format()?;
        Ok(Self(Some(open)))
    }

    /// Whether jobs outlive the controller.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Writes a job down as it is now; one that is over is forgotten.
    pub(crate) fn keep(&self, topology: &Topology, key: JobKey, job: &Job) -> Result<(), JournalError> {
        let Some(open) = &self.0 else { return Ok(()) };
        let bytes = match job.is_alive() {
            true => {
                Some(StoredJob::new(topology, job).to_json().map_err(|reason| open.cannot_write(reason))?)
            }
            false => None,
        };
        open.put(key, bytes.as_deref()).map_err(|reason| open.cannot_write(reason))
    }

    /// All jobs that were alive, by the order of their creation.
    pub(crate) fn load(&self, topology: &Topology) -> Result<Vec<Kept>, JournalError> {
        let Some(open) = &self.0 else { return Ok(Vec::new()) };
        let records = open.records().map_err(|reason| open.damaged(&reason))?;
        let kept = |(key, bytes): (JobKey, Vec<u8>)| {
            let stored = StoredJob::from_json(&bytes).map_err(|reason| open.damaged(&reason))?;
            let name = stored.name.clone();
            let has_started = stored.has_started;
            let (elastic, is_queued) = (stored.elastic, stored.is_queued);
            let record = stored.into_record(topology);
            let record = record.map_err(|reason| reason.to_string());
            Ok(Kept { key, name, has_started, is_queued, elastic, record })
        };
        records.into_iter().map(kept).collect()
    }
}

/// A job as it was written down.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) key: JobKey,
    pub(crate) name: String,
    /// Its members had been told to start.
    pub(crate) has_started: bool,
    /// It waits for slots.
    pub(crate) is_queued: bool,
    /// Its processes cope with others that join.
    pub(crate) elastic: bool,
    /// Its record; or what of it does not fit the topology any more.
    pub(crate) record: Result<JobRecord, String>,
}

impl Open {
    fn check_format(&self) -> Result<(), JournalError> {
        let found = self.format().map_err(|reason| self.damaged(&reason))?;
        match found {
            Some(found) if found > FORMAT => Err(JournalError::Newer { file: self.file.clone(), found }),
            Some(_) => Ok(()),
            None => self.write_format().map_err(|reason| self.cannot_write(reason)),
        }
    }

    fn format(&self) -> Result<Option<u64>, redb::Error> {
        let read = self.database.begin_read()?;
        match read.open_table(ABOUT) {
            Ok(table) => Ok(table.get(FORMAT_KEY)?.map(|value| value.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write_format(&self) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        write.open_table(ABOUT)?.insert(FORMAT_KEY, FORMAT)?;
        write.open_table(JOBS)?;
        write.commit()?;
        Ok(())
    }

    fn put(&self, key: JobKey, bytes: Option<&[u8]>) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(JOBS)?;
            match bytes {
                Some(bytes) => drop(table.insert(key, bytes)?),
                None => drop(table.remove(key)?),
            }
        }
        write.commit()?;
        Ok(())
    }

    fn records(&self) -> Result<Vec<(JobKey, Vec<u8>)>, redb::Error> {
        let read = self.database.begin_read()?;
        let table = read.open_table(JOBS)?;
        let mut records = Vec::new();
        for entry in table.iter()? {
            let (key, bytes) = entry?;
            records.push((key.value(), bytes.value().to_vec()));
        }
        Ok(records)
    }

    fn damaged(&self, reason: &dyn std::error::Error) -> JournalError {
        JournalError::Damaged { file: self.file.clone(), reason: reason.to_string() }
    }

    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    fn cannot_write(&self, reason: impl std::error::Error) -> JournalError {
        JournalError::Write { file: self.file.clone(), reason: reason.to_string() }
    }
}
