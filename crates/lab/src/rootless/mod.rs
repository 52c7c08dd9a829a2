//! Labs without root privileges.
//!
//! If the kernel allows it, an ordinary user may create a user namespace. In it, the user has root
//! privileges over its mounts and over network namespaces that are created there. [`enter`] moves the
//! calling process into one. All labs of a user share this namespace, which has a separate `/run`. So
//! the rest of this crate finds its files under the same paths as with root privileges. The holder, a
//! process that does nothing else, keeps the namespace from the first command until the last lab is
//! removed.

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

/// The time for which to wait for the holder's end. A holder has nothing to do, so it is defective if
/// it needs longer.
const GRACE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The privileges to create and use labs, as long as this value exists.
#[derive(Debug)]
pub struct Rights {
    /// The user's namespaces; `None` if the process has root privileges.
    entered: Option<Entered>,
}

impl Rights {
    /// Returns true if the labs belong to an ordinary user; false if they belong to the machine.
    pub fn are_a_users(&self) -> bool {
        self.entered.is_some()
    }
}

/// Keeps the user's namespaces while this process uses them.
#[derive(Debug)]
struct Entered {
    place: Place,
    /// A lock that all processes share while they use the labs.
    users: File,
    holder: OwnedFd,
}

/// Gives the calling process the privileges to create and use labs.
///
/// With root privileges it does nothing. Otherwise the process enters the user's namespaces, where it
/// is root. Its rights over files and processes outside do not change.
///
/// `holder` is a command that calls [`hold`] with the argument that `enter` appends.
///
/// # Errors
/// [`LabError::NoUserNamespace`] if the kernel forbids user namespaces; the message gives the remedy.
/// [`LabError::Rootless`] if the namespaces cannot be entered, for example by a process with several
/// threads.
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

/// Starts the holder, and returns its process id when its namespaces can be entered.
///
/// The holder shares the lock until then. So if this process is killed meanwhile, other processes do
/// not find an unfinished holder.
fn start(place: &Place, lock: &Locked<'_>, mut holder: Command) -> Result<Pid, LabError> {
    let failed = LabError::rootless("start the process that holds the labs' namespaces");
    let lock = lock.handle().map_err(&failed)?;
    let spawned = holder
        .arg(place.folder())
        // The holder belongs to no single lab, and must not end with one.
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

/// Moves the calling process into the namespaces of the holder.
fn join(holder: Pid) -> Result<OwnedFd, LabError> {
    let folder = env::current_dir().map_err(LabError::rootless("find the current folder"))?;
    let failed = LabError::rootless("enter the labs' namespaces");
    let handle = pidfd_open(holder, PidfdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    let namespaces = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT | ThreadNameSpaceType::NETWORK;
    move_into_thread_name_spaces(handle.as_fd(), namespaces).map_err(|errno| failed(errno.into()))?;
    // Entering a mount namespace changes the current folder to its root.
    env::set_current_dir(folder).map_err(LabError::rootless("go back to the current folder"))?;
    Ok(handle)
}

/// Ends the holder after the last lab, unless another process uses it. If this fails, the next command
/// tries again.
impl Drop for Entered {
    fn drop(&mut self) {
        let Ok(_lock) = self.place.lock() else { return };
        let alone = self.users.unlock().is_ok() && self.users.try_lock().is_ok();
        if alone && Lab::list().is_ok_and(|labs| labs.is_empty()) {
            // The call fails only if the holder has ended.
            let _ = pidfd_send_signal(&self.holder, Signal::TERM);
            let _ = poll(&mut [PollFd::new(&self.holder, PollFlags::IN)], Some(&GRACE));
        }
    }
}
