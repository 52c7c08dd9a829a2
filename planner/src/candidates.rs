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

use std::collections::{BTreeMap, BTreeSet, HashMap};

use petgraph::algo::dijkstra;
use petgraph::visit::{EdgeFiltered, EdgeRef};
use tributary_topology::{End, LinkDirection, LinkKey, Neighbour, NodeKey};

use crate::fabric::Fabric;
use crate::tree::Tree;

/// Costs are whole numbers, so that equal ways compare as equal: picoseconds that a byte takes, there and
/// back together.
const PICOSECONDS: f64 = 1e12;

/// Proposes trees from the workers to the server, each once, in a fixed order. Empty when a worker cannot
/// reach the server.
pub(crate) fn candidates(fabric: &Fabric<'_>, workers: &[NodeKey], server: NodeKey) -> Vec<Tree> {
    let grow = Grow { fabric, workers, server, costs: costs(fabric) };
    let meeting_points = fabric.topology.switches().map(|(switch, ..)| switch);
    let mut proposed = vec![grow.ordinary(), grow.nearest_first()];
    proposed.extend(meeting_points.map(|switch| grow.meeting_at(switch)));
    let mut seen = BTreeSet::new();
    let new = |tree: &Tree| tree.fits_plain_switches(fabric, workers) && seen.insert(tree.links());
    proposed.into_iter().flatten().filter(new).collect()
}

/// What each link costs that a tree may use: one that is alive and, at a plain switch, one of those that
/// ordinary frames take.
fn costs(fabric: &Fabric<'_>) -> BTreeMap<LinkKey, u64> {
    let usable = |link: &LinkKey, ends: &[End; 2]| {
        let alive = |end: &End| !fabric.state.dead_nodes.contains(&end.node);
        let ordinary = |end: &End| fabric.forwarding.ports(end.node).iter().any(|port| port.link == *link);
        !fabric.state.dead_links.contains(link)
            && ends.iter().all(|end| alive(end) && (!fabric.is_plain(end.node) || ordinary(end)))
    };
    let cost = |link| {
        let seconds = |sender| fabric.seconds(LinkDirection { link, sender }, 1);
        ((seconds(0) + seconds(1)) * PICOSECONDS) as u64 + 1
    };
    let links = fabric.topology.links().filter(|(link, at)| usable(link, &at.ends));
    links.map(|(link, _)| (link, cost(link))).collect()
}

struct Grow<'a> {
    fabric: &'a Fabric<'a>,
    workers: &'a [NodeKey],
    server: NodeKey,
    costs: BTreeMap<LinkKey, u64>,
}

/// How far nodes are from a root.
type Distances = HashMap<NodeKey, u64>;

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
        let mut joined = BTreeSet::from([self.server]);
        let mut waiting: BTreeSet<_> = self.workers.iter().copied().collect();
        while !waiting.is_empty() {
            // What is joined costs nothing, so that a distance from the server is one from the tree.
            let cost = |link| if links.contains(&link) { Some(0) } else { self.costs.get(&link).copied() };
            let far = self.distances(self.server, cost);
            let reached = waiting.iter().filter_map(|worker| Some((*far.get(worker)?, *worker)));
            let (_, nearest) = reached.min()?;
            waiting.remove(&nearest);
            let mut at = nearest;
            while joined.insert(at) {
                let step = self.step(at, &far)?;
                links.insert(step.link);
                at = step.node;
            }
        }
        self.tree_of(&links)
    }

    fn meeting_at(&self, switch: NodeKey) -> Option<Tree> {
        let far = self.distances(switch, |link| self.costs.get(&link).copied());
        let mut links = BTreeSet::new();
        for &host in self.workers.iter().chain([&self.server]) {
            let mut at = host;
            while at != switch {
                let step = self.step(at, &far)?;
                links.insert(step.link);
                at = step.node;
            }
        }
        self.tree_of(&links)
    }

    /// The shortest ways to the server that take none but these links.
    fn tree_of(&self, links: &BTreeSet<LinkKey>) -> Option<Tree> {
        let cost = |link| self.costs.get(&link).copied().filter(|_| links.contains(&link));
        let far = self.distances(self.server, cost);
        let mut parents = BTreeMap::new();
        for &worker in self.workers {
            let mut at = worker;
            while at != self.server && !parents.contains_key(&at) {
                let steps = self.fabric.neighbours(at).into_iter().filter(|via| links.contains(&via.link));
                let step = self.nearer(at, &far, steps)?;
                parents.insert(at, step);
                at = step.node;
            }
        }
        Tree::new(self.server, self.workers, &parents)
    }

    /// Distances over the links that have a cost.
    fn distances(&self, root: NodeKey, cost: impl Fn(LinkKey) -> Option<u64>) -> Distances {
        let graph = self.fabric.topology.graph();
        let usable = EdgeFiltered::from_fn(graph, |edge| cost(edge.id()).is_some());
        let far = dijkstra(&usable, root, None, |edge| cost(edge.id()).unwrap_or(u64::MAX));
        far.into_iter().collect()
    }

    /// The next step of a shortest way to the root that `far` was measured from.
    fn step(&self, from: NodeKey, far: &Distances) -> Option<Neighbour> {
        self.nearer(from, far, self.fabric.neighbours(from).into_iter())
    }

    /// The one of several steps after which least is left to go; of equal ones that by the lowest port,
    /// which is the same for all who pass here. Every step costs something, so this comes to an end.
    fn nearer(
        &self,
        from: NodeKey,
        far: &Distances,
        steps: impl Iterator<Item = Neighbour>,
    ) -> Option<Neighbour> {
        let here = *far.get(&from)?;
        let left = |via: &Neighbour| Some(far.get(&via.node)?.saturating_add(*self.costs.get(&via.link)?));
        let (_, step) =
            steps.filter_map(|via| Some((left(&via)?, via))).min_by_key(|(left, via)| (*left, via.port))?;
        (far.get(&step.node)? < &here).then_some(step)
    }
}
