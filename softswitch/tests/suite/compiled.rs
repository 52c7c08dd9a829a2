//! The checked-in compilation of the test program, in `programs/`, matches its source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

const COMPILER: &str = "p4c-bm2-ss";

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

#[test]
fn the_compiled_program_is_that_of_the_source() {
    let digest = Sha256::digest(fs::read(programs().join("constructs.p4")).unwrap());
    let now: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let then = fs::read_to_string(programs().join("constructs.sha256")).unwrap();
    assert_eq!(then.split_once(' ').unwrap().0, now, "run `make -C softswitch/tests/programs`");
}

#[test]
fn compiling_again_gives_the_same_files() {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        println!("skipped: {COMPILER} is not on the PATH");
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    for name in ["Makefile", "constructs.p4"] {
        fs::copy(programs().join(name), copy.path().join(name)).unwrap();
    }
    let made = Command::new("make").arg("-C").arg(copy.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for name in ["constructs.json", "constructs.p4info.txtpb", "constructs.sha256"] {
        let [ours, fresh] =
            [programs().as_path(), copy.path()].map(|at| fs::read_to_string(at.join(name)).unwrap());
        assert!(ours == fresh, "{name} is not what {COMPILER} makes of its source");
    }
}
