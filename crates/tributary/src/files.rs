//! Reads files that people name, with the file in each error.

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

/// Reads a regular file that people write, such as settings.
///
/// # Errors
/// The file cannot be read, or is not a text in a regular file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    named(path, tributary_files::read_text(path))
}

/// Reads a secret, which may come through a pipe.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_secret(path: &Path) -> Result<String> {
    named(path, tributary_files::read_secret(path))
}

/// Checks that there is a regular file.
///
/// # Errors
/// The path leads to nothing, or not to a regular file.
pub(crate) fn check_input(path: &Path) -> Result<()> {
    named(path, tributary_files::check_input(path)).map(drop)
}

fn named<T>(path: &Path, done: io::Result<T>) -> Result<T> {
    done.with_context(|| format!("cannot read {}", path.display()))
}
