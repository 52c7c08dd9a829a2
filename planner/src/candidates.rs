//! Trees that may be good.
//!
//! A tree that merges gradients early is a Steiner tree, and finding the best one is NP-hard; so several
//! heuristics propose trees, and `search` counts the bytes of each:
//!
//! 1. the tree that ordinary frames take, which also plain switches can serve;
//! 2. workers joined one by one to the tree that is there already, the nearest first (Takahashi and
//!    Matsuyama, 1980);
//! 3. for each switch, the shortest ways from all workers to it and from it to the server, as if all
//!    gradients met there.
//!
//! "Short" is the time a byte takes, so that loaded links are far.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use tributary_topology::{LinkDirection, LinkKey, Neighbour, NodeKey};

use crate::fabric::Fabric;
use crate::tree::Tree;

/// Costs are whole numbers, so that equal ways compare as equal: picoseconds that a byte takes, there and
/// back together.
const PICOSECONDS: f64 = 1e12;

/// Proposes trees from the workers to the server, each once, in a fixed order. Empty when a worker cannot
/// reach the server.
pub(crate) fn candidates(fabric: &Fabric<'_>, workers: &[NodeKey], server: NodeKey) -> Vec<Tree> {
    let ways = fabric.topology.nodes().map(|(node, _)| ways(fabric, node)).collect();
    let grow = Grow { fabric, workers, server, ways };
    let meeting_points = fabric.topology.switches().map(|(switch, ..)| switch);
    let mut proposed = vec![grow.ordinary(), grow.nearest_first()];
    proposed.extend(meeting_points.map(|switch| grow.meeting_at(switch)));
    let mut seen = BTreeSet::new();
    let new = |tree: &Tree| tree.fits_plain_switches(fabric) && seen.insert(tree.links());
    proposed.into_iter().flatten().filter(new).collect()
}

/// One way on from a node, and what it costs.
type Way = (Neighbour, u64);

/// The ways on from a node that a tree may use, by port: those that are alive and, where a plain switch is
/// at either end, among those that ordinary frames take.
fn ways(fabric: &Fabric<'_>, node: NodeKey) -> Vec<Way> {
    if !fabric.is_live(node) {
        return Vec::new();
    }
    let ordinary = |via: &Neighbour| fabric.forwarding.ports(node).iter().any(|port| port.link == via.link);
    let usable = |via: &Neighbour| !(fabric.is_plain(node) || fabric.is_plain(via.node)) || ordinary(via);
    let cost = |via: &Neighbour| {
        let seconds = |sender| fabric.seconds(LinkDirection { link: via.link, sender }, 1);
        ((seconds(0) + seconds(1)) * PICOSECONDS) as u64 + 1
    };
    let ways = fabric.neighbours(node).into_iter().filter(usable);
    ways.map(|via| (via, cost(&via))).collect()
}

struct Grow<'a> {
    fabric: &'a Fabric<'a>,
    workers: &'a [NodeKey],
    server: NodeKey,
    /// By node.
    ways: Vec<Vec<Way>>,
}

/// How far each node is from what distances are measured from.
struct Distances(Vec<u64>);

impl Distances {
    fn to(&self, node: NodeKey) -> u64 {
        self.0.get(node.index()).copied().unwrap_or(u64::MAX)
    }

    /// Takes a shorter distance; whether it is one.
    fn shorten(&mut self, node: NodeKey, distance: u64) -> bool {
        let shorter = distance < self.to(node);
        if let Some(known) = self.0.get_mut(node.index()).filter(|_| shorter) {
            *known = distance;
        }
        shorter
    }
}

impl Grow<'_> {
    fn ordinary(&self) -> Option<Tree> {
        let mut links = BTreeSet::new();
        for &worker in self.workers {
            links.extend(self.fabric.forwarding.path(worker, self.server)?.iter().map(|step| step.link));
        }
        self.tree_of(&links)
    }

    fn nearest_first(&self) -> Option<Tree> {
        let mut links = BTreeSet::new();
        let mut far = self.distances(self.server, |_| true);
        let mut waiting: BTreeSet<_> = self.workers.iter().copied().collect();
        while let Some(nearest) = waiting.iter().copied().min_by_key(|&worker| (far.to(worker), worker)) {
            waiting.remove(&nearest);
            let way = self.way(nearest, &far)?;
            links.extend(way.iter().map(|step| step.link));
            // Distances are from the tree, which has grown by this way.
            let joined = std::iter::once(nearest).chain(way.iter().map(|step| step.node));
            self.spread(&mut far, joined, |_| true);
        }
        self.tree_of(&links)
    }

    fn meeting_at(&self, switch: NodeKey) -> Option<Tree> {
        let far = self.distances(switch, |_| true);
        let mut links = BTreeSet::new();
        for &host in self.workers.iter().chain([&self.server]) {
            links.extend(self.way(host, &far)?.iter().map(|step| step.link));
        }
        self.tree_of(&links)
    }

    /// The shortest ways to the server that take none but these links and the hosts' own.
    fn tree_of(&self, links: &BTreeSet<LinkKey>) -> Option<Tree> {
        let of_server = self.only_way(self.server)?.link;
        let inside = |link| links.contains(&link) || link == of_server;
        let far = self.distances(self.server, inside);
        let mut parents = BTreeMap::new();
        for &worker in self.workers {
            // The server's host may be a worker: its way, too, begins with a step away from it.
            let mut step = self.only_way(worker)?;
            parents.insert(worker, step);
            while step.node != self.server && !parents.contains_key(&step.node) {
                let at = step.node;
                step = self.step(at, &far, inside)?;
                parents.insert(at, step);
            }
        }
        Tree::new(self.server, self.workers, &parents)
    }

    /// A host's link, if it is alive.
    fn only_way(&self, host: NodeKey) -> Option<Neighbour> {
        self.ways(host).first().map(|(via, _)| *via)
    }

    /// Distances from one node over the links that may be taken.
    fn distances(&self, from: NodeKey, may_take: impl Fn(LinkKey) -> bool) -> Distances {
        let mut far = Distances(vec![u64::MAX; self.ways.len()]);
        self.spread(&mut far, [from], may_take);
        far
    }

    /// Brings distances up to date after these nodes have come to distance 0 (Dijkstra's algorithm).
    fn spread(
        &self,
        far: &mut Distances,
        from: impl IntoIterator<Item = NodeKey>,
        may_take: impl Fn(LinkKey) -> bool,
    ) {
        let start = from.into_iter().filter(|&node| far.shorten(node, 0)).map(|node| Reverse((0, node)));
        let mut queue: BinaryHeap<_> = start.collect();
        while let Some(Reverse((distance, node))) = queue.pop() {
            if distance > far.to(node) {
                continue;
            }
            for (via, cost) in self.ways(node).iter().filter(|(via, _)| may_take(via.link)) {
                let distance = distance.saturating_add(*cost);
                if far.shorten(via.node, distance) {
                    queue.push(Reverse((distance, via.node)));
                }
            }
        }
    }

    fn ways(&self, node: NodeKey) -> &[Way] {
        self.ways.get(node.index()).map_or(&[], Vec::as_slice)
    }

    /// A shortest way to what `far` was measured from, as each node on it sees its next one.
    fn way(&self, from: NodeKey, far: &Distances) -> Option<Vec<Neighbour>> {
        let mut way = Vec::new();
        let mut at = from;
        while far.to(at) > 0 {
            let step = self.step(at, far, |_| true)?;
            way.push(step);
            at = step.node;
        }
        Some(way)
    }

    /// The step after which least is left to go; of equal ones that by the lowest port, which is the same
    /// for all who pass here. Every link costs something, so this comes to an end.
    fn step(&self, from: NodeKey, far: &Distances, may_take: impl Fn(LinkKey) -> bool) -> Option<Neighbour> {
        let left = |(via, cost): &Way| (far.to(via.node).saturating_add(*cost), via.port);
        let ways = self.ways(from).iter().filter(|(via, _)| may_take(via.link));
        let (step, _) = ways.min_by_key(|way| left(way))?;
        (far.to(step.node) < far.to(from)).then_some(*step)
    }
}
