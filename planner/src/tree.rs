//! A tree in the fabric: for each node on it, the way on towards the server.

use std::collections::{BTreeMap, BTreeSet};

use tributary_topology::{LinkKey, Neighbour, NodeKey};

use crate::fabric::Fabric;

/// An in-tree that leads every worker to the server. Children are in the order of the node's ports.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) server: NodeKey,
    parents: BTreeMap<NodeKey, Neighbour>,
    children: BTreeMap<NodeKey, Vec<Neighbour>>,
    /// All nodes, each after everything below it.
    bottom_up: Vec<NodeKey>,
}

impl Tree {
    /// Takes of `parents` (each node's way on towards the server) what the workers need. `None` when it
    /// does not lead all of them there.
    pub(crate) fn new(
        server: NodeKey,
        workers: &[NodeKey],
        parents: &BTreeMap<NodeKey, Neighbour>,
    ) -> Option<Self> {
        let mut tree =
            Self { server, parents: BTreeMap::new(), children: BTreeMap::new(), bottom_up: Vec::new() };
        for &worker in workers {
            let mut at = worker;
            while at != server && !tree.parents.contains_key(&at) {
                let up = *parents.get(&at)?;
                tree.parents.insert(at, up);
                let down = Neighbour { port: up.remote_port, link: up.link, node: at, remote_port: up.port };
                tree.children.entry(up.node).or_default().push(down);
                at = up.node;
            }
        }
        for children in tree.children.values_mut() {
            children.sort_unstable_by_key(|child| child.port);
        }
        tree.bottom_up = tree.order()?;
        Some(tree)
    }

    /// `None` when the parents form a cycle, which then is nowhere below the server.
    fn order(&self) -> Option<Vec<NodeKey>> {
        let mut top_down = vec![self.server];
        let mut at = 0;
        while let Some(&node) = top_down.get(at) {
            top_down.extend(self.children(node).iter().map(|child| child.node));
            at += 1;
        }
        top_down.reverse();
        (top_down.len() == self.parents.len() + 1).then_some(top_down)
    }

    /// The way on towards the server, as the node sees it; `None` at the server.
    pub(crate) fn parent(&self, node: NodeKey) -> Option<Neighbour> {
        self.parents.get(&node).copied()
    }

    /// What is below the node, by its ports.
    pub(crate) fn children(&self, node: NodeKey) -> &[Neighbour] {
        self.children.get(&node).map_or(&[], Vec::as_slice)
    }

    /// All nodes, each after everything below it; the server is the last.
    pub(crate) fn bottom_up(&self) -> &[NodeKey] {
        &self.bottom_up
    }

    /// The nodes from `from` to the server, both included.
    pub(crate) fn path(&self, from: NodeKey) -> Vec<NodeKey> {
        std::iter::successors(Some(from), |&node| self.parent(node).map(|up| up.node)).collect()
    }

    /// The links of the tree, by which two trees to one server are told apart.
    pub(crate) fn links(&self) -> BTreeSet<LinkKey> {
        self.parents.values().map(|up| up.link).collect()
    }

    /// Whether every plain switch of the tree forwards the job's frames, which it does by MAC address,
    /// along the tree: up to the server and down to every worker.
    pub(crate) fn fits_plain_switches(&self, fabric: &Fabric<'_>, workers: &[NodeKey]) -> bool {
        workers.iter().all(|&worker| {
            let mut below = None;
            self.path(worker).into_iter().all(|node| {
                let from = std::mem::replace(&mut below, self.parent(node).map(|up| up.link));
                let next = |to| fabric.forwarding.next(node, to).map(|via| via.link);
                !fabric.is_plain(node) || (next(self.server) == below && next(worker) == from)
            })
        })
    }
}
