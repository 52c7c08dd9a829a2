//! The inputs that are checked in.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{Seed, Target};

/// Where the inputs of all targets are.
pub fn corpus_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// A target's inputs, by name.
///
/// # Errors
/// What the operating system says.
pub fn corpus_of(target: &Target) -> io::Result<Vec<Seed>> {
    let mut corpus = Vec::new();
    for file in fs::read_dir(corpus_folder().join(target.name))? {
        let file = file?;
        corpus.push((file.file_name().to_string_lossy().into_owned(), fs::read(file.path())?));
    }
    corpus.sort();
    Ok(corpus)
}

/// What our own encoders make for a target, by name.
pub fn seeds_of(target: &Target) -> Vec<Seed> {
    (target.seeds)()
}
