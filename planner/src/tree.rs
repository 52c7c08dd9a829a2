//! A tree in the fabric: each worker's way into its first switch, and each switch's way on.

use std::collections::{BTreeMap, BTreeSet};

use tributary_topology::{LinkKey, Neighbour, NodeKey};

use crate::fabric::{Fabric, carries};

/// An in-tree that leads every worker to the server. Children are in the order of the node's ports.
///
/// Hosts have one link, so the workers are its leaves. The server's host may be a worker, too: it is then
/// the root, and at the same time a leaf below the one switch that it is linked to.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) server: NodeKey,
    /// Each worker's way into its first switch.
    leaves: BTreeMap<NodeKey, Neighbour>,
    /// Each switch's way on towards the server.
    parents: BTreeMap<NodeKey, Neighbour>,
    children: BTreeMap<NodeKey, Vec<Neighbour>>,
    /// The switches, each after all those below it.
    bottom_up: Vec<NodeKey>,
}

impl Tree {
    /// Takes of `parents` (each node's way on towards the server; for the server its way into its switch)
    /// what the workers need. `None` when it does not lead all of them there.
    pub(crate) fn new(
        server: NodeKey,
        workers: &[NodeKey],
        parents: &BTreeMap<NodeKey, Neighbour>,
    ) -> Option<Self> {
        let mut tree = Self {
            server,
            leaves: BTreeMap::new(),
            parents: BTreeMap::new(),
            children: BTreeMap::new(),
            bottom_up: Vec::new(),
        };
        for &worker in workers {
            let first = *parents.get(&worker)?;
            tree.leaves.insert(worker, first);
            tree.add_child(worker, first);
            let mut at = first.node;
            while at != server && !tree.parents.contains_key(&at) {
                let up = *parents.get(&at)?;
                tree.parents.insert(at, up);
                tree.add_child(at, up);
                at = up.node;
            }
        }
        for children in tree.children.values_mut() {
            children.sort_unstable_by_key(|child| child.port);
        }
        tree.bottom_up = tree.order()?;
        Some(tree)
    }

    fn add_child(&mut self, node: NodeKey, up: Neighbour) {
        let down = Neighbour { port: up.remote_port, link: up.link, node, remote_port: up.port };
        self.children.entry(up.node).or_default().push(down);
    }

    /// `None` when the parents form a cycle, which then is nowhere below the server.
    fn order(&self) -> Option<Vec<NodeKey>> {
        let below = |node| self.children(node).iter().map(|child| child.node);
        let is_switch = |node: &NodeKey| self.parents.contains_key(node);
        let mut top_down: Vec<_> = below(self.server).filter(is_switch).collect();
        let mut at = 0;
        while let Some(&node) = top_down.get(at) {
            top_down.extend(below(node).filter(is_switch));
            at += 1;
        }
        top_down.reverse();
        (top_down.len() == self.parents.len()).then_some(top_down)
    }

    /// The switch's way on towards the server.
    pub(crate) fn parent(&self, switch: NodeKey) -> Option<Neighbour> {
        self.parents.get(&switch).copied()
    }

    /// What is below the node, by its ports.
    pub(crate) fn children(&self, node: NodeKey) -> &[Neighbour] {
        self.children.get(&node).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_worker(&self, node: NodeKey) -> bool {
        self.leaves.contains_key(&node)
    }

    /// The switches, each after all those below it.
    pub(crate) fn bottom_up(&self) -> &[NodeKey] {
        &self.bottom_up
    }

    /// The steps from a worker to the server: each node of the way, and how it goes on from there.
    pub(crate) fn way(&self, worker: NodeKey) -> Vec<(NodeKey, Neighbour)> {
        let first = self.leaves.get(&worker).map(|up| (worker, *up));
        let next = |(_, up): &(NodeKey, Neighbour)| Some((up.node, self.parent(up.node)?));
        std::iter::successors(first, next).collect()
    }

    /// The nodes from a worker to the server, both included.
    pub(crate) fn path(&self, worker: NodeKey) -> Vec<NodeKey> {
        let onwards = self.way(worker).into_iter().map(|(_, up)| up.node);
        std::iter::once(worker).chain(onwards).collect()
    }

    /// The workers, and the way of each into its first switch.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (NodeKey, Neighbour)> {
        self.leaves.iter().map(|(&worker, &up)| (worker, up))
    }

    /// Every step of the tree once: the workers', then the switches'.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (NodeKey, Neighbour)> {
        self.leaves().chain(self.parents.iter().map(|(&switch, &up)| (switch, up)))
    }

    /// The node's step towards the server; none for the server, unless its host is a worker.
    pub(crate) fn step(&self, node: NodeKey) -> Option<Neighbour> {
        self.parents.get(&node).or_else(|| self.leaves.get(&node)).copied()
    }

    /// The links of the tree, by which two trees to one server are told apart.
    pub(crate) fn links(&self) -> BTreeSet<LinkKey> {
        self.steps().map(|(_, up)| up.link).collect()
    }

    /// Whether every plain switch of the tree forwards the job's frames along it, up to the server and down to
    /// every worker.
    pub(crate) fn fits_plain_switches(&self, fabric: &Fabric<'_>) -> bool {
        self.leaves.keys().all(|&worker| {
            self.way(worker).windows(2).all(|steps| {
                let [(_, below), (switch, up)] = [steps[0], steps[1]];
                let (ends, links) = ([worker, self.server], [below.link, up.link]);
                !fabric.is_plain(switch) || carries(&fabric.forwarding, switch, ends, links)
            })
        })
    }
}
