//! What a daemon takes of the machine.

use std::fs;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde::Serialize;

use crate::lab::Record;

/// What of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Bytes of resident memory.
    Memory,
    /// Open file descriptors.
    Descriptors,
    Threads,
}

/// All of it.
pub(super) const KINDS: [Kind; 3] = [Kind::Memory, Kind::Descriptors, Kind::Threads];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
        }
    }

    /// The least that counts: an allocator takes memory in larger pieces than it is asked for, and a line through a single
    /// step of 1 rises by one and a half.
    pub(super) fn granule(self) -> f64 {
        match self {
            Self::Memory => f64::from(1 << 20),
            Self::Descriptors | Self::Threads => 2.0,
        }
    }

    pub(super) fn show(self, figure: f64) -> String {
        match self {
            Self::Memory => ByteSize(figure as u64).to_string(),
            Self::Descriptors | Self::Threads => format!("{figure:.1}"),
        }
    }
}

/// Of one daemon.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    /// Where it is, and what.
    pub(super) name: String,
    memory: u64,
    descriptors: u64,
    threads: u64,
}

impl Usage {
    /// Of all daemons of a lab, always in the same order.
    ///
    /// # Errors
    /// One has ended.
    pub(super) fn of_all(record: &Record) -> Result<Vec<Self>> {
        let of = |(station, daemon, process): (&str, &str, u32)| {
            let usage = Self::of(format!("{daemon} on {station}"), process);
            usage.with_context(|| format!("the {daemon} on {station} has ended"))
        };
        record.daemons().map(of).collect()
    }

    fn of(name: String, process: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next());
            let number = number.and_then(|number| number.parse::<u64>().ok());
            number.with_context(|| format!("no {name} in /proc/{process}/status"))
        };
        let descriptors = fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64;
        Ok(Self { name, memory: field("VmRSS")? << 10, descriptors, threads: field("Threads")? })
    }

    pub(super) fn figure(&self, kind: Kind) -> f64 {
        let figure = match kind {
            Kind::Memory => self.memory,
            Kind::Descriptors => self.descriptors,
            Kind::Threads => self.threads,
        };
        figure as f64
    }
}
