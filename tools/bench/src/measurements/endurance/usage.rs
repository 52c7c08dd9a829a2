//! Resources that the parts of a fabric use.

use std::fs;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde::Serialize;

use tributary::lab::{self, Record};
use tributary_lab::Lab;

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Resource {
    /// Bytes of resident memory.
    Memory,
    /// Open file descriptors.
    Descriptors,
    Threads,
    /// Slots of a switch that the controller has given to jobs.
    Slots,
}

impl Resource {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
            Self::Slots => "slots",
        }
    }

    /// Returns the least rise that counts.
    ///
    /// An allocator takes memory in larger pieces than a program requests. A line that is fitted to a single
    /// step of 1 rises by 1.5.
    pub(super) fn granule(self) -> f64 {
        match self {
            Self::Memory => f64::from(1 << 20),
            Self::Descriptors | Self::Threads | Self::Slots => 2.0,
        }
    }

    pub(super) fn show(self, figure: f64) -> String {
        match self {
            Self::Memory => ByteSize(figure as u64).to_string(),
            Self::Descriptors | Self::Threads | Self::Slots => format!("{figure:.1}"),
        }
    }
}

/// The use of one resource by one part of the fabric.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    /// The name of the part: a daemon and its station, or a switch.
    pub(super) name: String,
    pub(super) kind: Resource,
    pub(super) figure: f64,
}

impl Usage {
    /// Returns the usage of all daemons of a lab and of all switches, always in the same order.
    ///
    /// # Errors
    /// A daemon has ended, or the controller does not answer.
    pub(super) fn of_all(lab: &Lab, record: &Record) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for (station, daemon, process) in record.daemons() {
            let of_daemon = of_daemon(&format!("{daemon} on {station}"), process);
            all.extend(of_daemon.with_context(|| format!("the {daemon} on {station} has ended"))?);
        }
        let switches = lab::switches(lab, record)?.into_iter();
        all.extend(switches.map(|switch| Self {
            name: switch.name,
            kind: Resource::Slots,
            figure: switch.slots_taken.into(),
        }));
        Ok(all)
    }
}

fn of_daemon(name: &str, process: u32) -> Result<[Usage; 3]> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next());
        let number = number.and_then(|number| number.parse::<u64>().ok());
        number.with_context(|| format!("no {name} in /proc/{process}/status"))
    };
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64;
    let usage = |kind, figure: u64| Usage { name: name.to_owned(), kind, figure: figure as f64 };
    Ok([
        usage(Resource::Memory, field("VmRSS")? << 10),
        usage(Resource::Descriptors, descriptors),
        usage(Resource::Threads, field("Threads")?),
    ])
}
