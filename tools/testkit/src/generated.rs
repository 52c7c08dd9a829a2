//! Holds a crate's `src/generated` to the protobuf files that it is made of.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// Set, the checked-in files are written instead of compared.
const REGENERATE: &str = "TRIBUTARY_REGENERATE";

/// Compares `checked_in`, relative to the crate, with what `generate` writes
/// into the folder it is given.
pub fn check(checked_in: &str, generate: impl FnOnce(&Path)) {
    let package = env::var("CARGO_PKG_NAME").unwrap();
    let checked_in = Path::new(checked_in);
    let fresh = tempfile::tempdir().unwrap();
    generate(fresh.path());
    let fresh = files(fresh.path());
    assert!(!fresh.is_empty(), "nothing was generated");

    if env::var_os(REGENERATE).is_some() {
        replace(checked_in, &fresh);
        return;
    }
    let present = files(checked_in);
    let differs = |name: &&String| present.get(*name) != fresh.get(*name);
    let mut names: Vec<_> = present.keys().chain(fresh.keys()).filter(differs).collect();
    names.sort();
    names.dedup();
    assert!(
        names.is_empty(),
        "{names:?} in {} of {package} are not what the files under proto/ make: run `make protos`, or only \
         `{REGENERATE}=1 cargo test -p {package} --test generated`, and commit what it writes",
        checked_in.display()
    );
}

/// Returns the contents of a folder's files, by name; empty if the folder is missing.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// Makes a folder hold these files and no others, and leaves alone what is so already: cargo builds
/// again whatever is newer than its last build.
fn replace(folder: &Path, fresh: &BTreeMap<String, Vec<u8>>) {
    fs::create_dir_all(folder).unwrap();
    let present = files(folder);
    for name in present.keys().filter(|name| !fresh.contains_key(*name)) {
        fs::remove_file(folder.join(name)).unwrap();
    }
    for (name, bytes) in fresh.iter().filter(|(name, bytes)| present.get(*name) != Some(bytes)) {
        fs::write(folder.join(name), bytes).unwrap();
    }
}
