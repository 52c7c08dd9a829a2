//! Programs that are checked in together with the files that p4c makes of them.
//!
//! A folder has a Makefile, and for each `.p4` file a `.json`, a `.p4info.txtpb` and a `.sha256` file.

use std::fs;
use std::path::Path;
use std::process::Command;

const COMPILER: &str = "p4c-bm2-ss";
/// The endings of the files that the Makefile makes of a program.
const MADE: [&str; 3] = ["json", "p4info.txtpb", "sha256"];

/// Checks that the compiled programs in `folder` match the sources beside them.
///
/// It compares the sources' hashes and, if the compiler is on the PATH, compiles the sources again in a copy.
///
/// # Panics
/// If a program does not match its source.
pub fn check(folder: &Path) {
    let names = names(folder);
    assert!(!names.is_empty(), "no programs in {}", folder.display());
    for name in &names {
        let mut sum = Command::new("sha256sum");
        sum.args(["--check", "--status"]).arg(format!("{name}.sha256")).current_dir(folder);
        assert!(
            sum.status().unwrap().success(),
            "{name} was changed: run `make -C {}` where {COMPILER} is installed",
            folder.display()
        );
    }
    if Command::new(COMPILER).arg("--version").output().is_ok() {
        compile_again(folder, &names);
    } else {
        println!("skipped: {COMPILER} is not on the PATH");
    }
}

fn compile_again(folder: &Path, names: &[String]) {
    let copy = tempfile::tempdir().unwrap();
    for source in names.iter().map(|name| format!("{name}.p4")).chain(["Makefile".to_owned()]) {
        fs::copy(folder.join(&source), copy.path().join(&source)).unwrap();
    }
    let made = Command::new("make").arg("-C").arg(copy.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for name in names.iter().flat_map(|name| MADE.map(|ending| format!("{name}.{ending}"))) {
        let [ours, fresh] = [folder, copy.path()].map(|at| fs::read_to_string(at.join(&name)).unwrap());
        assert!(ours == fresh, "{name} in {} is not what {COMPILER} makes of its source", folder.display());
    }
}

/// Returns the names of the programs, without their endings.
fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.filter_map(|file| file.strip_suffix(".p4").map(str::to_owned)).collect()
}
