//! Paths of the hosts' traffic: equal-cost multi-path routing (ECMP) over shortest paths.
//!
//! Every connection uses one of the shortest paths. It is drawn evenly at each switch, because switches
//! choose by a hash of addresses and ports. So two connections may share a link while another link is idle.

use std::collections::{HashMap, VecDeque};

use petgraph::visit::EdgeRef;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tributary_topology::{LinkKey, NodeKey, Topology};

use super::error::FlowError;
use super::network::{Dead, Network, index};

const FAR: u32 = u32::MAX;

/// A connection's path from one host to another.
#[derive(Debug, Clone)]
pub(super) struct Way {
    from: NodeKey,
    to: NodeKey,
    /// The link directions that the connection uses while all of them are alive.
    ///
    /// Switches choose them by a hash, so they do not change.
    own: Vec<usize>,
    /// The link directions that the connection uses now.
    links: Vec<usize>,
}

impl Way {
    /// Draws a path.
    ///
    /// # Errors
    /// [`FlowError::Apart`].
    pub(super) fn draw(
        (from, to): (NodeKey, NodeKey),
        routes: &mut Routes<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, FlowError> {
        let name = |node: NodeKey| routes.topology[node].name.clone();
        let apart = FlowError::Apart { from: name(from), to: name(to) };
        let own = routes.way(from, to, rng).ok_or(apart)?;
        Ok(Self { from, to, links: own.clone(), own })
    }

    pub(super) fn links(&self) -> &[usize] {
        &self.links
    }

    /// Moves the connection to another path around dead parts, and back when its own path is alive.
    ///
    /// Returns true if anything changed.
    pub(super) fn reroute(
        &mut self,
        network: &Network<'_>,
        routes: &mut Routes<'_>,
        rng: &mut ChaCha8Rng,
    ) -> bool {
        let way = if network.is_alive(&self.own) {
            self.own.clone()
        } else if network.is_alive(&self.links) {
            return false;
        } else {
            let Some(way) = routes.way(self.from, self.to, rng) else { return false };
            way
        };
        let has_changed = way != self.links;
        self.links = way;
        has_changed
    }
}

/// Shortest paths around dead parts.
pub(super) struct Routes<'a> {
    topology: &'a Topology,
    dead: &'a Dead,
    /// The distances of each node from a switch, computed on demand.
    distances: HashMap<NodeKey, Vec<u32>>,
}

impl<'a> Routes<'a> {
    pub(super) fn new(topology: &'a Topology, dead: &'a Dead) -> Self {
        Self { topology, dead, distances: HashMap::new() }
    }

    /// Returns the link directions of a path between two hosts, or `None` if no path exists.
    fn way(&mut self, from: NodeKey, to: NodeKey, rng: &mut ChaCha8Rng) -> Option<Vec<usize>> {
        let (first_link, first) = self.steps(from).next()?;
        let (last_link, last) = self.steps(to).next()?;
        if !self.distances.contains_key(&last) {
            let distances = self.distances_from(last);
            self.distances.insert(last, distances);
        }
        let distances = self.distances.get(&last)?;
        let far = |node: NodeKey| distances.get(node.index()).copied().unwrap_or(FAR);
        let mut way = vec![self.directed(first_link, from)?];
        let (mut at, mut left) = (first, far(first));
        if left == FAR {
            return None;
        }
        while left > 0 {
            let nearer: Vec<_> = self.steps(at).filter(|(_, node)| far(*node) == left - 1).collect();
            let &(link, next) = nearer.get(rng.random_range(0..nearer.len().max(1)))?;
            way.extend(self.directed(link, at));
            (at, left) = (next, left - 1);
        }
        way.extend(self.directed(last_link, last));
        Some(way)
    }

    fn directed(&self, link: LinkKey, sender: NodeKey) -> Option<usize> {
        self.topology.direction(link, sender).map(index)
    }

    fn is_switch(&self, node: NodeKey) -> bool {
        self.topology[node].switch().is_some()
    }

    /// Returns the live links of a live node, with the nodes at their other ends.
    fn steps(&self, node: NodeKey) -> impl Iterator<Item = (LinkKey, NodeKey)> + use<'_, 'a> {
        let edges = self.topology.graph().edges(node);
        let steps = edges.map(move |edge| {
            let there = if edge.source() == node { edge.target() } else { edge.source() };
            (edge.id(), there)
        });
        steps.filter(|(link, _)| !self.dead.is_link_dead(self.topology, *link))
    }

    /// Returns the distance of each node from `root`.
    ///
    /// Paths lead over switches only, because hosts do not forward.
    fn distances_from(&self, root: NodeKey) -> Vec<u32> {
        let mut distances = vec![FAR; self.topology.graph().node_count()];
        distances[root.index()] = 0;
        let mut queue = VecDeque::from([root]);
        while let Some(node) = queue.pop_front() {
            let next = distances[node.index()] + 1;
            for (_, there) in self.steps(node).filter(|(_, there)| self.is_switch(*there)) {
                if distances[there.index()] == FAR {
                    distances[there.index()] = next;
                    queue.push_back(there);
                }
            }
        }
        distances
    }
}
