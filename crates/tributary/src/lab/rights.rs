//! Gives a command the privileges to create or use a lab.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use tributary_lab::rootless::{self, Rights};

use super::tributary_program;

/// The hidden command that calls [`hold_namespaces`].
const HOLDER: [&str; 2] = ["lab", "hold-namespaces"];

/// Gives this process the privileges to create and use labs. Without root privileges, the process
/// enters namespaces of its user. Must be called before the process starts a second thread, because the
/// kernel accepts only processes with one thread.
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
/// The namespaces cannot be created.
pub(crate) fn hold_namespaces(folder: &Path) -> Result<()> {
    match rootless::hold(folder)? {}
}
