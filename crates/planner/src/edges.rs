//! The graph of the switches that a tree may pass: an edge for each direction of a link, with its cost.
//!
//! Hosts have one link, so no path leads through them, and the search can ignore them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tributary_topology::{LinkDirection, LinkKey, Neighbour, NodeKey};

use crate::fabric::Fabric;

/// Costs are integers, so that equal paths compare as equal: the picoseconds that a
/// byte takes there and back.
const PICOSECONDS: f64 = 1e12;
/// Factor by which a link counts as longer if it leads to a switch without slots: streams that meet
/// there go on side by side, over all links beyond it.
const DETOUR: u64 = 8;

/// An edge to a neighbour, and its cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) via: Neighbour,
    pub(crate) cost: u64,
}

impl Edge {
    fn new(fabric: &Fabric<'_>, via: Neighbour) -> Self {
        let seconds = |sender| fabric.seconds(LinkDirection { link: via.link, sender }, 1);
        Self { via, cost: ((seconds(0) + seconds(1)) * PICOSECONDS) as u64 + 1 }
    }

    /// A host's step to its switch, if its link is alive.
    pub(crate) fn of_host(fabric: &Fabric<'_>, host: NodeKey) -> Option<Self> {
        let via = fabric.neighbours(host).iter().find(|via| may_use(fabric, host, via))?;
        Some(Self::new(fabric, *via))
    }
}

/// Returns true if a tree may use a link: next to a plain switch, only if ordinary frames take it.
fn may_use(fabric: &Fabric<'_>, node: NodeKey, via: &Neighbour) -> bool {
    let ordinary = || fabric.forwarding().ports(node).iter().any(|port| port.link == via.link);
    !(fabric.is_plain(node) || fabric.is_plain(via.node)) || ordinary()
}

/// The edges between all live switches.
pub(crate) struct Edges {
    /// For each switch, the start of its edges in `all`; one entry more than there are switches.
    starts: Vec<usize>,
    /// The edges of each switch, by port.
    all: Vec<Edge>,
}

impl Edges {
    /// All edges of the fabric.
    pub(crate) fn of(fabric: &Fabric<'_>) -> Self {
        // Keys of switches come before those of hosts.
        let count = fabric.topology.switches().map(|(key, ..)| key.index() + 1).max().unwrap_or(0);
        let (mut starts, mut all) = (vec![0], Vec::new());
        for switch in (0..count).map(NodeKey::new) {
            let neighbours = fabric.neighbours(switch).iter();
            let usable = neighbours.filter(|via| !fabric.is_host(via.node) && may_use(fabric, switch, via));
            all.extend(usable.map(|via| Edge::new(fabric, *via)));
            starts.push(all.len());
        }
        Self { starts, all }
    }

    /// The same for trees that avoid switches where a job with this window cannot aggregate, as far as
    /// there is a way around them; `None` if it can aggregate everywhere.
    pub(crate) fn around(&self, fabric: &Fabric<'_>, window: u32) -> Option<Self> {
        let lacks = |switch| !fabric.has_slots(switch, window);
        let mut changed = false;
        let mut all = self.all.clone();
        for switch in (0..self.switches()).map(NodeKey::new) {
            for edge in &mut all[self.starts[switch.index()]..self.starts[switch.index() + 1]] {
                if lacks(switch) || lacks(edge.via.node) {
                    edge.cost = edge.cost.saturating_mul(DETOUR);
                    changed = true;
                }
            }
        }
        changed.then(|| Self { starts: self.starts.clone(), all })
    }

    /// One more than the highest index of a switch.
    pub(crate) fn switches(&self) -> usize {
        self.starts.len() - 1
    }

    /// The edges from a switch to its neighbours, by port.
    pub(crate) fn of_switch(&self, switch: NodeKey) -> &[Edge] {
        let ends = self.starts.get(switch.index()).zip(self.starts.get(switch.index() + 1));
        ends.and_then(|(&from, &to)| self.all.get(from..to)).unwrap_or(&[])
    }

    /// Distances from one switch over the links that `may_take` allows.
    pub(crate) fn distances(&self, from: NodeKey, may_take: impl Fn(LinkKey) -> bool) -> Distances {
        let mut far = Distances::new(self);
        self.spread(&mut far, [from], may_take, |_, _| ());
        far
    }

    /// Updates distances after the switches in `from` have come to distance 0 (Dijkstra's algorithm), and
    /// reports each switch that is nearer now.
    pub(crate) fn spread(
        &self,
        far: &mut Distances,
        from: impl IntoIterator<Item = NodeKey>,
        may_take: impl Fn(LinkKey) -> bool,
        mut nearer: impl FnMut(NodeKey, u64),
    ) {
        let mut queue = BinaryHeap::new();
        for switch in from {
            if far.shorten(switch, 0) {
                queue.push(Reverse((0, switch)));
            }
        }
        while let Some(Reverse((distance, switch))) = queue.pop() {
            if distance > far.to(switch) {
                continue;
            }
            nearer(switch, distance);
            for edge in self.of_switch(switch).iter().filter(|edge| may_take(edge.via.link)) {
                let distance = distance.saturating_add(edge.cost);
                if far.shorten(edge.via.node, distance) {
                    queue.push(Reverse((distance, edge.via.node)));
                }
            }
        }
    }

    /// The step after which the remaining distance is least; on a tie the one with the lowest port, which
    /// is the same for every path that passes here. Every link costs something, so paths come to an end.
    pub(crate) fn step(
        &self,
        from: NodeKey,
        far: &Distances,
        may_take: impl Fn(LinkKey) -> bool,
    ) -> Option<Neighbour> {
        let left = |edge: &Edge| (far.to(edge.via.node).saturating_add(edge.cost), edge.via.port);
        let edges = self.of_switch(from).iter().filter(|edge| may_take(edge.via.link));
        let step = edges.min_by_key(|edge| left(edge))?.via;
        (far.to(step.node) < far.to(from)).then_some(step)
    }
}

/// The distance of each switch from where distances are measured.
pub(crate) struct Distances(Vec<u64>);

impl Distances {
    pub(crate) fn new(edges: &Edges) -> Self {
        Self(vec![u64::MAX; edges.switches()])
    }

    /// The distance; `u64::MAX` without a path.
    pub(crate) fn to(&self, switch: NodeKey) -> u64 {
        self.0.get(switch.index()).copied().unwrap_or(u64::MAX)
    }

    /// Takes a distance if it is shorter; returns whether it is.
    fn shorten(&mut self, switch: NodeKey, distance: u64) -> bool {
        match self.0.get_mut(switch.index()) {
            Some(known) if distance < *known => {
                *known = distance;
                true
            }
            _ => false,
        }
    }
}
