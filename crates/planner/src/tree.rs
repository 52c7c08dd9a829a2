//! A tree in the fabric: each worker's step to its first switch, and each switch's next step.

use std::collections::BTreeSet;

use tributary_topology::{LinkKey, Neighbour, NodeKey};

use crate::fabric::{Fabric, forwards_along};

/// A tree with paths from every worker to the server. Children are in the order of the node's ports.
///
/// Hosts have one link, so the workers are the leaves of the tree. If the server's host is also a worker, it is both
/// the root and a leaf below the switch to which it is linked.
///
/// The search makes and compares many trees. So a tree consists of a few vectors, and a switch on it is represented by
/// its place, which is an index.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) server: NodeKey,
    /// The leaves, in the order of the workers' keys.
    leaves: Vec<Leaf>,
    /// The branches, each after all branches below it.
    branches: Vec<Branch>,
    /// For each node, its place among the branches. The vector ends at the last switch of the tree.
    places: Vec<u32>,
    /// For each place, and then for the server, the index of its first child in `children`.
    /// The last entry is the length of `children`.
    starts: Vec<usize>,
    children: Vec<Neighbour>,
}

/// A worker, and its step to its first switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    pub(crate) worker: NodeKey,
    pub(crate) up: Neighbour,
    /// The place of the first switch.
    pub(crate) above: usize,
}

/// A switch of the tree, and its step towards the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    pub(crate) switch: NodeKey,
    pub(crate) up: Neighbour,
    /// The place of the next switch.
    /// For the last switch, it is the number of branches, which represents the server.
    pub(crate) above: usize,
}

/// The place of a node that is not a switch of the tree.
const NOWHERE: u32 = u32::MAX;

impl Tree {
    /// Builds the tree of the workers' paths; `None` if a worker's path does not lead to the server.
    /// `parent` returns each node's step towards the server. For the server, it returns the step to its switch.
    pub(crate) fn new(
        server: NodeKey,
        workers: &[NodeKey],
        parent: impl Fn(NodeKey) -> Option<Neighbour>,
    ) -> Option<Self> {
        let mut workers = workers.to_vec();
        workers.sort_unstable();
        let mut found = ReachedSwitches::default();
        let mut leaves = Vec::with_capacity(workers.len());
        for worker in workers {
            let up = parent(worker)?;
            let mut at = up.node;
            while at != server && found.add(at) {
                let up = parent(at)?;
                found.ways.push((at, up));
                at = up.node;
            }
            leaves.push(Leaf { worker, up, above: 0 });
        }
        Self::arranged(server, leaves, found)
    }

    /// Orders the switches; `None` if some steps form a cycle, which is then not below the server.
    fn arranged(server: NodeKey, mut leaves: Vec<Leaf>, found: ReachedSwitches) -> Option<Self> {
        let ReachedSwitches { ways, mut places } = found;
        let count = ways.len();
        let place = |node: NodeKey, places: &[u32]| match places.get(node.index()) {
            Some(&place) if place != NOWHERE => place as usize,
            _ => count,
        };
        let below = |node, up: Neighbour| Neighbour {
            port: up.remote_port,
            link: up.link,
            node,
            remote_port: up.port,
        };
        let steps = leaves.iter().map(|leaf| (leaf.worker, leaf.up)).chain(ways.iter().copied());
        let children =
            Children::group(count + 1, steps.map(|(node, up)| (place(up.node, &places), below(node, up))));
        // The places from the server down, level by level.
        let mut top_down: Vec<usize> = Vec::with_capacity(count);
        let switches = |of: usize| {
            let nodes = children.of(of).iter().map(|child| place(child.node, &places));
            nodes.filter(|&place| place < count).collect::<Vec<_>>()
        };
        top_down.extend(switches(count));
        let mut at = 0;
        while let Some(&place) = top_down.get(at) {
            top_down.extend(switches(place));
            at += 1;
        }
        if top_down.len() != count {
            return None;
        }
        let order: Vec<usize> = top_down.into_iter().rev().collect();
        for (place, &old) in (0u32..).zip(&order) {
            if let Some(known) = places.get_mut(ways[old].0.index()) {
                *known = place;
            }
        }
        let branch = |&old: &usize| {
            let (switch, up) = ways[old];
            Branch { switch, up, above: place(up.node, &places) }
        };
        for leaf in &mut leaves {
            leaf.above = place(leaf.up.node, &places);
        }
        let branches = order.iter().map(branch).collect();
        let children = children.reordered(order.iter().copied().chain([count]));
        let Children { starts, all: children } = children;
        Some(Self { server, leaves, branches, places, starts, children })
    }

    /// Returns the part of the tree that the workers on other hosts than the server's need.
    pub(crate) fn without_server_as_worker(&self) -> Self {
        let workers: Vec<_> =
            self.leaves.iter().map(|leaf| leaf.worker).filter(|&one| one != self.server).collect();
        // A part of a tree is a tree, so the alternative is never used.
        Self::new(self.server, &workers, |node| self.step(node)).unwrap_or_else(|| self.clone())
    }

    /// Returns the place of a switch among the branches.
    pub(crate) fn place(&self, switch: NodeKey) -> Option<usize> {
        let place = self.places.get(switch.index()).copied().filter(|&place| place != NOWHERE);
        place.map(|place| place as usize)
    }

    /// Returns the switch's step towards the server.
    pub(crate) fn parent(&self, switch: NodeKey) -> Option<Neighbour> {
        self.branches.get(self.place(switch)?).map(|branch| branch.up)
    }

    /// Returns the nodes below a node, by its ports.
    pub(crate) fn children(&self, node: NodeKey) -> &[Neighbour] {
        let place = if node == self.server { Some(self.branches.len()) } else { self.place(node) };
        let ends = place.and_then(|place| self.starts.get(place).zip(self.starts.get(place + 1)));
        ends.and_then(|(&from, &to)| self.children.get(from..to)).unwrap_or(&[])
    }

    fn leaf(&self, worker: NodeKey) -> Option<&Leaf> {
        let place = self.leaves.binary_search_by_key(&worker, |leaf| leaf.worker).ok()?;
        self.leaves.get(place)
    }

    pub(crate) fn is_worker(&self, node: NodeKey) -> bool {
        self.leaf(node).is_some()
    }

    /// Returns the switches, each after all switches below it.
    pub(crate) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Returns the workers, in the order of their keys.
    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Returns the steps from a worker to the server: each node of the path, and the step from there.
    pub(crate) fn way(&self, worker: NodeKey) -> Vec<(NodeKey, Neighbour)> {
        let first = self.leaf(worker).map(|leaf| (worker, leaf.up));
        let next = |(_, up): &(NodeKey, Neighbour)| Some((up.node, self.parent(up.node)?));
        std::iter::successors(first, next).collect()
    }

    /// Returns the nodes of the path from a worker to the server, both included.
    pub(crate) fn path(&self, worker: NodeKey) -> Vec<NodeKey> {
        let onwards = self.way(worker).into_iter().map(|(_, up)| up.node);
        std::iter::once(worker).chain(onwards).collect()
    }

    /// Returns the node's step towards the server; `None` for the server, unless its host is a worker.
    pub(crate) fn step(&self, node: NodeKey) -> Option<Neighbour> {
        self.parent(node).or_else(|| self.leaf(node).map(|leaf| leaf.up))
    }

    /// Returns the links of the tree.
    pub(crate) fn links(&self) -> BTreeSet<LinkKey> {
        let leaves = self.leaves.iter().map(|leaf| leaf.up.link);
        leaves.chain(self.branches.iter().map(|branch| branch.up.link)).collect()
    }

    /// Returns true if all plain switches forward the job's frames along the tree, in both directions.
    pub(crate) fn fits_plain_switches(&self, fabric: &Fabric<'_>) -> bool {
        if !self.branches.iter().any(|branch| fabric.is_plain(branch.switch)) {
            return true;
        }
        self.leaves.iter().all(|leaf| {
            self.way(leaf.worker).windows(2).all(|steps| {
                let [(_, below), (switch, up)] = [steps[0], steps[1]];
                let (ends, links) = ([leaf.worker, self.server], [below.link, up.link]);
                !fabric.is_plain(switch) || forwards_along(fabric.forwarding(), switch, ends, links)
            })
        })
    }
}

/// The switches that the workers' paths have reached, in the order in which they were reached.
#[derive(Default)]
struct ReachedSwitches {
    ways: Vec<(NodeKey, Neighbour)>,
    /// For each node, its place in `ways`.
    places: Vec<u32>,
}

impl ReachedSwitches {
    /// Adds a switch. Returns true if it is new; the caller must then push its step.
    fn add(&mut self, switch: NodeKey) -> bool {
        if self.places.len() <= switch.index() {
            self.places.resize(switch.index() + 1, NOWHERE);
        }
        let known = &mut self.places[switch.index()];
        let is_new = *known == NOWHERE;
        if is_new {
            *known = u32::try_from(self.ways.len()).unwrap_or(NOWHERE);
        }
        is_new
    }
}

/// Children of several nodes, ordered by port for each.
struct Children {
    starts: Vec<usize>,
    all: Vec<Neighbour>,
}

impl Children {
    /// Groups children by their parent, whose number is less than `parents`.
    fn group(parents: usize, children: impl Iterator<Item = (usize, Neighbour)> + Clone) -> Self {
        let mut starts = vec![0; parents + 1];
        for (parent, _) in children.clone() {
            starts[parent + 1] += 1;
        }
        for parent in 0..parents {
            starts[parent + 1] += starts[parent];
        }
        let mut next = starts.clone();
        let mut all: Vec<_> = children.clone().map(|(_, child)| child).collect();
        for (parent, child) in children {
            all[next[parent]] = child;
            next[parent] += 1;
        }
        for ends in starts.windows(2) {
            all[ends[0]..ends[1]].sort_unstable_by_key(|child| child.port);
        }
        Self { starts, all }
    }

    fn of(&self, parent: usize) -> &[Neighbour] {
        &self.all[self.starts[parent]..self.starts[parent + 1]]
    }

    /// Returns the groups in a new order of the parents.
    fn reordered(&self, order: impl Iterator<Item = usize>) -> Self {
        let (mut starts, mut all) = (vec![0], Vec::with_capacity(self.all.len()));
        for parent in order {
            all.extend_from_slice(self.of(parent));
            starts.push(all.len());
        }
        Self { starts, all }
    }
}
