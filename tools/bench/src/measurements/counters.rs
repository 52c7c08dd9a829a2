//! Traffic counters of a network's links.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use tributary_lab::Lab;

/// The file that lists the interfaces of the reading thread's network namespace.
const INTERFACES: &str = "/proc/thread-self/net/dev";
/// The index of a direction's first field in a line, after the interface's name: bytes, then frames.
const RECEIVED: usize = 0;
const SENT: usize = 8;

/// Traffic of an interface in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) bytes: u64,
    pub(super) frames: u64,
}

impl Carried {
    fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            frames: self.frames.saturating_sub(before.frames),
        }
    }

    fn with(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, frames: self.frames + other.frames }
    }
}

/// One interface's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interface {
    received: Carried,
    sent: Carried,
}

/// The traffic of each interface of the data network.
#[derive(Debug, Clone)]
pub(super) struct Counters(BTreeMap<String, Interface>);

impl Counters {
    /// Reads the counters of all nodes.
    pub(super) fn read(lab: &Lab) -> Result<Self> {
        Self::read_at(lab, lab.stations())
    }

    /// Reads the counters of some nodes.
    pub(super) fn read_at<'a>(lab: &Lab, stations: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut all = BTreeMap::new();
        for station in stations {
            let interfaces = lab.interfaces(station)?;
            if interfaces.is_empty() {
                continue;
            }
            let text = lab.inside(station, || fs::read_to_string(INTERFACES))??;
            for interface in interfaces {
                let carried = find(&text, &interface.name);
                let carried =
                    carried.with_context(|| format!("{INTERFACES} does not have {}", interface.name))?;
                all.insert(interface.name.clone(), carried);
            }
        }
        Ok(Self(all))
    }

    /// Returns the traffic of the busiest direction of a link since `before`, in bytes.
    pub(super) fn busiest_since(&self, before: &Self) -> u64 {
        // The bytes that one end sends are received by the other end, so one direction is enough.
        self.since(before).map(|interface| interface.sent.bytes).max().unwrap_or(0)
    }

    /// Returns the traffic of all interfaces in both directions since `before`.
    pub(super) fn total_since(&self, before: &Self) -> Carried {
        let both = |interface: Interface| interface.sent.with(interface.received);
        self.since(before).map(both).fold(Carried { bytes: 0, frames: 0 }, Carried::with)
    }

    fn since(&self, before: &Self) -> impl Iterator<Item = Interface> {
        self.0.iter().filter_map(|(name, now)| {
            let before = before.0.get(name)?;
            Some(Interface {
                received: now.received.since(before.received),
                sent: now.sent.since(before.sent),
            })
        })
    }
}

fn find(text: &str, interface: &str) -> Option<Interface> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let fields: Vec<_> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let carried = |at| Some(Carried { bytes: *fields.get(at)?, frames: *fields.get(at + 1)? });
    Some(Interface { received: carried(RECEIVED)?, sent: carried(SENT)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_read() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets errs ...\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth12: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n   eth1: 700 7 0 0 0 0 0 0 300 3 0 0 0 0 0 0";
        let before = Counters(BTreeMap::from([("eth1".to_owned(), find(text, "eth1").unwrap())]));
        let later = text.replace("700 7", "1700 17").replace("300 3", "1000 10");
        let now = Counters(BTreeMap::from([("eth1".to_owned(), find(&later, "eth1").unwrap())]));
        assert_eq!(now.total_since(&before), Carried { bytes: 1700, frames: 17 });
        assert_eq!(now.busiest_since(&before), 700);
        assert_eq!(find(text, "eth2"), None);
    }
}
