//! Detects that an open file has lost its name, been replaced, or been overwritten by another program.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a database's header, which differs after each write.
const HEAD: usize = 512;

/// An opened file, with what is needed to recognise it.
#[derive(Debug)]
pub(super) struct FileIdentity {
    /// Device and inode, which identify the file whatever its name.
    identity: (u64, u64),
    /// The content as this controller left it; `None` if that is unknown, as after a disk error.
    left: Option<Content>,
    /// True once another program has written into the file.
    ///
    /// The flag stays set, because the file no longer belongs to this controller.
    is_overwritten: bool,
}

/// The part of a file's content that is compared.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    head: Vec<u8>,
    length: u64,
}

/// The file that the name of an opened file now refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileStatus {
    /// The same file.
    Kept,
    /// The same file, but another program has written into it.
    Overwritten,
    /// Nothing.
    Gone,
    /// Another file.
    Taken,
}

impl FileIdentity {
    /// The identity of the file that has this name now.
    pub(super) fn of(file: &Path) -> io::Result<Self> {
        Ok(Self { identity: identity(file)?, left: None, is_overwritten: false })
    }

    /// Notes the content after this controller has written to the file, which has this name.
    pub(super) fn leave(&mut self, file: &Path) {
        self.left = Content::of(file).ok();
    }

    /// Notes that this controller may have written anything to the file.
    pub(super) fn lose_sight(&mut self) {
        self.left = None;
    }

    /// Returns the status of the file that the name `file` refers to now.
    ///
    /// # Errors
    /// The file cannot be reached: something else has a folder's name, or access is denied.
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
