//! Compiles the C programs of `tools/bench/baselines`, which serve as baselines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// An error of compiling a program.
#[derive(Debug, Error)]
pub enum CompileError {
    /// The source could not be written.
    #[error("cannot write {path}: {reason}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The compiler could not be started.
    #[error("cannot run `{compiler}`: {reason}: install a C compiler")]
    Start {
        /// The compiler's command.
        compiler: &'static str,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The compiler reported an error.
    #[error("`{compiler}` cannot compile {path}: {message}")]
    Refused {
        /// The compiler's command.
        compiler: &'static str,
        /// The source.
        path: PathBuf,
        /// The compiler's output.
        message: String,
    },
}

/// The C compiler.
pub(crate) const CC: &str = "cc";

/// Returns true if this machine has the compiler.
pub(crate) fn is_installed(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Writes the source of the program `name` to `folder`, compiles it there, and returns
/// the path of the program.
///
/// # Errors
/// [`CompileError`] with the step that failed.
pub fn compile(
    compiler: &'static str,
    options: &[&str],
    (name, source): (&str, &str),
    folder: &Path,
) -> Result<PathBuf, CompileError> {
    let (path, program) = (folder.join(name).with_extension("c"), folder.join(name));
    fs::write(&path, source).map_err(|reason| CompileError::Write { path: path.clone(), reason })?;
    let output = Command::new(compiler).args(options).arg("-o").arg(&program).arg(&path).output();
    let output = output.map_err(|reason| CompileError::Start { compiler, reason })?;
    if output.status.success() {
        return Ok(program);
    }
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(CompileError::Refused { compiler, path, message })
}
