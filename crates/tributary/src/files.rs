//! Reads files that users name; each error names the file.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};

/// Reads a regular file.
///
/// # Errors
/// The file cannot be read, or is not a regular file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    named(path, tributary_files::read(path))
}

/// Reads a text file that users write, such as settings.
///
/// # Errors
/// The file cannot be read, is not a regular file, or is not a text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    named(path, tributary_files::read_text(path))
}

/// Reads a secret from a file, which may be a pipe.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_secret(path: &Path) -> Result<String> {
    named(path, tributary_files::read_secret(path))
}

/// Checks that the path leads to a regular file.
///
/// # Errors
/// The file does not exist, or is not a regular file.
pub(crate) fn check_input(path: &Path) -> Result<()> {
    named(path, tributary_files::check_input(path)).map(drop)
}

fn named<T>(path: &Path, done: io::Result<T>) -> Result<T> {
    done.with_context(|| format!("cannot read {}", path.display()))
}
