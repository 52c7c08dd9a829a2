//! The graph of the switches that a tree may pass.
//! It has an edge, with a cost, for each direction of a link.
//!
//! A host has one link, so no path leads through it, and the search can ignore hosts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tributary_topology::{LinkDirection, LinkKey, Neighbour, NodeKey};

use crate::fabric::Fabric;

/// The number of picoseconds in a second.
/// The cost of a link is the number of picoseconds that a byte takes there and back.
/// Costs are integers, so that equal paths have equal costs.
const PICOSECONDS: f64 = 1e12;
/// The factor for the cost of a link to or from a switch without slots.
/// Streams that meet at such a switch continue separately over all links behind it.
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

    /// Returns the edge from a host to its switch, if its link is alive.
    pub(crate) fn of_host(fabric: &Fabric<'_>, host: NodeKey) -> Option<Self> {
        let via = fabric.neighbours(host).iter().find(|via| may_use(fabric, host, via))?;
        Some(Self::new(fabric, *via))
    }
}

/// Returns true if a tree may use a link.
/// Next to a plain switch, it may only use links that ordinary frames take.
fn may_use(fabric: &Fabric<'_>, node: NodeKey, via: &Neighbour) -> bool {
    let ordinary = || fabric.forwarding().ports(node).iter().any(|port| port.link == via.link);
    !(fabric.is_plain(node) || fabric.is_plain(via.node)) || ordinary()
}

/// The edges between all live switches.
pub(crate) struct Edges {
    /// For each switch, the start of its edges in `all`, and one more entry for the end.
    starts: Vec<usize>,
    /// The edges of each switch, by port.
    all: Vec<Edge>,
}

impl Edges {
    /// Collects all edges of the fabric.
    pub(crate) fn of(fabric: &Fabric<'_>) -> Self {
        // The keys of switches are lower than the keys of hosts.
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

    /// Returns the edges with higher costs at switches where a job with this window cannot aggregate.
    /// Trees on them avoid such switches if another path exists. `None` if the job can aggregate at every switch.
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

    /// Returns the highest index of a switch plus one.
    pub(crate) fn switches(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the edges from a switch to its neighbours, by port.
    pub(crate) fn of_switch(&self, switch: NodeKey) -> &[Edge] {
        let ends = self.starts.get(switch.index()).zip(self.starts.get(switch.index() + 1));
        ends.and_then(|(&from, &to)| self.all.get(from..to)).unwrap_or(&[])
    }

    /// Computes the distances from one switch over the links that `may_take` allows.
    pub(crate) fn distances(&self, from: NodeKey, may_take: impl Fn(LinkKey) -> bool) -> Distances {
        let mut far = Distances::new(self);
        self.spread(&mut far, [from], may_take, |_, _| ());
        far
    }

    /// Updates distances after the distance of the switches in `from` has become 0 (Dijkstra's algorithm).
    /// It calls `nearer` for each switch whose distance has become shorter.
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

    /// Returns the step from a switch after which the remaining distance is least.
    /// On a tie, the step with the lowest port wins, so all paths through the switch continue alike. Every link has a
    /// positive cost, so paths end.
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

/// The distance of each switch from a set of start switches.
pub(crate) struct Distances(Vec<u64>);

impl Distances {
    pub(crate) fn new(edges: &Edges) -> Self {
        Self(vec![u64::MAX; edges.switches()])
    }

    /// Returns the distance of `switch`; `u64::MAX` without a path.
    pub(crate) fn to(&self, switch: NodeKey) -> u64 {
        self.0.get(switch.index()).copied().unwrap_or(u64::MAX)
    }

    /// Stores a distance if it is shorter than the known distance. Returns true if it is.
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
