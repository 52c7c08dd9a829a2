//! Labs on this machine: checks that this process can make one, and finds the remains of one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::binary::{stderr, tributary};

/// The tools that a lab with losses needs.
const TOOLS: [&str; 3] = ["ip", "ethtool", "nft"];

/// Returns true if the tools for labs are on the PATH; prints a note if a tool is missing.
pub fn tools_are_there() -> bool {
    if let Some(tool) = TOOLS.iter().find(|tool| Command::new(tool).arg("--version").output().is_err()) {
        eprintln!("SKIPPED: there is no {tool} on the PATH: `make tools` installs it");
        return false;
    }
    true
}

/// Returns true if this process can make labs that are visible from outside; prints a note if not.
///
/// Only the labs of root are visible.
pub fn can_be_made() -> bool {
    if !tools_are_there() {
        return false;
    }
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("SKIPPED: without root, what a lab leaves cannot be seen from outside of it");
        return false;
    }
    let listed = tributary(&["lab", "list"]);
    if listed.status.success() {
        return true;
    }
    assert!(stderr(&listed).contains("needs root"), "{}", stderr(&listed));
    eprintln!("SKIPPED: {}", stderr(&listed));
    false
}

/// Returns namespaces, files, sockets and processes of labs whose names have this prefix.
pub fn traces(lab: &str) -> Vec<String> {
    let named = |folder: &str| {
        let names = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.contains(lab))
    };
    let mut traces: Vec<_> = named("/run/netns").chain(named("/run/tributary/lab")).collect();
    let mark = format!("TRIBUTARY_LAB={lab}");
    for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
        // Most processes have no such variable, and some end meanwhile.
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environment).contains(&mark) {
            traces.push(process.display().to_string());
        }
    }
    traces
}
