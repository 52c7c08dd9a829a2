//! Compiles the header as the author of a program would.
//!
//! Without compilers, the test prints that it is skipped.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

#[test]
fn the_header_is_valid_c_and_cpp_without_warnings() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, standard, name) in [("cc", "-std=c99", "header.c"), ("c++", "-std=c++11", "header.cc")] {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("SKIPPED: there is no `{compiler}` on the PATH: install gcc and g++");
            continue;
        }
        let source = folder.path().join(name);
        let text = "#include <tributary.h>\ntributary_options options = TRIBUTARY_OPTIONS_INIT;\n";
        fs::write(&source, text).unwrap();
        let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
        let warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"];
        let compiled = Command::new(compiler).args([standard, include]).args(warnings).arg(&source).output();
        let compiled = compiled.unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    }
}
