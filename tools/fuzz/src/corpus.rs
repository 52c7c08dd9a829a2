//! The inputs that are checked in.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{Seed, Target};

/// Returns the folder with the inputs of all targets.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Returns a target's checked-in inputs, by name.
///
/// # Errors
/// The operating system's error.
pub fn corpus_of(target: &Target) -> io::Result<Vec<Seed>> {
    let mut corpus = Vec::new();
    for file in fs::read_dir(corpus_folder().join(target.name))? {
        let file = file?;
        corpus.push((file.file_name().to_string_lossy().into_owned(), fs::read(file.path())?));
    }
    corpus.sort();
    Ok(corpus)
}

/// Returns a target's seeds, by name. This project's encoders make them.
pub fn seeds_of(target: &Target) -> Vec<Seed> {
    (target.seeds)()
}
