//! Checks the pages: the book contains each of them, and each file that they name exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tributary_testkit::root;

/// Folders at the root. A word that begins with one of them and a slash is a path.
const FOLDERS: [&str; 12] = [
    "controller",
    "crates",
    "deploy",
    "docs",
    "examples",
    "host-agent",
    "mininet",
    "p4",
    "python",
    "tests",
    "tools",
    "topologies",
];

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
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut there = BTreeSet::new();
    pages(&docs, &docs, &mut there);
    there.remove(Path::new("SUMMARY.md"));
    assert_eq!(links.map(PathBuf::from).collect::<BTreeSet<_>>(), there);
}

/// Returns the paths that a page names between backticks. Parts in capitals stand for other names.
fn named_paths(page: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        let (folder, rest) = word.split_once('/').unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let stands_for_others = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
        FOLDERS.contains(&folder)
            && rest.chars().all(is_plain)
            && !rest.split(['/', '.']).filter(|part| *part != "README").any(stands_for_others)
    };
    page.split('`').skip(1).step_by(2).filter(is_path)
}

/// A path is relative to the root, to the page's folder, or to the folder of a crate.
#[test]
fn every_file_that_a_page_names_exists() {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    if !listed.status.success() {
        eprintln!("SKIPPED: this is not a git checkout, so its pages are not known");
        return;
    }
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files: BTreeSet<_> = listed.lines().collect();
    let exists = |path: &str| {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        files.contains(path)
            || files.range(inside.as_str()..).next().is_some_and(|next| next.starts_with(&inside))
    };
    let crates: BTreeSet<_> = files.iter().filter_map(|file| file.strip_suffix("/Cargo.toml")).collect();
    let mut missing = Vec::new();
    // A page on other projects names their files.
    let pages = files.iter().filter(|file| file.ends_with(".md") && **file != "docs/related-work.md");
    for page in pages {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        let text = fs::read_to_string(root().join(page)).unwrap();
        for path in named_paths(&text) {
            let beside = crates.iter().copied().chain([folder]).any(|base| exists(&format!("{base}/{path}")));
            if !exists(path) && !beside {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
