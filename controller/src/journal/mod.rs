//! Jobs on disk, for a controller that starts again: everything that is worth keeping of each job, written before
//! anybody acts on it.
//!
//! The file is a [`redb`] database: a write is there whole or not at all, whenever the power goes, and pages carry
//! checksums. What is in it is JSON, one record a job, with nodes by their names.

mod stored;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};
use thiserror::Error;
use tributary_topology::Topology;

use crate::jobs::{Job, JobKey, JobRecord};
use stored::StoredJob;

/// The file in the folder of the controller's state.
const FILE: &str = "jobs.redb";
/// Where it is made, before it gets its name: so what has the name is a whole journal, or was one.
const NEW_FILE: &str = "jobs.redb.new";
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
    /// The file is damaged, or none of ours. It is left where it is.
    #[error(
        "{}: not a journal of jobs, or a damaged one ({reason}). It is left where it is: bring it back from a \
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
    #[error("{}: cannot write ({reason}): make room, or look after the disk", file.display())]
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
    /// None after a write has failed: a database that has seen an error of the disk wants to be opened again.
    database: Mutex<Option<Database>>,
    file: PathBuf,
}

impl Journal {
    /// The journal in a folder, which is made if it is not there.
    pub(crate) fn open(folder: &Path) -> Result<Self, JournalError> {
        let to_folder = |reason| JournalError::Folder { folder: folder.to_owned(), reason };
        std::fs::create_dir_all(folder).map_err(to_folder)?;
        let file = folder.join(FILE);
        if !file.try_exists().map_err(to_folder)? {
            let new = folder.join(NEW_FILE);
            // What an earlier controller could not finish has no jobs.
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(to_folder(error)),
                _ => drop(Open::at(&new)?),
            }
            std::fs::rename(&new, &file).map_err(to_folder)?;
            std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(to_folder)?;
        } else if std::fs::metadata(&file).map_err(to_folder)?.len() == 0 {
            // A database library would begin anew in it.
            return Err(JournalError::Damaged { file, reason: "it is empty".to_owned() });
        }
        Ok(Self(Some(Open::at(&file)?)))
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
        open.put(key, bytes.as_deref())
    }

    /// All jobs that were alive, by the order of their creation.
    pub(crate) fn load(&self, topology: &Topology) -> Result<Vec<Kept>, JournalError> {
        let Some(open) = &self.0 else { return Ok(Vec::new()) };
        let records = open.records()?;
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
    /// A journal that is there, or a new one.
    fn at(file: &Path) -> Result<Self, JournalError> {
        let open = Self { database: Mutex::default(), file: file.to_owned() };
        open.with(|database| open.check_format(database))?;
        Ok(open)
    }

    /// Does something with the database, which is opened for that if it has to be.
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, JournalError>) -> Result<T, JournalError> {
        // A panic inside left nothing here that is half done.
        let mut slot = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let database = match slot.take() {
            Some(database) => database,
            None => self.open_database()?,
        };
        let done = self.guarded(|| work(&database));
        if done.is_ok() {
            *slot = Some(database);
        }
        done
    }

    fn open_database(&self) -> Result<Database, JournalError> {
        let file = || self.file.clone();
        self.guarded(|| {
            let mut database = Database::create(&self.file).map_err(|error| match error {
                DatabaseError::DatabaseAlreadyOpen => JournalError::InUse { file: file() },
                DatabaseError::Storage(StorageError::Io(reason))
                    if !matches!(
                        reason.kind(),
                        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                    ) =>
                {
                    JournalError::Write { file: file(), reason: reason.to_string() }
                }
                other => self.damaged(&other),
            })?;
            // It is looked through by itself only where it was not closed.
            database.check_integrity().map_err(|reason| self.damaged(&reason))?;
            Ok(database)
        })
    }

    /// The library panics at some pages that are not as it has written them.
    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, JournalError>) -> Result<T, JournalError> {
        // Whatever was in the middle of something is dropped by the unwinding, and not used again.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err(JournalError::Damaged {
                file: self.file.clone(),
                reason: "a page of it makes no sense".into(),
            })
        })
    }

    fn check_format(&self, database: &Database) -> Result<(), JournalError> {
        let found = format(database).map_err(|reason| self.damaged(&reason))?;
        match found {
            Some(found) if found > FORMAT => Err(JournalError::Newer { file: self.file.clone(), found }),
            Some(_) => Ok(()),
            None => write_format(database).map_err(|reason| self.cannot_write(reason)),
        }
    }

    fn put(&self, key: JobKey, bytes: Option<&[u8]>) -> Result<(), JournalError> {
        self.with(|database| put(database, key, bytes).map_err(|reason| self.cannot_write(reason)))
    }

    fn records(&self) -> Result<Vec<(JobKey, Vec<u8>)>, JournalError> {
        self.with(|database| records(database).map_err(|reason| self.damaged(&reason)))
    }

    fn damaged(&self, reason: &dyn std::error::Error) -> JournalError {
        JournalError::Damaged { file: self.file.clone(), reason: reason.to_string() }
    }

    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    fn cannot_write(&self, reason: impl std::error::Error) -> JournalError {
        JournalError::Write { file: self.file.clone(), reason: reason.to_string() }
    }
}

fn format(database: &Database) -> Result<Option<u64>, redb::Error> {
    let read = database.begin_read()?;
    match read.open_table(ABOUT) {
        Ok(table) => Ok(table.get(FORMAT_KEY)?.map(|value| value.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write_format(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.open_table(ABOUT)?.insert(FORMAT_KEY, FORMAT)?;
    write.open_table(JOBS)?;
    write.commit()?;
    Ok(())
}

fn put(database: &Database, key: JobKey, bytes: Option<&[u8]>) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
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

fn records(database: &Database) -> Result<Vec<(JobKey, Vec<u8>)>, redb::Error> {
    let read = database.begin_read()?;
    let table = read.open_table(JOBS)?;
    let mut records = Vec::new();
    for entry in table.iter()? {
        let (key, bytes) = entry?;
        records.push((key.value(), bytes.value().to_vec()));
    }
    Ok(records)
}
