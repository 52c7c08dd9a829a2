//! Forwarding of ordinary frames: by MAC address, over a spanning tree, as in any plain Ethernet.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::graph::{LinkKey, Neighbour, NodeKey, Topology};

/// The spanning tree along which frames without a hop stack travel.
///
/// There is one way between any two nodes, so the way back is the reverse of the way there, and a broadcast that
/// leaves by all of the tree's ports except the one it came in by comes to an end.
///
/// The tree is grown breadth first from the first server, so the ways to that server are as short as possible.
#[derive(Debug, Clone)]
pub struct Forwarding {
    /// For each node, its step back to the node from which it was reached. Roots have none.
    parents: HashMap<NodeKey, Neighbour>,
    /// For each node, its distance from the root, and the root itself, which is the same
    /// for all connected nodes.
    depths: HashMap<NodeKey, (usize, NodeKey)>,
    /// For each node, its ports on the tree, ascending.
    ports: HashMap<NodeKey, Vec<Neighbour>>,
}

impl Topology {
    /// The spanning tree for ordinary frames.
    pub fn forwarding(&self) -> Forwarding {
        self.forwarding_without(&HashSet::new(), &HashSet::new())
    }

    /// The same without dead parts: a dead link is not on the tree, and no way leads to a dead node.
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

    /// The ports of `node` on the tree, ascending: a broadcast leaves by these.
    pub fn ports(&self, node: NodeKey) -> &[Neighbour] {
        self.ports.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Where `from` sends a frame to `to`; `None` if no way leads there, or they are the same node.
    pub fn next(&self, from: NodeKey, to: NodeKey) -> Option<Neighbour> {
        let (&(from_depth, root), &(mut depth, to_root)) = (self.depths.get(&from)?, self.depths.get(&to)?);
        if root != to_root || from == to {
            return None;
        }
        // If `from` is above `to`, the way leads down the branch with `to`; otherwise it leads up.
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

    /// The steps from one node to another; empty if they are the same, `None` if no way leads there.
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
