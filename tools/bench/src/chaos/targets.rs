//! The parts of a lab that a chaos run can hit.

use std::collections::VecDeque;
use std::fmt;

use clap::ValueEnum;
use serde::Serialize;
use tributary_lab::{CONTROLLER, Link, LinkEnd, SwitchKind};
use tributary_topology::{LinkKey, NodeKey, Topology};

/// A kind of disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DisturbanceKind {
    /// A switch that workers are linked to is killed
    Leaf,
    /// A switch between leaves and roots is killed
    Middle,
    /// A switch at the greatest distance from the workers is killed
    Root,
    /// The controller is killed
    Controller,
    /// The agent of a worker is killed
    Agent,
    /// The aggregation server is killed
    Server,
    /// The training process of a worker is killed
    Process,
    /// A link is cut
    Link,
    /// An interface of a switch or a host is taken down and up again
    Interface,
}

impl fmt::Display for DisturbanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaf => "leaf switch",
            Self::Middle => "middle switch",
            Self::Root => "root switch",
            Self::Controller => "controller",
            Self::Agent => "agent",
            Self::Server => "server",
            Self::Process => "training process",
            Self::Link => "link",
            Self::Interface => "interface",
        })
    }
}

/// Something that can be hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: DisturbanceKind,
    pub(super) part: LabPart,
}

/// The part of the lab that is hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LabPart {
    /// The daemon at a node. `node` is `None` for the controller, which runs at no node of the topology.
    Daemon { station: String, node: Option<NodeKey> },
    /// The training process of a rank. `process` is its number on the host; `None` if it is alone there.
    Process { rank: usize, worker: usize, process: Option<usize>, host: String },
    /// A link.
    Link { key: LinkKey, name: String },
    /// The interface at one end of a link.
    Interface { key: LinkKey, station: String, name: String },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.part, self.kind) {
            (LabPart::Daemon { node: None, .. }, _) => write!(f, "the controller"),
            (LabPart::Daemon { station, .. }, DisturbanceKind::Agent) => write!(f, "the agent of {station}"),
            (LabPart::Daemon { station, .. }, DisturbanceKind::Server) => {
                write!(f, "the server at {station}")
            }
            (LabPart::Daemon { station, .. }, kind) => write!(f, "{kind} {station}"),
            (LabPart::Process { host, process: None, .. }, _) => write!(f, "the process at {host}"),
            (LabPart::Process { host, process: Some(process), .. }, _) => {
                write!(f, "process {process} at {host}")
            }
            (LabPart::Link { name, .. }, _) => write!(f, "link {name}"),
            (LabPart::Interface { name, .. }, _) => write!(f, "interface {name}"),
        }
    }
}

/// Returns all targets of a lab with this topology and number of training processes on each worker.
pub(super) fn all(topology: &Topology, per_worker: usize) -> Vec<Target> {
    let daemon = |kind, node: NodeKey| Target {
        kind,
        part: LabPart::Daemon { station: topology[node].name.clone(), node: Some(node) },
    };
    let mut targets = Vec::new();
    // Kernel bridges have no daemon.
    if SwitchKind::for_daemons(topology) != SwitchKind::Bridge {
        let levels = levels(topology);
        let top = topology.switches().filter_map(|(key, ..)| levels[key.index()]).max();
        for (key, ..) in topology.switches() {
            let kind = match levels[key.index()] {
                Some(1) => DisturbanceKind::Leaf,
                level if level.is_some() && level == top => DisturbanceKind::Root,
                _ => DisturbanceKind::Middle,
            };
            targets.push(daemon(kind, key));
        }
    }
    let controller = LabPart::Daemon { station: CONTROLLER.to_owned(), node: None };
    targets.push(Target { kind: DisturbanceKind::Controller, part: controller });
    targets.extend(topology.servers().first().map(|server| daemon(DisturbanceKind::Server, *server)));
    for (worker, node) in topology.workers().into_iter().enumerate() {
        targets.push(daemon(DisturbanceKind::Agent, node));
        targets.extend((0..per_worker).map(|number| {
            let (rank, host) = (worker * per_worker + number, topology[node].name.clone());
            let process = (per_worker > 1).then_some(number);
            let part = LabPart::Process { rank, worker, process, host };
            Target { kind: DisturbanceKind::Process, part }
        }));
    }
    for ((key, _), link) in topology.links().zip(Link::of(topology)) {
        targets.push(Target { kind: DisturbanceKind::Link, part: LabPart::Link { key, name: link.name } });
        targets.extend(link.ends.into_iter().map(|LinkEnd { station, interface, .. }| Target {
            kind: DisturbanceKind::Interface,
            part: LabPart::Interface { key, station, name: interface },
        }));
    }
    targets
}

/// Returns the number of links from each node to the nearest worker.
fn levels(topology: &Topology) -> Vec<Option<u32>> {
    let mut levels = vec![None; topology.nodes().count()];
    let mut next: VecDeque<_> = topology.workers().into_iter().map(|worker| (worker, 0)).collect();
    while let Some((node, level)) = next.pop_front() {
        if levels[node.index()].is_none() {
            levels[node.index()] = Some(level);
            next.extend(topology.neighbours(node).iter().map(|neighbour| (neighbour.node, level + 1)));
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::tests::shipped;

    /// Returns the names of the switches of a kind.
    fn switches(topology: &str, kind: DisturbanceKind) -> Vec<String> {
        let targets = all(&shipped(topology), 1);
        let name = |target: Target| match target.part {
            LabPart::Daemon { station, .. } if target.kind == kind => Some(station),
            _ => None,
        };
        targets.into_iter().filter_map(name).collect()
    }

    #[test]
    fn switches_are_told_apart_by_how_far_the_workers_are() {
        assert_eq!(switches("three-tier-8", DisturbanceKind::Leaf), ["leaf0", "leaf1", "leaf2", "leaf3"]);
        assert_eq!(switches("three-tier-8", DisturbanceKind::Middle), ["mid0", "mid1"]);
        assert_eq!(switches("three-tier-8", DisturbanceKind::Root), ["root"]);
        assert_eq!(switches("leaf-spine-8", DisturbanceKind::Root), ["spine0", "spine1"]);
        assert!(switches("leaf-spine-8", DisturbanceKind::Middle).is_empty());
        assert_eq!(switches("two-workers", DisturbanceKind::Leaf), ["leaf"]);
        assert!(switches("two-workers", DisturbanceKind::Root).is_empty());
        assert_eq!(switches("two-workers", DisturbanceKind::Server), ["ps"]);
        assert_eq!(switches("two-workers", DisturbanceKind::Agent), ["w0", "w1"]);
    }
}
