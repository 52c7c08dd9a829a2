//! Whether a file that is open still has its name, and what was written to it: somebody may remove it, put another one
//! there, or write over it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// So much of a database's beginning is its header, which is another one after each write.
const HEAD: usize = 512;

/// A file that was opened, to be known again.
#[derive(Debug)]
pub(super) struct Place {
    /// Whatever it is called: device and inode.
    identity: (u64, u64),
    /// As this controller has left it; `None` where that is not known, as after an error of the disk.
    left: Option<Content>,
    /// Somebody has written over it. It stays so: it is not this controller's file any more.
    is_overwritten: bool,
}

/// What is looked at of a file's content.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    head: Vec<u8>,
    length: u64,
}

/// What has the name of a file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// The file itself.
    Kept,
    /// The file itself, in which somebody else has written.
    Overwritten,
    /// Nothing.
    Gone,
    /// Another file.
    Taken,
}

impl Place {
    /// Of the file that has this name now.
    pub(super) fn of(file: &Path) -> io::Result<Self> {
        Ok(Self { identity: identity(file)?, left: None, is_overwritten: false })
    }

    /// This controller has written to the file, which has this name, and it is in order.
    pub(super) fn leave(&mut self, file: &Path) {
        self.left = Content::of(file).ok();
    }

    /// This controller may have written anything to the file.
    pub(super) fn lose_sight(&mut self) {
        self.left = None;
    }

    /// Who has the name `file` now.
    ///
    /// # Errors
    /// There is no way there: something else has a folder's name, or the folder must not be looked into.
    pub(super) fn name(&mut self, file: &Path) -> io::Result<Name> {
        match identity(file) {
            Ok(now) if now != self.identity => return Ok(Name::Taken),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Name::Gone),
            found => drop(found?),
        }
        // Where the system does not let it be read, nothing is known to have changed.
        if let (Some(left), Ok(now)) = (&self.left, Content::of(file)) {
            self.is_overwritten |= now.head != left.head || now.length < left.length;
        }
        Ok(if self.is_overwritten { Name::Overwritten } else { Name::Kept })
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
