//! Link directions as indices, their capacities, and dead parts.

use std::collections::HashSet;

use tributary_topology::{LinkDirection, LinkKey, NodeKey, Topology};

use super::assumptions::Assumptions;
use super::outage::Down;

const BITS_PER_BYTE: f64 = 8.0;

/// Returns the index of a link direction.
pub(super) fn index(direction: LinkDirection) -> usize {
    2 * direction.link.index() + direction.sender
}

/// Returns the link direction at an index.
pub(super) fn direction(index: usize) -> LinkDirection {
    LinkDirection { link: LinkKey::new(index / 2), sender: index % 2 }
}

/// The parts that are down.
#[derive(Debug, Clone, Default)]
pub(super) struct Dead {
    pub(super) nodes: HashSet<NodeKey>,
    pub(super) links: HashSet<LinkKey>,
}

impl Dead {
    pub(super) fn set(&mut self, what: Down, is_down: bool) {
        match (what, is_down) {
            (Down::Node(node), true) => self.nodes.insert(node),
            (Down::Node(node), false) => self.nodes.remove(&node),
            (Down::Link(link), true) => self.links.insert(link),
            (Down::Link(link), false) => self.links.remove(&link),
        };
    }

    pub(super) fn is_link_dead(&self, topology: &Topology, link: LinkKey) -> bool {
        !(self.links.is_empty() && self.nodes.is_empty())
            && (self.links.contains(&link)
                || topology[link].ends.iter().any(|end| self.nodes.contains(&end.node)))
    }
}

/// The network that streams share.
#[derive(Debug)]
pub(super) struct Network<'a> {
    pub(super) topology: &'a Topology,
    pub(super) assumptions: Assumptions,
    pub(super) dead: Dead,
    /// Capacity of each link direction, in bytes/s; 0 if it is down.
    pub(super) capacity: Vec<f64>,
}

impl<'a> Network<'a> {
    pub(super) fn new(topology: &'a Topology, assumptions: Assumptions) -> Self {
        let mut network = Self { topology, assumptions, dead: Dead::default(), capacity: Vec::new() };
        network.capacity = network.capacities();
        network
    }

    pub(super) fn set(&mut self, what: Down, is_down: bool) {
        self.dead.set(what, is_down);
        self.capacity = self.capacities();
    }

    fn capacities(&self) -> Vec<f64> {
        let rates = self.topology.links().map(|(key, link)| {
            let is_hosts = link.ends.iter().any(|end| self.topology[end.node].host().is_some());
            let host_rate = self.assumptions.host_rate.filter(|_| is_hosts).unwrap_or(u64::MAX);
            match self.dead.is_link_dead(self.topology, key) {
                true => 0.0,
                false => link.rate.min(host_rate) as f64 / BITS_PER_BYTE,
            }
        });
        rates.flat_map(|rate| [rate, rate]).collect()
    }

    /// Returns true if all links of a path are alive.
    pub(super) fn is_alive(&self, way: &[usize]) -> bool {
        !way.iter().any(|&at| self.dead.is_link_dead(self.topology, direction(at).link))
    }

    /// Returns the capacity of the slowest link direction of a path, in bytes/s.
    pub(super) fn slowest(&self, way: &[usize]) -> f64 {
        way.iter().filter_map(|&at| self.capacity.get(at)).copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the time that a packet takes over these links, from one program to the other, in seconds.
    ///
    /// The frame is `frame_bytes` long. Switches store the frame before they forward it, and no queue delays
    /// it.
    pub(super) fn latency(&self, links: impl Iterator<Item = LinkKey>, frame_bytes: usize) -> f64 {
        let Assumptions { hop_seconds, host_seconds, .. } = self.assumptions;
        let bits = frame_bytes as f64 * BITS_PER_BYTE;
        2.0 * host_seconds
            + links.map(|link| hop_seconds + bits / self.topology[link].rate as f64).sum::<f64>()
    }
}
