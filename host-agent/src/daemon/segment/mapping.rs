//! Mapped memory of a file that another process may write, shorten or empty at any time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use memmap2::{MmapOptions, MmapRaw};
use parking_lot::Mutex;
use rustix::fs::{SeekFrom, seek};
use thiserror::Error;

use super::bus_error::{self, PIECE_BYTES};
use crate::daemon::budget::{LimitError, Permit, User};

/// A file's device and inode, which identify it even if it is opened twice.
pub(super) type Identity = (u64, u64);

/// The mappings of this process, by the file's user, identity and size in bytes. The user is part of
/// the key, because file systems may reuse a file's number over time, and a user must not get another user's mapping. A
/// file that is opened again shares the existing mapping. A second mapping would count as memory of this process again,
/// and the system kills the largest process when memory runs out.
static MAPPINGS: Mutex<BTreeMap<(User, Identity, usize), Weak<Mapping>>> = Mutex::new(BTreeMap::new());

/// A mapping of a file from its first byte on. The agent copies bytes into the mapping and out of it
/// and never holds a reference to them, because the other process may change them at any time.
///
/// Copies through the mapping take a third of the time of the system calls `pread` and `pwrite`.
#[derive(Debug)]
pub(super) struct Mapping {
    file: File,
    memory: MmapRaw,
    /// True if substitute memory has replaced some of the file's memory.
    lost: AtomicBool,
    _permit: Permit,
}

/// The reason why a file cannot be mapped.
#[derive(Debug, Error)]
pub(super) enum MappingError {
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Mapping {
    /// Returns the mapping of this user's file. Makes a new mapping of `bytes` bytes unless one exists,
    /// and takes its permit from `permit`. The file must have exactly `bytes` bytes.
    ///
    /// # Errors
    /// The error of `permit`, or an error of the system: for example, a lack of address space.
    pub(super) fn of(
        file: File,
        (user, identity): (User, Identity),
        bytes: usize,
        permit: impl FnOnce() -> Result<Permit, LimitError>,
    ) -> Result<Arc<Self>, MappingError> {
        let key = (user, identity, bytes);
        let mut mappings = MAPPINGS.lock();
        if let Some(mapping) = mappings.get(&key).and_then(Weak::upgrade).filter(|mapping| !mapping.is_lost())
        {
            return Ok(mapping);
        }
        bus_error::prepare()?;
        let permit = permit()?;
        let memory = MmapOptions::new().len(bytes).map_raw(&file)?;
        // The handler of bus errors knows the memory only by its address, so the pointer's provenance must be exposed.
        memory.as_mut_ptr().expose_provenance();
        let mapping = Arc::new(Self { file, memory, lost: AtomicBool::new(false), _permit: permit });
        mappings.retain(|_, mapping| mapping.strong_count() > 0);
        mappings.insert(key, Arc::downgrade(&mapping));
        Ok(mapping)
    }

    /// Returns the number of mapped bytes.
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Checks that the file still has bytes up to `end`. An access through the mapping does not detect
    /// this in the last page, because the bytes after the file's end there read as zeros.
    ///
    /// # Errors
    /// Returns an error if the file is shorter.
    pub(super) fn check(&self, end: usize) -> io::Result<()> {
        match self.file.metadata()?.len() >= end as u64 {
            true => Ok(()),
            false => Err(taken_away()),
        }
    }

    /// Returns true if all of these bytes are in memory. Holes, which are pages that no process has
    /// written, are not in memory. Reading a hole through the mapping would allocate a page, and the page would count
    /// for this process's control group.
    pub(super) fn is_there(&self, bytes: Range<usize>) -> bool {
        let hole = seek(&self.file, SeekFrom::Hole(bytes.start as u64));
        bytes.is_empty() || hole.is_ok_and(|hole| hole >= bytes.end as u64)
    }

    /// Reads by system calls, which allocate no page in holes; otherwise like [`read`](Self::read).
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub(super) fn read_by_calls(&self, offset: usize, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, offset as u64).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => taken_away(),
            _ => error,
        })
    }

    /// Copies the bytes at `offset` to `to`.
    ///
    /// # Errors
    /// Returns an error if not all bytes are inside the mapping, or if the file has become shorter. The contents of
    /// `to` are then arbitrary.
    #[allow(unsafe_code)]
    pub(super) fn read(&self, offset: usize, to: &mut [u8]) -> io::Result<()> {
        let begin = self.begin(offset, to.len())?;
        for (piece, to) in to.chunks_mut(PIECE_BYTES).enumerate() {
            let from = begin.wrapping_add(piece * PIECE_BYTES);
            self.access(from, to.len(), || {
                // SAFETY: `begin` has checked that `to.len()` bytes are inside, and the mapping outlives the call. `to`
                // belongs to this process. If the other process writes at the same time, the copy has some of the new
                // bytes, and all bytes are valid values.
                unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
            })?;
        }
        Ok(())
    }

    /// Copies `from` to the mapping's bytes at `offset`.
    ///
    /// # Errors
    /// Returns an error if not all bytes are inside the mapping, or if the file has become shorter. Some bytes may then
    /// have been written.
    #[allow(unsafe_code)]
    pub(super) fn write(&self, offset: usize, from: &[u8]) -> io::Result<()> {
        let begin = self.begin(offset, from.len())?;
        for (piece, from) in from.chunks(PIECE_BYTES).enumerate() {
            let to = begin.wrapping_add(piece * PIECE_BYTES);
            self.access(to, from.len(), || {
                // SAFETY: as in `read`; no reference to the mapping's bytes exists.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
            })?;
        }
        Ok(())
    }

    /// Returns a pointer to the bytes at `offset`, if `len` bytes from there are inside the mapping.
    fn begin(&self, offset: usize, len: usize) -> io::Result<*mut u8> {
        match offset.checked_add(len) {
            Some(end) if end <= self.memory.len() => Ok(self.memory.as_mut_ptr().wrapping_add(offset)),
            _ => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "these bytes are not all inside the memory"))
            }
        }
    }

    /// Runs `copy`, which may access only the `len` bytes at `begin`. Returns an error if the mapping is
    /// lost.
    fn access(&self, begin: *mut u8, len: usize, copy: impl FnOnce()) -> io::Result<()> {
        if !self.is_lost() {
            bus_error::survive(begin.addr()..begin.addr() + len, &self.lost, copy);
        }
        if self.is_lost() { Err(taken_away()) } else { Ok(()) }
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }
}

/// Returns the error for a file that its process has shortened.
fn taken_away() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "its process has made it shorter, or taken memory out of it")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;
    use std::time::Duration;
    use std::{env, thread};

    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::daemon::budget::{Budget, Resource};
    use crate::daemon::limits::Limits;

    const BYTES: usize = 1 << 20;

    fn map(file: &File, bytes: usize) -> Result<Arc<Mapping>, MappingError> {
        let budget = Budget::new(Limits::of_this_machine());
        let permit = || budget.take(1, Resource::Mapped, bytes as u64);
        let metadata = file.metadata().unwrap();
        Mapping::of(file.try_clone().unwrap(), (1, (metadata.dev(), metadata.ino())), bytes, permit)
    }

    fn mapped() -> (File, Arc<Mapping>) {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64).unwrap();
        let mapping = map(&file, BYTES).unwrap();
        (file, mapping)
    }

    #[test]
    fn a_file_is_mapped_once_however_often_it_is_opened() {
        let (file, mapping) = mapped();
        let (_other_file, other) = mapped();
        assert!(Arc::ptr_eq(&mapping, &map(&file, BYTES).unwrap()) && !Arc::ptr_eq(&mapping, &other));
        file.set_len(0).unwrap();
        assert!(mapping.read(0, &mut [0]).is_err());
        fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64).unwrap();
        map(&file, BYTES).unwrap().read(0, &mut [0]).unwrap();
    }

    #[test]
    fn what_is_not_there_is_read_without_making_it() {
        let (file, mapping) = mapped();
        mapping.write(0, &[7; BYTES]).unwrap();
        assert!(mapping.is_there(0..BYTES) && mapping.is_there(BYTES..BYTES));
        let punch = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
        fallocate(&file, punch, 8 << 10, 4 << 10).unwrap();
        assert!(
            !mapping.is_there(0..BYTES) && mapping.is_there(0..8 << 10) && mapping.is_there(12 << 10..BYTES)
        );
        let before = file.metadata().unwrap().blocks();
        let mut read = [1; 16 << 10];
        mapping.read_by_calls(0, &mut read).unwrap();
        assert_eq!((read[0], read[8 << 10], read[12 << 10]), (7, 0, 7));
        assert_eq!(file.metadata().unwrap().blocks(), before);
        file.set_len(100).unwrap();
        assert!(!mapping.is_there(0..101));
        mapping.read_by_calls(0, &mut read).unwrap_err();
    }

    #[test]
    fn what_is_written_is_read_and_nothing_beyond_the_end() {
        let (_file, mapping) = mapped();
        mapping.write(BYTES - 3, &[1, 2, 3]).unwrap();
        let mut read = [9; 4];
        mapping.read(BYTES - 4, &mut read).unwrap();
        assert_eq!(read, [0, 1, 2, 3]);
        for (offset, len) in [(BYTES - 3, 4), (BYTES, 1), (usize::MAX, 1), (0, BYTES + 1)] {
            assert!(mapping.read(offset, &mut vec![0; len]).is_err(), "{len} from {offset}");
            assert!(mapping.write(offset, &vec![0; len]).is_err(), "{len} to {offset}");
        }
        mapping.read(BYTES, &mut []).unwrap();
    }

    #[test]
    fn a_file_that_was_emptied_is_an_error_for_good() {
        for writes in [false, true] {
            let (file, mapping) = mapped();
            let (_other_file, other) = mapped();
            other.write(0, &[7; BYTES]).unwrap();
            file.set_len(0).unwrap();
            let access = |len| match writes {
                true => mapping.write(0, &vec![1; len]),
                false => mapping.read(0, &mut vec![1; len]),
            };
            assert_eq!(access(BYTES).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            // The file's owner cannot make the agent take the substitute memory for the file's memory.
            file.set_len(BYTES as u64).unwrap();
            assert!(access(1).is_err());
            let mut read = vec![0; BYTES];
            other.read(0, &mut read).unwrap();
            assert_eq!(read, [7; BYTES]);
        }
    }

    #[test]
    fn no_thread_takes_the_memory_in_the_files_place_for_the_file() {
        for _ in 0..20 {
            let (file, mapping) = mapped();
            mapping.write(0, &[7; BYTES]).unwrap();
            thread::scope(|scope| {
                let read_until_lost = || {
                    let mut read = vec![0; BYTES];
                    while mapping.read(0, &mut read).is_ok() {
                        assert_eq!(read, [7; BYTES]);
                    }
                };
                scope.spawn(read_until_lost);
                scope.spawn(read_until_lost);
                file.set_len(0).unwrap();
            });
        }
    }

    /// Runs in a separate process that the next test starts. Does nothing without that test's environment
    /// variable.
    #[test]
    fn is_told_to_end_by_a_bus_error() {
        if env::var("TRIBUTARY_RAISE").is_ok() {
            let (_file, _mapping) = mapped();
            kill_process(getpid(), Signal::BUS).unwrap();
            // Another thread may receive the signal. If this thread survives, the test fails.
            thread::park_timeout(Duration::from_secs(60));
        }
    }

    #[test]
    fn a_bus_error_from_elsewhere_ends_the_process() {
        let own = thread::current()
            .name()
            .unwrap()
            .replace("a_bus_error_from_elsewhere_ends_the_process", "is_told_to_end_by_a_bus_error");
        let mut command = Command::new(env::current_exe().unwrap());
        let status = command.args(["--exact", &own]).env("TRIBUTARY_RAISE", "1").output().unwrap().status;
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGBUS));
    }
}
