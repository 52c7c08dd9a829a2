//! Labs without root's rights.
//!
//! Where the kernel allows it, an ordinary user may make a user namespace. In it, the user has root's rights over its
//! mounts and over network namespaces that are made there. [`enter`] takes the calling process into one. All labs of a
//! user are in the same namespace, together with a `/run` of their own. So everything else in this crate finds its
//! files under the same paths as with root's rights. The holder, a process that does nothing else, keeps the namespace
//! from the first command until the last lab is gone.

mod holder;
mod place;
mod refusal;

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

pub use holder::hold;

use crate::error::LabError;
use crate::lab::{Lab, has_rights};
use crate::tools::LAB_VARIABLE;
use holder::READY;
use place::{Locked, Place};

/// Time that the holder may take to end; it does nothing, so that longer is a defect.
const GRACE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The rights to make and use labs, for as long as this value lives.
#[derive(Debug)]
pub struct Rights {
    /// `None` with root's rights.
    entered: Option<Entered>,
}

impl Rights {
    /// Returns true if the labs belong to an ordinary user, and not to the machine.
    pub fn are_a_users(&self) -> bool {
        self.entered.is_some()
    }
}

/// Keeps the user's namespaces while this process is in them.
#[derive(Debug)]
struct Entered {
    place: Place,
    /// Locked, together with all other processes that use the labs.
    users: File,
    holder: OwnedFd,
}

/// Gives the calling process the rights to make and use labs.
/// With root's rights it does nothing; otherwise the process goes into the user's namespaces, where it is root. Files
/// and processes outside stay what they were to it.
///
/// `holder` is a command that calls [`hold`] with the argument that is added to it.
///
/// # Errors
/// [`LabError::NoUserNamespace`] where the kernel forbids it, with what to do; [`LabError::Rootless`] when it cannot be
/// entered, as by a process with several threads.
pub fn enter(holder: Command) -> Result<Rights, LabError> {
    if has_rights() {
        return Ok(Rights { entered: None });
    }
    let place = Place::of_this_user()?;
    let lock = place.lock()?;
    let users = place.share()?;
    let process = match place.holder()? {
        Some(process) => process,
        None => start(&place, &lock, holder)?,
    };
    let holder = join(process)?;
    drop(lock);
    Ok(Rights { entered: Some(Entered { place, users, holder }) })
}

/// Starts the holder, and returns its process id once its namespaces can be entered.
///
/// The holder shares the lock until then: if this process is killed meanwhile, no process finds an unfinished holder.
fn start(place: &Place, lock: &Locked<'_>, mut holder: Command) -> Result<Pid, LabError> {
    let failed = LabError::rootless("start the process that holds the labs' namespaces");
    let lock = lock.handle().map_err(&failed)?;
    let spawned = holder
        .arg(place.folder())
        // It belongs to no single lab, and must not end with one.
        .env_remove(LAB_VARIABLE)
        .current_dir("/")
        .stdin(lock)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = spawned.map_err(&failed)?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).map_err(&failed)?;
    }
    if said.trim_end() == READY {
        return Ok(Pid::from_child(&child));
    }
    let ended = child.wait().map_err(&failed)?;
    Err(LabError::NoUserNamespace(if said.is_empty() { ended.to_string() } else { said.trim_end().into() }))
}

/// Takes the calling process into the namespaces of the holder.
fn join(holder: Pid) -> Result<OwnedFd, LabError> {
    let folder = env::current_dir().map_err(LabError::rootless("find the current folder"))?;
    let failed = LabError::rootless("enter the labs' namespaces");
    let handle = pidfd_open(holder, PidfdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    let namespaces = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT | ThreadNameSpaceType::NETWORK;
    move_into_thread_name_spaces(handle.as_fd(), namespaces).map_err(|errno| failed(errno.into()))?;
    // A process that enters a mount namespace is at its root.
    env::set_current_dir(folder).map_err(LabError::rootless("go back to the current folder"))?;
    Ok(handle)
}

/// Ends the holder after the last lab, unless another process uses it.
/// If that fails, the next command tries again.
impl Drop for Entered {
    fn drop(&mut self) {
        let Ok(_lock) = self.place.lock() else { return };
        let alone = self.users.unlock().is_ok() && self.users.try_lock().is_ok();
        if alone && Lab::list().is_ok_and(|labs| labs.is_empty()) {
            // It fails only if the holder has ended by itself.
            let _ = pidfd_send_signal(&self.holder, Signal::TERM);
            let _ = poll(&mut [PollFd::new(&self.holder, PollFlags::IN)], Some(&GRACE));
        }
    }
}
