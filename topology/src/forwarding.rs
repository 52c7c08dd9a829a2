//! How ordinary frames travel: by MAC address, over a spanning tree, as in any plain Ethernet.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::graph::{LinkKey, Neighbour, NodeKey, Topology};

/// The spanning tree that frames without a hop stack travel on.
///
/// There is one way between any two nodes, so that the way back is the way there reversed, and a
/// broadcast that goes out of all the tree's ports but the one it came in by ends.
///
/// It is grown breadth first from the first server, so that the ways to it are as short as can be.
#[derive(Debug, Clone)]
pub struct Forwarding {
    /// For each node the link to the node that it was reached from, as it sees it. Roots have none.
    parents: HashMap<NodeKey, Neighbour>,
    /// For each node how far from the root it is, and a root that is the same for all it can reach.
    depths: HashMap<NodeKey, (usize, NodeKey)>,
    /// For each node its ports on the tree, in rising order.
    ports: HashMap<NodeKey, Vec<Neighbour>>,
}

impl Topology {
    /// The spanning tree for ordinary frames.
    pub fn forwarding(&self) -> Forwarding {
        self.forwarding_without(&HashSet::new(), &HashSet::new())
    }

    /// The same around what is dead: a dead link is not on the tree, and no way leads to a dead node.
    pub fn forwarding_without(
        &self,
        dead_nodes: &HashSet<NodeKey>,
        dead_links: &HashSet<LinkKey>,
    ) -> Forwarding {
        let alive = |via: &Neighbour| !dead_nodes.contains(&via.node) && !dead_links.contains(&via.link);
        let roots = self.servers().into_iter().chain(self.nodes().map(|(key, _)| key));
        let mut tree = Forwarding { parents: HashMap::new(), depths: HashMap::new(), ports: HashMap::new() };
        for root in roots.filter(|root| !dead_nodes.contains(root)) {
            tree.grow(self, root, alive);
        }
        for (key, _) in self.nodes() {
            let mut ports = self.neighbours(key);
            ports.retain(|to| tree.is_parent(key, to.link) || tree.is_parent(to.node, to.link));
            tree.ports.insert(key, ports);
        }
        tree
    }
}

impl Forwarding {
    fn grow(&mut self, topology: &Topology, root: NodeKey, alive: impl Fn(&Neighbour) -> bool) {
        if self.depths.contains_key(&root) {
            return;
        }
        self.depths.insert(root, (0, root));
        let mut queue = VecDeque::from([(root, 0)]);
        while let Some((node, depth)) = queue.pop_front() {
            for to in topology.neighbours(node).into_iter().filter(&alive) {
                if self.depths.contains_key(&to.node) {
                    continue;
                }
                self.depths.insert(to.node, (depth + 1, root));
                let back = Neighbour { port: to.remote_port, link: to.link, node, remote_port: to.port };
                self.parents.insert(to.node, back);
                queue.push_back((to.node, depth + 1));
            }
        }
    }

    fn is_parent(&self, child: NodeKey, link: LinkKey) -> bool {
        self.parents.get(&child).is_some_and(|up| up.link == link)
    }

    /// The ports of `node` that are on the tree, in rising order: what a broadcast goes out of.
    pub fn ports(&self, node: NodeKey) -> &[Neighbour] {
        self.ports.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Where `from` sends a frame to `to`; `None` when no way leads there, or they are one.
    pub fn next(&self, from: NodeKey, to: NodeKey) -> Option<Neighbour> {
        let (&(from_depth, root), &(mut depth, to_root)) = (self.depths.get(&from)?, self.depths.get(&to)?);
        if root != to_root || from == to {
            return None;
        }
        // If `from` is above `to`, the way is down the branch that `to` is in; else it is up.
        let mut at = to;
        while depth > from_depth {
            let up = self.parents.get(&at)?;
            if up.node == from {
                return Some(Neighbour {
                    port: up.remote_port,
                    link: up.link,
                    node: at,
                    remote_port: up.port,
                });
            }
            (at, depth) = (up.node, depth - 1);
        }
        self.parents.get(&from).copied()
    }

    /// The way from one node to another, as each node on it sees its next one; empty when they are one.
    pub fn path(&self, from: NodeKey, to: NodeKey) -> Option<Vec<Neighbour>> {
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            let step = self.next(at, to)?;
            path.push(step);
            at = step.node;
        }
        Some(path)
    }
}
