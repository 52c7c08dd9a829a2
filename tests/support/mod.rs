//! Runs the `tributary` binary as a user would.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs `tributary` in the checkout's root.
pub(crate) fn tributary(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tributary")).args(arguments).current_dir(root()).output().unwrap()
}

/// Runs `tributary`, which must succeed and print one JSON object.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let output = tributary(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs `tributary`, which must exit with `status`, say each of `words` on standard error, and give the cause only
/// once.
pub(crate) fn refused(arguments: &[&str], status: i32, words: &[&str]) {
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
pub(crate) fn assert_refused(output: &Output, words: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Names of shared memory that persist: another test's exists only for moments, until its agent has opened it.
pub(crate) fn left_shared_memory() -> Vec<String> {
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
