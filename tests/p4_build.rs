//! Checks that p4c's output in `p4/build` was compiled from the present sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest, Sha256};
use tributary_testkit::root;

const COMPILER: &str = "p4c-bm2-ss";

fn p4() -> PathBuf {
    root().join("p4")
}

/// Returns the SHA-256 of every P4 source in hexadecimal, by its path relative to `p4/`.
fn hashes_of_sources() -> BTreeMap<String, String> {
    ["include", "v1model", "tna", "shim"]
        .iter()
        .flat_map(|folder| {
            fs::read_dir(p4().join(folder)).unwrap().map(move |entry| (folder, entry.unwrap()))
        })
        .filter(|(_, entry)| entry.path().extension().is_some_and(|extension| extension == "p4"))
        .map(|(folder, entry)| {
            let digest = Sha256::digest(fs::read(entry.path()).unwrap());
            let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            (format!("{folder}/{}", entry.file_name().to_str().unwrap()), hex)
        })
        .collect()
}

/// Returns the SHA-256 of every P4 source at the time when the program was compiled.
fn hashes_when_compiled() -> BTreeMap<String, String> {
    fs::read_to_string(p4().join("build/SOURCES.sha256"))
        .unwrap()
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .map(|(hash, path)| (path.to_owned(), hash.to_owned()))
        .collect()
}

#[test]
fn the_compiled_program_is_that_of_the_sources() {
    assert_eq!(
        hashes_of_sources(),
        hashes_when_compiled(),
        "the P4 sources changed and p4/build did not: run `make p4` where {COMPILER} is installed"
    );
}

/// Returns the hash of the sources of Tofino's program, in the format of `p4/tofino_report.py`.
fn hash_of_tofinos_sources() -> String {
    let sources = fs::read_to_string(p4().join("build/SOURCES.sha256")).unwrap();
    let tofinos = sources.lines().filter(|line| {
        let path = line.split_once("  ").unwrap().1;
        path.starts_with("include/") || path.starts_with("tna/")
    });
    hex::encode(Sha256::digest(tofinos.map(|line| format!("{line}\n")).collect::<String>()))
}

#[test]
fn what_a_tofino_gives_is_of_the_sources_and_there_is_so_much() {
    let figures =
        |line: &str| -> Vec<u32> { line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect() };
    for (name, stages) in [("tofino", 12), ("tofino2", 20)] {
        let page = fs::read_to_string(p4().join(format!("build/{name}.md"))).unwrap();
        assert!(
            page.contains(&format!("Sources: `{}`", hash_of_tofinos_sources())),
            "p4/tna changed and p4/build/{name}.md did not: run `make -C p4 tofino` where p4c-barefoot is installed"
        );
        let used: Vec<Vec<u32>> = page.lines().map(figures).filter(|line| line.len() == 7).collect();
        assert_eq!(used.len(), stages, "{name} has so many stages");
        for stage in used {
            let most = [19, 4, 4, 80, 24, 16, 16];
            assert!(stage.iter().zip(most).all(|(used, most)| *used <= most), "{name}: {stage:?}");
        }
    }
}

#[test]
fn compiling_again_gives_the_same_files() {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        println!("skipped: {COMPILER} is not on the PATH");
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(p4()).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    let made = Command::new("make").arg("-B").arg("-C").arg(copy.path().join("p4")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for folder in ["32", "256", "2048", "tna-32"] {
        for file in ["tributary.json", "tributary.p4info.txtpb"] {
            let name = format!("build/{folder}/{file}");
            let [ours, fresh] = [p4(), copy.path().join("p4")].map(|p4| fs::read(p4.join(&name)).unwrap());
            assert!(ours == fresh, "p4/{name} is not what {COMPILER} makes of the sources: run `make p4`");
        }
    }
}

#[test]
fn the_compiled_programs_of_the_benchmarks_are_those_of_the_sources() {
    tributary_testkit::compiled::check(&root().join("tools/bench/programs"));
}
