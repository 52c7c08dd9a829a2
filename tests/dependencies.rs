//! The crates depend on each other as ARCHITECTURE.md says.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::Table;

/// Rows from the top down: a crate uses only crates in rows below its own.
const ROWS: [&[&str]; 9] = [
    &["paper", "testkit"],
    &["bench"],
    &["tributary"],
    &["demo", "fuzz", "python"],
    &["controller", "host-agent", "client", "softswitch", "sim", "verify", "trainer"],
    &["cli", "ps", "capture"],
    &["api", "certs", "p4runtime", "planner", "protocol", "link", "codec", "lab", "picture"],
    &["topology", "transport"],
    &["files", "wire"],
];
/// Crates that must stay usable without an async runtime.
const WITHOUT_RUNTIME: [&str; 14] = [
    "sim", "verify", "lab", "trainer", "certs", "planner", "protocol", "link", "codec", "picture",
    "topology", "wire", "capture", "files",
];

/// Every crate of the workspace with its dependencies, except those of its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = |path: &Path| fs::read_to_string(path).unwrap().parse::<Table>().unwrap();
    let workspace = manifest(&root.join("Cargo.toml"));
    let members = workspace["workspace"]["members"].as_array().unwrap().iter();
    members
        .map(|member| {
            let folder = Path::new(member.as_str().unwrap());
            let manifest = manifest(&root.join(folder).join("Cargo.toml"));
            let dependencies = manifest["dependencies"].as_table().unwrap().keys();
            let short = |name: &String| name.strip_prefix("tributary-").unwrap_or(name).to_owned();
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            (name, dependencies.map(short).collect())
        })
        .collect()
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
