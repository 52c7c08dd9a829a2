//! Checks that the book contains every page of the documentation, and no other page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Collects the pages below a folder, by their paths relative to `docs/`.
fn pages(docs: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Names of results that are still being measured begin with a dot.
        let is_hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
        if path.is_dir() && !is_hidden {
            pages(docs, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path.strip_prefix(docs).unwrap().to_owned());
        }
    }
}

#[test]
fn every_page_is_in_the_book() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut there = BTreeSet::new();
    pages(&docs, &docs, &mut there);
    there.remove(Path::new("SUMMARY.md"));
    assert_eq!(links.map(PathBuf::from).collect::<BTreeSet<_>>(), there);
}
