//! Whether a file that is open still has its name: somebody may remove it, or put another one there.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which file is meant, whatever it is called: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

/// What has the name of a file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// The file itself.
    Kept,
    /// Nothing.
    Gone,
    /// Another file.
    Taken,
}

impl Identity {
    /// Of the file that has this name now.
    pub(super) fn of(file: &Path) -> io::Result<Self> {
        fs::metadata(file).map(|about| Self(about.dev(), about.ino()))
    }

    /// Who has the name `file` now. Where the system does not say, nothing is known to have changed.
    pub(super) fn name(self, file: &Path) -> Name {
        match Self::of(file) {
            Ok(now) if now != self => Name::Taken,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Name::Gone,
            Ok(_) | Err(_) => Name::Kept,
        }
    }
}
