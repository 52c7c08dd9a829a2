//! Checks the program of a command that a user runs in a lab. `ip netns exec`, which enters a node's
//! namespace, would not explain the problem.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::Result;
use thiserror::Error;

/// The reason why a program cannot be run.
#[derive(Debug, Error)]
pub(crate) enum NoProgram {
    #[error("there is no program {}: check its name, and the PATH", .0.display())]
    Missing(OsString),
    #[error("{} is not a program: it is not executable", .0.display())]
    NotExecutable(OsString),
}

impl NoProgram {
    /// Returns the exit status that shells use for this problem.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Missing(_) => 127,
            Self::NotExecutable(_) => 126,
        }
    }
}

/// Checks that this PATH leads from the name `program` to an executable file.
///
/// # Errors
/// [`NoProgram`]; or the current folder cannot be found.
pub(super) fn check(program: &OsStr, path: &OsStr) -> Result<()> {
    if which::which_in(program, Some(path), env::current_dir()?).is_ok() {
        return Ok(());
    }
    let is_path = Path::new(program).components().count() > 1;
    let no_program =
        if is_path && Path::new(program).exists() { NoProgram::NotExecutable } else { NoProgram::Missing };
    Err(no_program(program.to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(program: &str) -> Option<u8> {
        let checked = check(program.as_ref(), "/usr/bin:/bin".as_ref());
        checked.err().map(|error| error.downcast::<NoProgram>().unwrap().status())
    }

    #[test]
    fn what_cannot_be_run_has_the_status_that_shells_give() {
        for (program, expected) in [
            ("sh", None),
            ("/bin/sh", None),
            ("no-such-program", Some(127)),
            ("/no/such/program", Some(127)),
            ("", Some(127)),
            ("/etc/passwd", Some(126)),
            ("/etc/", Some(126)),
        ] {
            assert_eq!(status(program), expected, "{program}");
        }
    }
}
