//! Detects that an open file has lost its name, been replaced, or been overwritten by another program.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The number of bytes of a database's header. The header changes with each write.
const HEAD: usize = 512;

/// The identity of an opened file, by which the file can be recognised.
#[derive(Debug)]
pub(super) struct FileIdentity {
    /// Device and inode. They identify the file even if its name changes.
    identity: (u64, u64),
    /// The content after this controller's last write; `None` if it is unknown, for example after a disk
    /// error.
    left: Option<Content>,
    /// True if another program has written into the file.
    ///
    /// The flag is never reset, because the file no longer belongs to this controller.
    is_overwritten: bool,
}

/// The part of a file's content that shows a write by another program.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    head: Vec<u8>,
    length: u64,
}

/// The status of the file to which the name of an opened file now refers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileStatus {
    /// The name still refers to the opened file.
    Kept,
    /// The name still refers to the opened file, but another program has written into the file.
    Overwritten,
    /// The name does not refer to any file.
    Gone,
    /// The name refers to another file.
    Taken,
}

impl FileIdentity {
    /// Returns the identity of the file that has this name now.
    pub(super) fn of(file: &Path) -> io::Result<Self> {
        Ok(Self { identity: identity(file)?, left: None, is_overwritten: false })
    }

    /// Stores the file's content after this controller has written to it. `file` is the file's name.
    pub(super) fn leave(&mut self, file: &Path) {
        self.left = Content::of(file).ok();
    }

    /// Marks the content as unknown, because this controller's last write may have failed halfway.
    pub(super) fn lose_sight(&mut self) {
        self.left = None;
    }

    /// Returns the status of the file that the name `file` refers to now.
    ///
    /// # Errors
    /// The file cannot be reached: a folder was replaced by something else, or access is denied.
    pub(super) fn status(&mut self, file: &Path) -> io::Result<FileStatus> {
        match identity(file) {
            Ok(now) if now != self.identity => return Ok(FileStatus::Taken),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileStatus::Gone),
            found => drop(found?),
        }
        // If the content cannot be read, it counts as unchanged.
        if let (Some(left), Ok(now)) = (&self.left, Content::of(file)) {
            self.is_overwritten |= now.head != left.head || now.length < left.length;
        }
        Ok(if self.is_overwritten { FileStatus::Overwritten } else { FileStatus::Kept })
    }
}

impl Content {
    fn of(file: &Path) -> io::Result<Self> {
        let mut file = File::open(file)?;
        let mut head = vec![0; HEAD];
        let mut filled = 0;
        while filled < HEAD {
            match file.read(&mut head[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        head.truncate(filled);
        Ok(Self { head, length: file.metadata()?.len() })
    }
}

fn identity(file: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(file).map(|about| (about.dev(), about.ino()))
}
