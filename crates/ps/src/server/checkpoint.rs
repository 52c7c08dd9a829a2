//! Checkpoints: one file per job, replaced as a whole.
//!
//! | bytes | |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | [`VERSION`], little-endian |
//! | 4 | CRC-32 of what follows, little-endian |
//! | rest | [`Snapshot`] in postcard's format |
//!
//! The server writes a new file beside the old one, syncs it, and renames it over the old one. So a crash leaves
//! either the old file or the new one.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use thiserror::Error;
use tributary_files::check_output;

use super::spec::JobSpec;
use crate::optimizer::OptimizerState;
use crate::policy::Worker;

const MAGIC: [u8; 8] = *b"TRIBPS\r\n";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
/// The most bytes of a snapshot besides its values: two numbers of up to 13 bytes for each worker, and
/// some reserve.
const SNAPSHOT_ROOM: u64 = 1 << 20;

/// Everything that a job needs to continue after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) job: String,
    /// The range's first parameter in the model.
    pub(super) first: u64,
    pub(super) parameters: Vec<f32>,
    pub(super) optimizer: OptimizerState,
    /// Number of gradients of each worker that the parameters contain, so that each gradient counts only
    /// once.
    pub(super) used: BTreeMap<Worker, u64>,
    pub(super) updates: u64,
}

/// The error that prevents writing or using a checkpoint.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// A system call failed.
    #[error("cannot {doing} the checkpoint {path}: {error}")]
    Io {
        /// The attempted action: "read", "write" or "lock".
        doing: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another server writes this file.
    #[error(
        "another parameter server has the checkpoint {path}: give each a folder of its own, or jobs of other names"
    )]
    Taken {
        /// The file's path.
        path: PathBuf,
    },
    /// The content of the file is not a checkpoint of this job.
    #[error("{path} is {what}: put a good copy there, or remove it to start the job anew")]
    Unusable {
        /// The file's path.
        path: PathBuf,
        /// The problem with the file.
        what: String,
    },
    /// The snapshot cannot be encoded.
    #[error("cannot write the checkpoint {path}: {error}")]
    Format {
        /// The file's path.
        path: PathBuf,
        /// The encoder's error.
        error: postcard::Error,
    },
}

/// Returns the path of a job's file in a folder.
pub(super) fn path(folder: &Path, job: &str) -> PathBuf {
    folder.join(format!("{job}.checkpoint"))
}

/// Locks a job's file against other servers while the returned file is open.
///
/// The lock ends with this process, also after a crash. The lock is held on a second file, because each
/// write replaces the job's file. Returns `None` if the folder does not exist, or if its file system
/// has no locks.
pub(super) fn lock(path: &Path) -> Result<Option<File>, CheckpointError> {
    let failed = |error| CheckpointError::Io { doing: "lock", path: path.into(), error };
    let lock = path.with_extension("lock");
    check_output(&lock).map_err(failed)?;
    let file = match File::create(lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(CheckpointError::Taken { path: path.into() }),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Replaces the last snapshot by `snapshot`.
pub(super) fn write(path: &Path, snapshot: &Snapshot) -> Result<(), CheckpointError> {
    let body = postcard::to_stdvec(snapshot);
    let body = body.map_err(|error| CheckpointError::Format { path: path.into(), error })?;
    replace(path, &body).map_err(|error| CheckpointError::Io { doing: "write", path: path.into(), error })
}

fn replace(path: &Path, body: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(&MAGIC)?;
    file.write_all(&VERSION.to_le_bytes())?;
    file.write_all(&crc32fast::hash(body).to_le_bytes())?;
    file.write_all(body)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // The rename survives a crash only if the folder is synced, too.
    File::open(folder)?.sync_all()
}

/// Reads the last snapshot of a job, if one exists.
///
/// Does not read much more than the job's largest possible snapshot.
pub(super) fn read(path: &Path, job: &JobSpec) -> Result<Option<Snapshot>, CheckpointError> {
    let failed = |error| CheckpointError::Io { doing: "read", path: path.into(), error };
    let unusable = |what: String| CheckpointError::Unusable { path: path.into(), what };
    if check_output(path).is_err() {
        return Err(unusable("not a regular file".to_owned()));
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut header = Vec::with_capacity(HEADER_LEN);
    (&mut file).take(HEADER_LEN as u64).read_to_end(&mut header).map_err(failed)?;
    let checksum = parse_header(&header).map_err(unusable)?;
    let (most, mut body) = (longest(job), Vec::new());
    file.take(most + 1).read_to_end(&mut body).map_err(failed)?;
    if body.len() as u64 > most {
        let problem = format!("longer than {most} bytes, which the job's max-parameters allow");
        return Err(unusable(problem));
    }
    if checksum != crc32fast::hash(&body) {
        return Err(unusable("damaged: its checksum is wrong".to_owned()));
    }
    let snapshot: Snapshot =
        postcard::from_bytes(&body).map_err(|error| unusable(format!("unreadable: {error}")))?;
    if snapshot.job != job.name {
        return Err(unusable(format!("a checkpoint of job {:?}", snapshot.job)));
    }
    let (parameters, most) = (snapshot.parameters.len(), job.max_parameters);
    if parameters as u64 > most {
        return Err(unusable(format!(
            "a checkpoint of {parameters} parameters, and the job's max-parameters are {most}"
        )));
    }
    Ok(Some(snapshot))
}

/// Checks the header of a file, and returns the checksum of the content.
fn parse_header(header: &[u8]) -> Result<u32, String> {
    if header.len() < HEADER_LEN {
        return Err("too short for a checkpoint".to_owned());
    }
    let (magic, numbers) = header.split_at(MAGIC.len());
    let numbers: Vec<u32> = numbers.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    match numbers[..] {
        [VERSION, checksum] if magic == MAGIC => Ok(checksum),
        [version, _] if magic == MAGIC => {
            Err(format!("of version {version}, and this program reads version {VERSION}"))
        }
        _ => Err("not a checkpoint of a parameter server".to_owned()),
    }
}

/// Returns the most bytes in a job's snapshot: its parameters, the optimiser's vectors, and the
/// counters of the workers.
fn longest(job: &JobSpec) -> u64 {
    let values = job.max_parameters.saturating_mul(1 + job.optimizer.vectors() as u64);
    values.saturating_mul(size_of::<f32>() as u64).saturating_add(SNAPSHOT_ROOM)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::{NonZeroU16, NonZeroU64};

    use super::super::spec::PolicyKind;
    use super::*;

    fn job(name: &str) -> JobSpec {
        let spec = JobSpec::new(name, NonZeroU16::MIN, PolicyKind::Bsp, NonZeroU64::MIN, 1.0);
        JobSpec { max_parameters: 1000, ..spec }
    }

    fn snapshot() -> Snapshot {
        Snapshot {
            job: "digits".into(),
            first: 7,
            parameters: vec![1.0, -0.0, f32::MIN_POSITIVE],
            optimizer: OptimizerState { steps: 3, vectors: vec![vec![0.5; 3]] },
            used: BTreeMap::from([(0, 9), (3, 2)]),
            updates: 11,
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_last_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), "digits");
        assert_eq!(read(&path, &job("digits")).unwrap(), None);
        for updates in [11, 12] {
            let snapshot = Snapshot { updates, ..snapshot() };
            write(&path, &snapshot).unwrap();
            assert_eq!(read(&path, &job("digits")).unwrap(), Some(snapshot));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files are left");
    }

    #[test]
    fn every_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), "digits");
        write(&path, &snapshot()).unwrap();
        let good = fs::read(&path).unwrap();
        assert!(read(&path, &job("other")).unwrap_err().to_string().contains("of job \"digits\""));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert!(read(&path, &job("digits")).is_err(), "byte {at}");
            fs::write(&path, &good[..at]).unwrap();
            let said = read(&path, &job("digits")).unwrap_err().to_string();
            assert!(said.contains("digits.checkpoint") && said.contains("remove it"), "{said}");
        }
    }

    #[test]
    fn no_more_is_read_than_a_snapshot_may_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), "digits");
        let refused = |words: &str| {
            let said = read(&path, &job("digits")).unwrap_err().to_string();
            assert!(said.contains("digits.checkpoint") && said.contains(words), "{said}");
        };
        // The file is sparse, because its content would not fit into memory.
        let long = |header: &[u8]| {
            fs::write(&path, header).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        };
        long(b"");
        refused("not a checkpoint");
        let header = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
        long(&header);
        refused("max-parameters");
        write(&path, &Snapshot { parameters: vec![0.0; 1001], ..snapshot() }).unwrap();
        refused("1001 parameters, and the job's max-parameters are 1000");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused("not a regular file");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let said = write(Path::new("/no/such/folder/x.checkpoint"), &snapshot()).unwrap_err().to_string();
        assert!(said.contains("/no/such/folder"), "{said}");
    }
}
