//! Runs the project's programs as a user would.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;

use crate::root;

/// A program of the project.
#[derive(Debug, Clone, Copy)]
pub struct Program(&'static str);

/// The program that users install.
pub const TRIBUTARY: Program = Program("tributary");
/// The program that measures fabrics, and disturbs them on purpose.
pub const BENCH: Program = Program("tributary-bench");

impl Program {
    /// Returns the program's file name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Returns the path of the program.
    ///
    /// Cargo has built it for the tests of its package. For the tests of another package, `cargo test
    /// --workspace` has built it in the folder of that package's program.
    pub fn path(self) -> PathBuf {
        let built = |program: Self| env::var_os(format!("CARGO_BIN_EXE_{}", program.0)).map(PathBuf::from);
        let beside = || {
            let path = [TRIBUTARY, BENCH].into_iter().find_map(built)?.with_file_name(self.0);
            assert!(
                path.exists(),
                "there is no {}: run this test by `cargo test --workspace`",
                path.display()
            );
            Some(path)
        };
        let path = built(self).or_else(beside);
        path.expect("only cargo tells where it has built the program: run this test by cargo")
    }

    /// Returns a command that runs the program in the checkout's root, with the `tributary` in the same
    /// folder.
    pub fn command(self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path());
        command.args(arguments).current_dir(root()).env_remove("TRIBUTARY_BINARY");
        command
    }

    /// Runs the program.
    pub fn run(self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts the program without waiting for its end. Its output is discarded.
    pub fn start(self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs the program, which must succeed and print one JSON object.
    pub fn json(self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs the program, which must exit with `status` and print each of `words` on standard error.
    ///
    /// If `status` is 1, the error must contain its cause only once.
    pub fn refused(self, arguments: &[&str], status: i32, words: &[&str]) {
        let output = self.run(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{arguments:?}: {word:?} is not in: {said}");
        }
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        if status == 1 {
            assert_cause_once(&said);
        }
    }
}

/// Returns the path of `tributary`.
pub fn path() -> PathBuf {
    TRIBUTARY.path()
}

/// Runs `tributary` in the checkout's root.
pub fn tributary(arguments: &[&str]) -> Output {
    TRIBUTARY.run(arguments)
}

/// Runs `tributary`, which must succeed and print one JSON object.
pub fn json(arguments: &[&str]) -> Value {
    TRIBUTARY.json(arguments)
}

/// Runs `tributary`, which must exit with `status` and print each of `words`: see [`Program::refused`].
pub fn refused(arguments: &[&str], status: i32, words: &[&str]) {
    TRIBUTARY.refused(arguments, status, words);
}

/// Checks that an error ends with its innermost cause, and does not mention it before.
fn assert_cause_once(said: &str) {
    let last = said.trim_end().lines().last().unwrap();
    let (before, cause) = last.rsplit_once(": ").unwrap();
    assert!(!before.contains(cause), "{cause:?} is said twice: {said}");
}

/// Checks that a command has failed with exit status 1 and printed each of `words`.
pub fn assert_refused(output: &Output, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

/// Returns standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the names of shared memory that persist.
///
/// The names of another test exist only for a short time, until its agent has opened the memory.
pub fn left_shared_memory() -> Vec<String> {
    let now = || -> BTreeSet<String> {
        let names = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name());
        names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with("tributary-"))
            .collect()
    };
    let mut left = now();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !left.is_empty() && Instant::now() < deadline {
        left = left.intersection(&now()).cloned().collect();
    }
    left.into_iter().collect()
}
