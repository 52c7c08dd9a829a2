//! The journal's file: a [`redb`] database.
//!
//! A write takes effect completely or not at all, even if the power fails. Pages carry checksums. The database has one
//! JSON record for each job. Records identify nodes by name.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::mem;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, WriteTransaction,
};

use super::error::{FORMAT, JournalError};
use super::file_identity::{FileIdentity, FileStatus};
use super::stored::Changes;
use crate::jobs::JobKey;

/// The name of the journal's file in the folder of the controller's state.
const FILE: &str = "jobs.redb";
/// The temporary name of a new file. It is renamed when it is complete, so that `FILE` is always a
/// complete journal.
const NEW_FILE: &str = "jobs.redb.new";

/// File mode: only the owner may read and write the file.
const OWNER_ONLY: u32 = 0o600;

const JOBS: TableDefinition<'_, JobKey, &[u8]> = TableDefinition::new("jobs");
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
const FORMAT_KEY: &str = "format";

type Opener = Box<dyn Fn() -> Result<Database, DatabaseError> + Send + Sync>;

pub(super) struct Store {
    state: Mutex<StoreState>,
    file: JobsFile,
    /// True if this controller created the journal.
    is_new: bool,
}

struct StoreState {
    /// `None` after an error. After a disk error, a database must be opened again.
    database: Option<Database>,
    /// The identity of the database's file; `None` for a database without a file.
    identity: Option<FileIdentity>,
    /// All records. If the file is removed, they are written to a new file.
    records: BTreeMap<JobKey, Vec<u8>>,
}

/// The path of the database's file, and a function that opens the database.
struct JobsFile {
    path: PathBuf,
    open: Opener,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("file", &self.file.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the journal in the folder, or creates a new one there.
    pub(super) fn in_folder(folder: &Path) -> Result<Self, JournalError> {
        let to_folder = |reason: io::Error| JournalError::Folder {
            folder: folder.to_owned(),
            reason: reason.to_string(),
        };
        let path = folder.join(FILE);
        let is_new = !path.try_exists().map_err(to_folder)?;
        if is_new {
            make(&path, &BTreeMap::new())?;
            tracing::info!(file = %path.display(), "a new, empty journal of jobs");
        } else if std::fs::metadata(&path).map_err(to_folder)?.len() == 0 {
            return Err(JournalError::Damaged { file: path, reason: "it is empty".to_owned() });
        } else {
            // Earlier versions created the file with read access for all users.
            std::fs::set_permissions(&path, Permissions::from_mode(OWNER_ONLY)).map_err(to_folder)?;
        }
        let identity = FileIdentity::of(&path).map_err(to_folder)?;
        let opened = path.clone();
        // The check is needed even after a clean close, because the library would panic at damaged pages.
        let open = move || Database::builder().set_check_integrity_on_open(true).open(&opened);
        Self::opened(JobsFile { path, open: Box::new(open) }, Some(identity), is_new)
    }

    /// Creates a store whose database is not in a file.
    #[cfg(test)]
    pub(super) fn without_file(
        name: &str,
        open: impl Fn() -> Result<Database, DatabaseError> + Send + Sync + 'static,
    ) -> Result<Self, JournalError> {
        Self::opened(JobsFile { path: name.into(), open: Box::new(open) }, None, false)
    }

    /// Opens the database, checks its format, and reads its records.
    fn opened(file: JobsFile, identity: Option<FileIdentity>, is_new: bool) -> Result<Self, JournalError> {
        let mut state = StoreState { database: None, identity, records: BTreeMap::new() };
        let found =
            file.with(&mut state, |database| format(database).map_err(|reason| file.damaged(&reason)))?;
        match found {
            Some(FORMAT) => {}
            Some(found) if found > FORMAT => return Err(JournalError::Newer { file: file.path, found }),
            Some(_) | None => {
                let reason = "it says nothing of its format".to_owned();
                return Err(JournalError::Damaged { file: file.path, reason });
            }
        }
        state.records =
            file.with(&mut state, |database| records(database).map_err(|reason| file.damaged(&reason)))?;
        Ok(Self { state: Mutex::new(state), file, is_new })
    }

    /// Returns the path of the file.
    pub(super) fn file(&self) -> &Path {
        &self.file.path
    }

    /// Returns true if this controller created the journal.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Makes all of `changes`, or none of them.
    ///
    /// If the file has been removed, first writes all records to a new file.
    pub(super) fn make(&self, changes: &Changes) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        self.ensure_file(&mut state)?;
        if changes.is_empty() {
            return Ok(());
        }
        let write = |database: &Database| put(database, changes).map_err(|reason| self.cannot_write(&reason));
        self.file.with(&mut state, write)?;
        for (key, bytes) in changes {
            match bytes {
                Some(bytes) => drop(state.records.insert(*key, bytes.clone())),
                None => drop(state.records.remove(key)),
            }
        }
        Ok(())
    }

    /// Closes the file. The next write would open it again.
    pub(super) fn close(&self) {
        self.state.lock().database = None;
    }

    /// Returns all records, in the order of their keys.
    pub(super) fn records(&self) -> Vec<(JobKey, Vec<u8>)> {
        self.state.lock().records.iter().map(|(key, bytes)| (*key, bytes.clone())).collect()
    }

    /// Ensures that the open file is still the file with the journal's name. Other writes would be lost.
    ///
    /// If the journal was removed, this controller writes it again with all records, not only with the changed ones. If
    /// another file has the name, or another program has written into the file, this controller does not touch the
    /// file. It may be a backup or another controller's journal.
    fn ensure_file(&self, state: &mut StoreState) -> Result<(), JournalError> {
        let Some(identity) = &mut state.identity else { return Ok(()) };
        let path = self.file();
        let file = path.to_owned();
        match identity.status(path) {
            Ok(FileStatus::Kept) => Ok(()),
            Ok(FileStatus::Taken) => Err(JournalError::Replaced { file }),
            Ok(FileStatus::Overwritten) => {
                // The database is not closed, because closing it would write to the file.
                mem::forget(state.database.take());
                Err(JournalError::Overwritten { file })
            }
            Ok(FileStatus::Gone) => {
                make(path, &state.records)?;
                state.database = None;
                *identity = FileIdentity::of(path).map_err(|reason| self.cannot_write(&reason))?;
                let (file, jobs) = (path.display(), state.records.len());
                tracing::warn!(%file, jobs, "the journal of jobs was removed: it was written anew, with all jobs");
                Ok(())
            }
            Err(reason) => Err(JournalError::NoWay { file, reason: reason.to_string() }),
        }
    }

    pub(super) fn damaged(&self, reason: &dyn Error) -> JournalError {
        self.file.damaged(reason)
    }

    pub(super) fn cannot_write(&self, reason: &dyn Error) -> JournalError {
        self.file.cannot_write(reason)
    }
}

impl JobsFile {
    /// Runs `work` on the database. Opens the database first if it is not open.
    fn with<T>(
        &self,
        state: &mut StoreState,
        work: impl FnOnce(&Database) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let database = match state.database.take() {
            Some(database) => database,
            None => self.guarded(|| self.open())?,
        };
        let done = self.guarded(|| work(&database));
        match (&done, &mut state.identity) {
            (Ok(_), Some(identity)) => identity.leave(&self.path),
            (Err(_), Some(identity)) => identity.lose_sight(),
            (_, None) => {}
        }
        if done.is_ok() {
            state.database = Some(database);
        }
        done
    }

    fn open(&self) -> Result<Database, JournalError> {
        (self.open)().map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => JournalError::InUse { file: self.path.clone() },
            DatabaseError::Storage(StorageError::Io(reason)) if !is_damage(&reason) => {
                self.cannot_write(&reason)
            }
            other => self.damaged(&other),
        })
    }

    /// Runs `work`, and turns panics into errors, because the library panics at some damaged pages.
    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, JournalError>) -> Result<T, JournalError> {
        // It is safe to continue after a panic: unwinding drops the database, so that it is not used again.
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            let reason = "a page of it makes no sense".to_owned();
            Err(JournalError::Damaged { file: self.path.clone(), reason })
        })
    }

    fn damaged(&self, reason: &dyn Error) -> JournalError {
        JournalError::Damaged { file: self.path.clone(), reason: reason.to_string() }
    }

    fn cannot_write(&self, reason: &dyn Error) -> JournalError {
        cannot_write(&self.path, reason)
    }
}

/// Returns true if the library reports damage of the file as a disk error.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn cannot_write(file: &Path, reason: &dyn Error) -> JournalError {
    JournalError::Write { file: file.to_owned(), reason: reason.to_string() }
}

/// Creates a file with these jobs, and its folder if necessary. The file gets its final name when it is
/// complete.
fn make(file: &Path, jobs: &BTreeMap<JobKey, Vec<u8>>) -> Result<(), JournalError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let to_folder =
        |reason: io::Error| JournalError::Folder { folder: folder.to_owned(), reason: reason.to_string() };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(to_folder)?;
    let new = folder.join(NEW_FILE);
    // An unfinished file of an earlier attempt can be removed, because `jobs` includes all of its records.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(to_folder(error)),
        _ => fill(&new, jobs)?,
    }
    std::fs::rename(&new, file).map_err(to_folder)?;
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(to_folder)
}

/// Writes the records to a new file. Only the owner may ever read the file, because it contains the
/// jobs' tokens.
fn fill(file: &Path, jobs: &BTreeMap<JobKey, Vec<u8>>) -> Result<(), JournalError> {
    let private = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(file);
    private.map_err(|error| cannot_write(file, &error))?;
    let database = Database::create(file).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => JournalError::InUse { file: file.to_owned() },
        error => cannot_write(file, &error),
    })?;
    let jobs = jobs.iter().map(|(key, bytes)| (*key, Some(bytes.clone()))).collect();
    prepare(&database).and_then(|()| put(&database, &jobs)).map_err(|reason| cannot_write(file, &reason))
}

/// Creates the tables of an empty database.
pub(super) fn prepare(database: &Database) -> Result<(), redb::Error> {
    let write = begin_write(database)?;
    write.open_table(ABOUT)?.insert(FORMAT_KEY, FORMAT)?;
    write.open_table(JOBS)?;
    write.commit()?;
    Ok(())
}

fn format(database: &Database) -> Result<Option<u64>, redb::Error> {
    let read = database.begin_read()?;
    match read.open_table(ABOUT) {
        Ok(table) => Ok(table.get(FORMAT_KEY)?.map(|value| value.value())),
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Begins a write transaction that is committed in two phases.
/// The next open then knows that the last write was complete, and refuses a damaged file. After a commit in one phase,
/// the next open would take damage for a crash during the last write, and would silently return to the write before.
fn begin_write(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut write = database.begin_write()?;
    write.set_two_phase_commit(true);
    Ok(write)
}

fn put(database: &Database, changes: &Changes) -> Result<(), redb::Error> {
    let write = begin_write(database)?;
    {
        let mut table = write.open_table(JOBS)?;
        for (key, bytes) in changes {
            match bytes {
                Some(bytes) => drop(table.insert(key, bytes.as_slice())?),
                None => drop(table.remove(key)?),
            }
        }
    }
    write.commit()?;
    Ok(())
}

fn records(database: &Database) -> Result<BTreeMap<JobKey, Vec<u8>>, redb::Error> {
    let read = database.begin_read()?;
    let table = read.open_table(JOBS)?;
    let mut records = BTreeMap::new();
    for entry in table.iter()? {
        let (key, bytes) = entry?;
        records.insert(key.value(), bytes.value().to_vec());
    }
    Ok(records)
}
