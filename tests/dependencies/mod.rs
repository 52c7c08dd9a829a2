//! Checks that crates depend on each other as ARCHITECTURE.md shows, and that files of a crate have no
//! circular dependencies.

mod circles;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use circles::circles;
use toml::Table;

/// The rows of crates from the top down. A crate uses only crates in rows below its own.
const ROWS: [&[&str]; 9] = [
    &["paper", "testkit"],
    &["bench"],
    &["tributary"],
    &["capi", "demo", "fuzz", "python"],
    &["controller", "host-agent", "client", "softswitch", "sim", "verify", "trainer"],
    &["cli", "ps", "capture"],
    &["api", "certs", "p4runtime", "planner", "protocol", "link", "codec", "lab", "picture"],
    &["topology", "transport"],
    &["files", "wire"],
];
/// Crates that must be usable without an async runtime.
const WITHOUT_RUNTIME: [&str; 14] = [
    "sim", "verify", "lab", "trainer", "certs", "planner", "protocol", "link", "codec", "picture",
    "topology", "wire", "capture", "files",
];

fn manifest(folder: &Path) -> Table {
    fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// Returns the folders of all crates.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = manifest(&root);
    let members = workspace["workspace"]["members"].as_array().unwrap();
    members.iter().map(|member| root.join(member.as_str().unwrap())).collect()
}

/// Returns every crate of the workspace with its dependencies, except dependencies of its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let short = |name: &String| name.strip_prefix("tributary-").unwrap_or(name).to_owned();
    let all = crates().into_iter().map(|folder| {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        (name, manifest(&folder)["dependencies"].as_table().unwrap().keys().map(short).collect())
    });
    all.collect()
}

#[test]
fn every_crate_uses_only_crates_below_it() {
    let row = |name: &str| ROWS.iter().position(|row| row.contains(&name));
    for (name, dependencies) in dependencies() {
        let own =
            row(&name).unwrap_or_else(|| panic!("{name} has no row: give it one, in ARCHITECTURE.md too"));
        for dependency in dependencies {
            if let Some(below) = row(&dependency) {
                assert!(below > own, "{name} depends on {dependency}, which is not below it");
            }
        }
    }
}

#[test]
fn the_shipped_program_has_no_measurements() {
    let tributary = &dependencies()["tributary"];
    assert!(!tributary.contains("bench") && !tributary.contains("sim"), "{tributary:?}");
}

#[test]
fn the_independent_check_of_the_protocol_stays_independent() {
    let softswitch = &dependencies()["softswitch"];
    assert!(!softswitch.contains("protocol") && !softswitch.contains("wire"), "{softswitch:?}");
}

#[test]
fn pure_crates_need_no_runtime() {
    let all = dependencies();
    for name in WITHOUT_RUNTIME {
        for runtime in ["tokio", "tonic"] {
            assert!(!all[name].contains(runtime), "{name} depends on {runtime}");
        }
    }
}

#[test]
fn the_files_of_a_crate_do_not_depend_on_each_other_in_circles() {
    for folder in crates() {
        let source = folder.join("src");
        for root in ["lib.rs", "main.rs"].map(|name| source.join(name)) {
            let edges = circles(&root).into_iter().flatten().map(|(from, to, name)| {
                let [from, to] = [from, to].map(|file| file.strip_prefix(&source).unwrap().to_owned());
                format!("  {} uses {name} of {}\n", from.display(), to.display())
            });
            let found: String = edges.collect();
            assert!(found.is_empty(), "{} depend on each other in circles:\n{found}", source.display());
        }
    }
}

#[test]
fn a_circle_is_found_through_reexports_and_without_a_parent() {
    let files = [
        ("lib.rs", "mod low; mod part; pub use part::Part;"),
        ("low.rs", "use crate::Part; pub struct Low(Part);"),
        ("part/mod.rs", "mod own; pub use own::Part; pub struct Whole;"),
        ("part/own.rs", "use super::Whole; use crate::low; pub struct Part(Option<Box<low::Low>>, Whole);"),
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("part")).unwrap();
    for (name, code) in files {
        fs::write(folder.path().join(name), code).unwrap();
    }
    let found = circles(&folder.path().join("lib.rs"));
    let edge = |(from, to, name): &(PathBuf, PathBuf, String)| {
        let [from, to] = [from, to].map(|file| file.strip_prefix(folder.path()).unwrap().to_owned());
        (from, to, name.clone())
    };
    let edges: Vec<_> = found.iter().flatten().map(edge).collect();
    let (low, own) = (PathBuf::from("low.rs"), PathBuf::from("part/own.rs"));
    assert_eq!(edges, [(low.clone(), own.clone(), "Part".to_owned()), (own, low, "Low".to_owned())]);
}
