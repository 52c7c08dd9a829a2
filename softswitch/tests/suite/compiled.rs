//! The checked-in compilations of the test programs, in `programs/`, match their sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

const COMPILER: &str = "p4c-bm2-ss";

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The names of the test programs, without ending.
fn names() -> Vec<String> {
    let files =
        fs::read_dir(programs()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<_> = files.filter_map(|file| file.strip_suffix(".p4").map(str::to_owned)).collect();
    assert!(!names.is_empty());
    names
}

#[test]
fn the_compiled_programs_are_those_of_the_sources() {
    for name in names() {
        let digest = Sha256::digest(fs::read(programs().join(format!("{name}.p4"))).unwrap());
        let now: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let then = fs::read_to_string(programs().join(format!("{name}.sha256"))).unwrap();
        let then = then.split_once(' ').unwrap().0;
        assert_eq!(then, now, "{name}: run `make -C softswitch/tests/programs`");
    }
}

#[test]
fn compiling_again_gives_the_same_files() {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        println!("skipped: {COMPILER} is not on the PATH");
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    let sources = names().into_iter().map(|name| format!("{name}.p4")).chain(["Makefile".to_owned()]);
    for name in sources {
        fs::copy(programs().join(&name), copy.path().join(&name)).unwrap();
    }
    let made = Command::new("make").arg("-C").arg(copy.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made = names()
        .into_iter()
        .flat_map(|name| ["json", "p4info.txtpb", "sha256"].map(|end| format!("{name}.{end}")));
    for name in made {
        let [ours, fresh] =
            [programs().as_path(), copy.path()].map(|at| fs::read_to_string(at.join(&name)).unwrap());
        assert!(ours == fresh, "{name} is not what {COMPILER} makes of its source");
    }
}
