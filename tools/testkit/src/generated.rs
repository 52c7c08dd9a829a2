//! Checks that a crate's `src/generated` matches the protobuf files from which it is generated.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The variable that makes the test write the checked-in files instead of comparing them.
const REGENERATE: &str = "TRIBUTARY_REGENERATE";

/// Compares the folder `checked_in` of the crate with the files that `generate` writes.
///
/// `generate` gets the folder into which it writes.
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
         `{REGENERATE}=1 cargo test -p {package} --test suite generated`, and commit what it writes",
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

/// Makes a folder contain these files and no others.
///
/// Unchanged files are not written, because cargo builds again if a file is newer than the last build.
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
