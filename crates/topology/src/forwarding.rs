//! Forwarding of ordinary frames by MAC address over a spanning tree, as in any plain Ethernet.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::graph::{LinkKey, Neighbour, NodeKey, Topology};

/// The spanning tree on which frames without a hop stack travel.
///
/// There is exactly one path between two connected nodes, so the path back is the reverse path. A broadcast leaves each
/// switch through all ports of the tree except the ingress port, and therefore ends.
///
/// The tree is built by breadth-first search from the first server, so the paths to that server are as short as
/// possible.
#[derive(Debug, Clone)]
pub struct Forwarding {
    /// For each node, its step to its parent, from which the search reached it. Roots have no parent.
    parents: HashMap<NodeKey, Neighbour>,
    /// For each node, its distance from its root, and the root. All connected nodes have the same root.
    depths: HashMap<NodeKey, (usize, NodeKey)>,
    /// For each node, its ports that are on the tree, ascending.
    ports: HashMap<NodeKey, Vec<Neighbour>>,
}

impl Topology {
    /// Returns the spanning tree for ordinary frames.
    pub fn forwarding(&self) -> Forwarding {
        self.forwarding_without(&HashSet::new(), &HashSet::new())
    }

    /// Returns the spanning tree without dead parts: it has no dead links, and no path leads to a dead
    /// node.
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

    /// Returns the ports of `node` that are on the tree, ascending. A broadcast leaves through these ports.
    pub fn ports(&self, node: NodeKey) -> &[Neighbour] {
        self.ports.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns the step from `from` towards `to`; `None` if no path exists, or if both are the same node.
    pub fn next(&self, from: NodeKey, to: NodeKey) -> Option<Neighbour> {
        let (&(from_depth, root), &(mut depth, to_root)) = (self.depths.get(&from)?, self.depths.get(&to)?);
        if root != to_root || from == to {
            return None;
        }
        // If `from` is an ancestor of `to`, the next step leads down the branch of `to`. Otherwise it leads up.
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

    /// Returns the steps between two nodes; empty if they are the same node, `None` if no path exists.
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
