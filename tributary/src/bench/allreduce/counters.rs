//! What the links of a network have carried.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use tributary_lab::Lab;

/// Of the namespace that the reading thread is in.
const INTERFACES: &str = "/proc/thread-self/net/dev";
/// Where a line has the bytes that were sent, after the interface's name.
const SENT_BYTES: usize = 8;

/// Bytes that each interface of the data network has sent: one for each direction of each link.
#[derive(Debug, Clone)]
pub(super) struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads those of all nodes.
    pub(super) fn read(lab: &Lab) -> Result<Self> {
        let mut sent = BTreeMap::new();
        for station in lab.stations() {
            let interfaces = lab.interfaces(station)?;
            if interfaces.is_empty() {
                continue;
            }
            let text = lab.inside(station, || fs::read_to_string(INTERFACES))??;
            for interface in interfaces {
                let bytes = sent_by(&text, &interface.name);
                let bytes =
                    bytes.with_context(|| format!("{INTERFACES} does not have {}", interface.name))?;
                sent.insert(interface.name.clone(), bytes);
            }
        }
        Ok(Self(sent))
    }

    /// What the busiest direction of a link has carried since `before`.
    pub(super) fn busiest_since(&self, before: &Self) -> u64 {
        let since =
            |(name, bytes): (&String, &u64)| bytes.saturating_sub(before.0.get(name).copied().unwrap_or(0));
        self.0.iter().map(since).max().unwrap_or(0)
    }
}

fn sent_by(text: &str, interface: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(SENT_BYTES)?.parse().ok()
}
