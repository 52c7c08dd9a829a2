//! What it was measured on.

use std::fs;
use std::thread;

use tributary_bench::comparison::Machine;

/// This machine.
pub(super) fn describe() -> Machine {
    Machine {
        processor: processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: thread::available_parallelism().map_or(1, usize::from),
        kernel: read("/proc/sys/kernel/osrelease"),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
