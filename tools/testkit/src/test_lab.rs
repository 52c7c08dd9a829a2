//! Labs that are made and used by `tributary lab`, for the tests of programs.

use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{json, left_shared_memory, refused, stderr, tributary};
use crate::labs;

/// Time limit of a wait. If a wait takes longer, the program has a defect.
const PATIENCE: Duration = Duration::from_secs(120);

/// A lab, by its name. When this value is dropped, the remains of the lab are removed.
#[derive(Debug)]
pub struct TestLab(pub String);

impl TestLab {
    /// Chooses the lab's name. Prints a message and returns `None` if this process may not make labs.
    pub fn new(test: &str) -> Option<Self> {
        labs::can_be_made().then(|| Self(format!("{test}-{}", std::process::id())))
    }

    /// Makes the lab, and returns its record.
    pub fn up(&self, topology: &str, options: &[&str]) -> Value {
        json(&[&["lab", "up", topology, "--name", &self.0, "--json"], options].concat())
    }

    /// Runs a command on all workers.
    pub fn run(&self, command: &[&str]) -> Output {
        tributary(&[&["lab", "run", "--name", &self.0, "--"], command].concat())
    }

    /// Removes the lab.
    pub fn down(&self) {
        let down = tributary(&["lab", "down", &self.0]);
        assert!(down.status.success(), "{}", stderr(&down));
    }

    /// Runs `tributary lab COMMAND --name … ARGUMENTS`, which must succeed.
    pub fn lab(&self, command: &str, arguments: &[&str]) {
        let output = tributary(&[&["lab", command, "--name", &self.0], arguments].concat());
        assert!(output.status.success(), "{command} {arguments:?}: {}", stderr(&output));
    }

    /// Runs a command at a station.
    pub fn exec(&self, station: &str, command: &[&str]) -> Output {
        tributary(&[&["lab", "exec", "--name", &self.0, station, "--"], command].concat())
    }

    /// Runs `tributary lab COMMAND --name … ARGUMENTS`, which must fail and print each of `words`.
    pub fn lab_refuses(&self, command: &str, arguments: &[&str], words: &[&str]) {
        refused(&[&["lab", command, "--name", &self.0], arguments].concat(), 1, words);
    }

    /// Returns the lab's entry in `tributary lab list`.
    pub fn listed(&self) -> Value {
        json(&["lab", "list", &self.0, "--json"])["labs"][0].clone()
    }

    /// Returns the process of the daemon at a station, and its state.
    pub fn daemon(&self, station: &str) -> (Option<u64>, String) {
        let listed = self.listed();
        let mut stations = listed["stations"].as_array().unwrap().iter();
        let found = stations.find(|found| found["name"] == station).unwrap();
        (found["process"].as_u64(), found["state"].as_str().unwrap().to_owned())
    }

    /// Checks that all workers reduce correctly.
    pub fn reduces(&self) {
        let reduced = self.run(&["tributary", "allreduce", "--json", "--check", "--size", "64KiB"]);
        assert_eq!(reports(&reduced).len(), 2);
    }

    /// Waits until another process has made the lab.
    pub fn wait_until_up(&self) {
        let record = format!("/run/tributary/lab/{}/fabric.json", self.0);
        wait_until("the lab is up", || fs::exists(&record).unwrap());
    }

    /// Checks that no part of the lab is left.
    pub fn is_gone(&self) {
        assert_eq!(labs::traces(&self.0), Vec::<String>::new());
        assert_eq!(left_shared_memory(), Vec::<String>::new());
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        // Usually no part of the lab is left, so an error is ignored.
        tributary(&["lab", "down", &self.0]);
    }
}

/// Returns each worker's report of its all-reduce, in rank order. All sums must be right.
pub fn reports(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let report = |line: &str| {
        let (host, report) = line.split_once(": ").unwrap();
        let report: Value = serde_json::from_str(report).unwrap();
        assert_eq!((&report["host"], &report["checked"]), (&Value::from(host), &Value::from(true)));
        report
    };
    let mut reports: Vec<_> = text.lines().map(report).collect();
    reports.sort_by_key(|report| report["rank"].as_u64());
    let ranks: Vec<_> = reports.iter().map(|report| report["rank"].as_u64().unwrap()).collect();
    assert_eq!(ranks, (0..reports.len() as u64).collect::<Vec<_>>());
    reports
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "still waiting until {what}");
        std::thread::yield_now();
    }
}
