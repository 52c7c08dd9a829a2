//! Errors of the journal.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// The format of the records. A controller reads its own format and refuses newer formats.
pub(super) const FORMAT: u64 = 1;

/// Reasons why jobs cannot be written to the journal or read from it.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    /// This program was built without the feature `journal`.
    #[error("{}: this program was built without what writes jobs down: leave the folder out", folder.display())]
    NotBuiltIn {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder cannot be created.
    #[error("{}: cannot make the folder of the controller's state: {reason}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// Another controller has opened the file.
    #[error("{}: another controller has it open: stop that one, or give this one another --state", file.display())]
    InUse {
        /// The file.
        file: PathBuf,
    },
    /// The file is damaged, or is not a journal. The controller leaves the file in its place.
    #[error(
        "{}: not a journal of jobs, or a damaged one ({reason}). It is left where it is: bring it back from a \
         backup, or move it away to start without jobs",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The reason why the file is not a valid journal.
        reason: String,
    },
    /// A newer version of Tributary has written the file.
    #[error(
        "{}: written by a newer version (format {found}; this one reads up to {FORMAT}): start that version again, or \
         give this one another --state",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// The format of the file.
        found: u64,
    },
    /// The disk is full or broken. Earlier writes are still on the disk.
    #[error("{}: cannot write ({reason}): make room, or look after the disk", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// The reason why the write failed.
        reason: String,
    },
    /// Another file has replaced the journal while the controller runs.
    #[error(
        "{}: another file has taken the journal's place while this controller runs: move it away, and all jobs are \
         written anew; or start this controller again, to go on with that file's jobs instead of those that run",
        file.display()
    )]
    Replaced {
        /// The file.
        file: PathBuf,
    },
    /// Another program has written into the journal, or truncated it, while the controller runs.
    #[error(
        "{}: something else than this controller has written into the journal, or cut it off: move it away, and all jobs \
         are written anew; or start this controller again, to go on with what is in that file instead of the jobs that run",
        file.display()
    )]
    Overwritten {
        /// The file.
        file: PathBuf,
    },
    /// The path to the journal is blocked: a folder was replaced by something else, or access is denied.
    #[error(
        "{}: the journal cannot be found any more ({reason}): bring its folder back, or move away what is in its place, \
         and all jobs are written anew",
        file.display()
    )]
    NoWay {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// The disk does not answer. All pending jobs are written as soon as it answers.
    #[error("{}: the disk has not answered for {waited:?}: look after it", file.display())]
    Hangs {
        /// The file.
        file: PathBuf,
        /// The time for which the controller has waited for the disk.
        waited: Duration,
    },
    /// The thread that writes to the journal cannot be started.
    #[error("cannot start the thread that writes jobs down: {0}")]
    Thread(String),
    /// The journal is closed.
    #[error(
        "the journal of jobs is closed: the controller is stopping, or the thread that writes jobs down has panicked"
    )]
    Stopped,
}
