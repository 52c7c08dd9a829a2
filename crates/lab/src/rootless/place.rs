//! A user's folder, whose files lead the user's processes to the holder.

use std::env;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getuid};

use crate::error::LabError;

const NAME: &str = "tributary-lab";
/// The file with the holder's process id. The holder keeps it locked until it ends.
const HOLDER: &str = "holder";
/// The file on which all processes that use the labs hold a shared lock.
const USERS: &str = "users";

/// The user's folder. Its lock ensures that only one process at a time starts, finds or ends the
/// holder.
#[derive(Debug)]
pub(super) struct Place {
    folder: PathBuf,
    handle: File,
}

impl Place {
    /// Opens the user's folder, and creates it if it does not exist.
    pub(super) fn of_this_user() -> Result<Self, LabError> {
        let folder = path();
        let failed = |step| {
            let path = folder.clone();
            move |reason| LabError::Record { path, step, reason }
        };
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed("make the folder"))?,
        }
        // In /tmp, another user may have created a folder with this name.
        let found = fs::symlink_metadata(&folder).map_err(failed("look at"))?;
        if !found.is_dir() || found.uid() != getuid().as_raw() || found.mode() & 0o077 != 0 {
            return Err(LabError::ForeignFolder(folder));
        }
        let handle = File::open(&folder).map_err(failed("open the folder"))?;
        Ok(Self { folder, handle })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits for the folder's lock.
    pub(super) fn lock(&self) -> Result<Locked<'_>, LabError> {
        self.handle.lock().map_err(self.failed("lock the folder"))?;
        Ok(Locked(&self.handle))
    }

    /// Takes the shared lock of processes that use the labs. Exclusive locks on it are brief, so the wait
    /// is short.
    pub(super) fn share(&self) -> Result<File, LabError> {
        let users = open(&self.folder, USERS).map_err(self.failed("open a file in"))?;
        users.lock_shared().map_err(self.failed("lock a file in"))?;
        Ok(users)
    }

    /// Returns the holder's process id; `None` if no holder runs.
    pub(super) fn holder(&self) -> Result<Option<Pid>, LabError> {
        let file = open(&self.folder, HOLDER).map_err(self.failed("open a file in"))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => {
                let number = io::read_to_string(file).map_err(self.failed("read a file in"))?;
                let process = number.trim().parse().ok().and_then(Pid::from_raw);
                process
                    .ok_or(io::ErrorKind::InvalidData.into())
                    .map(Some)
                    .map_err(self.failed("read a file in"))
            }
            Err(TryLockError::Error(reason)) => Err(self.failed("lock a file in")(reason)),
        }
    }

    fn failed(&self, step: &'static str) -> impl Fn(io::Error) -> LabError {
        let path = self.folder.clone();
        move |reason| LabError::Record { path: path.clone(), step, reason }
    }
}

/// Returns the holder's file, locked and empty. The caller writes its process id into it.
pub(super) fn become_holder(folder: &Path) -> io::Result<File> {
    let file = open(folder, HOLDER)?;
    file.lock()?;
    file.set_len(0)?;
    Ok(file)
}

/// The folder's lock. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct Locked<'a>(&'a File);

impl Locked<'_> {
    /// Returns a second handle on the lock. If this process is killed, it cannot release the lock, which
    /// then lasts until this handle is closed, too.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // If unlocking fails, the lock is released when the process ends.
        let _ = self.0.unlock();
    }
}

fn open(folder: &Path, name: &str) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(folder.join(name))
}

/// Returns the path of the user's folder. It is in the session's runtime folder, which is removed when
/// the user logs out. Without a runtime folder, the path is in /tmp.
fn path() -> PathBuf {
    let user = getuid().as_raw();
    let given = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let usual = || Some(PathBuf::from(format!("/run/user/{user}"))).filter(|folder| is_of(folder, user));
    match given.filter(|folder| is_of(folder, user)).or_else(usual) {
        Some(folder) => folder.join(NAME),
        None => PathBuf::from(format!("/tmp/{NAME}-{user}")),
    }
}

fn is_of(folder: &Path, user: u32) -> bool {
    fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user)
}
