//! Rights that an ordinary user's command needs before it makes or uses a lab.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use tributary_lab::rootless::{self, Rights};

use super::tributary_program;

/// The hidden command that calls [`hold_namespaces`].
const HOLDER: [&str; 2] = ["lab", "hold-namespaces"];

/// Gives this process the rights to make and use labs, in namespaces of the user's where it is not
/// root's. Called before there is a second thread: the kernel lets only a whole process in.
///
/// # Errors
/// The kernel forbids it, or the program `tributary` is missing.
pub fn rights() -> Result<Rights> {
    let mut holder = Command::new(tributary_program()?);
    holder.args(HOLDER);
    Ok(rootless::enter(holder)?)
}

/// Holds a user's namespaces until SIGTERM.
///
/// # Errors
/// They cannot be made.
pub(crate) fn hold_namespaces(folder: &Path) -> Result<()> {
    match rootless::hold(folder)? {}
}
