//! The machine of a measurement.

use std::{env, fs, thread};

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// "release", or "debug" for a build without optimisation.
    pub build: String,
}

impl Machine {
    /// Describes the machine that runs this program.
    pub fn this() -> Self {
        Self {
            processor: processor().unwrap_or_else(|| env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
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
