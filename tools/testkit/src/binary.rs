//! Runs the `tributary` binary as a user would.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;

use crate::root;

/// The binary, which cargo has built for the tests of the package it belongs to.
pub fn path() -> PathBuf {
    let path = env::var_os("CARGO_BIN_EXE_tributary");
    path.expect("only cargo tells where it has built the binary: run this test by cargo").into()
}

/// Runs `tributary` in the checkout's root.
pub fn tributary(arguments: &[&str]) -> Output {
    Command::new(path()).args(arguments).current_dir(root()).output().unwrap()
}

/// Runs `tributary`, which must succeed and print one JSON object.
pub fn json(arguments: &[&str]) -> Value {
    let output = tributary(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs `tributary`, which must exit with `status`, say each of `words` on standard error, and
/// give the cause only once.
pub fn refused(arguments: &[&str], status: i32, words: &[&str]) {
    let output = tributary(arguments);
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

/// Checks that an error ends with its innermost cause, and does not mention it before.
fn assert_cause_once(said: &str) {
    let last = said.trim_end().lines().last().unwrap();
    let (before, cause) = last.rsplit_once(": ").unwrap();
    assert!(!before.contains(cause), "{cause:?} is said twice: {said}");
}

/// Checks that it has failed with exit status 1 and said each of `words`.
pub fn assert_refused(output: &Output, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names of shared memory that persist: another test's exists only for moments, until
/// its agent has opened it.
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
