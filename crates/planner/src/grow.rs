//! Grows trees: along given links, from the nearest worker to the farthest, or towards a meeting point.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tributary_topology::{LinkKey, Neighbour, NodeKey};

use crate::edges::{Distances, Edge, Edges};
use crate::fabric::Fabric;
use crate::tree::Tree;

/// The members of a job, with the data that its trees depend on.
pub(crate) struct Members<'a> {
    fabric: &'a Fabric<'a>,
    server: NodeKey,
    /// The step from the server to the server's switch.
    top: Neighbour,
    workers: Vec<NodeKey>,
    /// The switches to which workers are linked, ordered by key.
    /// All workers of one switch have the same path.
    firsts: Vec<First>,
}

/// A switch to which workers are linked.
#[derive(Debug, Clone, Copy)]
struct First {
    switch: NodeKey,
    /// The worker whose link has the lowest cost, and that cost.
    nearest: (u64, NodeKey),
}

/// A set of links.
pub(crate) struct Links(Vec<bool>);

impl Links {
    pub(crate) fn none(fabric: &Fabric<'_>) -> Self {
        Self(vec![false; fabric.topology.graph().edge_count()])
    }

    /// Makes the set of the given links; links that the fabric does not have are ignored.
    pub(crate) fn of(fabric: &Fabric<'_>, links: impl IntoIterator<Item = LinkKey>) -> Self {
        let mut all = Self::none(fabric);
        links.into_iter().for_each(|link| all.add(link));
        all
    }

    pub(crate) fn add(&mut self, link: LinkKey) {
        if let Some(known) = self.0.get_mut(link.index()) {
            *known = true;
        }
    }

    pub(crate) fn contain(&self, link: LinkKey) -> bool {
        self.0.get(link.index()).copied().unwrap_or(false)
    }
}

impl<'a> Members<'a> {
    /// Collects the members; `None` if one of them has no live link.
    pub(crate) fn new(fabric: &'a Fabric<'a>, workers: Vec<NodeKey>, server: NodeKey) -> Option<Self> {
        let top = Edge::of_host(fabric, server)?.via;
        let mut firsts: BTreeMap<NodeKey, (u64, NodeKey)> = BTreeMap::new();
        for &worker in &workers {
            let Edge { via, cost } = Edge::of_host(fabric, worker)?;
            let nearest = firsts.entry(via.node).or_insert((cost, worker));
            *nearest = (cost, worker).min(*nearest);
        }
        let firsts = firsts.into_iter().map(|(switch, nearest)| First { switch, nearest }).collect();
        Some(Self { fabric, server, top, workers, firsts })
    }

    /// Returns the switch to which the server is linked.
    pub(crate) fn top(&self) -> NodeKey {
        self.top.node
    }

    /// Returns at most `most` of the switches to which workers are linked, spread evenly over them.
    pub(crate) fn sample(&self, most: usize) -> impl Iterator<Item = NodeKey> {
        let step = self.firsts.len().div_ceil(most).max(1);
        self.firsts.iter().step_by(step).map(|first| first.switch)
    }

    /// Returns the tree that ordinary frames take.
    pub(crate) fn ordinary(&self, edges: &Edges) -> Option<Tree> {
        let forwarding = self.fabric.forwarding();
        let is_known =
            |&worker: &NodeKey| worker == self.server || forwarding.next(worker, self.server).is_some();
        if !self.workers.iter().all(is_known) {
            return None;
        }
        let mut links = Links::none(self.fabric);
        for first in &self.firsts {
            forwarding.path(first.switch, self.server)?.iter().for_each(|step| links.add(step.link));
        }
        self.along(edges, &links)
    }

    /// Returns the switches to which workers are linked.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = NodeKey> {
        self.firsts.iter().map(|first| first.switch)
    }

    /// Returns true if a member is linked to the switch, so that no tree can avoid it.
    pub(crate) fn need(&self, switch: NodeKey) -> bool {
        switch == self.top.node || self.firsts.binary_search_by_key(&switch, |first| first.switch).is_ok()
    }

    /// Returns the links of the members' hosts.
    pub(crate) fn own_links(&self) -> impl Iterator<Item = LinkKey> {
        let workers = self.workers.iter().filter_map(|&worker| Edge::of_host(self.fabric, worker));
        workers.map(|edge| edge.via.link).chain([self.top.link])
    }

    /// Joins workers one by one to a growing tree, the nearest first, over links that `may_take` allows.
    ///
    /// `kept` are links of an older tree. The new tree begins with those of them that are alive and connected to the
    /// server.
    pub(crate) fn nearest_first(
        &self,
        edges: &Edges,
        kept: &Links,
        may_take: impl Fn(LinkKey) -> bool + Copy,
    ) -> Option<Tree> {
        let mut links = Links::none(self.fabric);
        let mut begun = edges.distances(self.top.node, |link| kept.contain(link) && may_take(link));
        let stem: Vec<_> =
            (0..edges.switches()).map(NodeKey::new).filter(|&key| begun.to(key) < u64::MAX).collect();
        for &switch in &stem {
            let inside = edges.of_switch(switch).iter().map(|edge| edge.via.link);
            inside.filter(|&link| kept.contain(link) && may_take(link)).for_each(|link| links.add(link));
        }
        begun = Distances::new(edges);
        let far = &mut begun;
        let mut waiting: Vec<Option<First>> = vec![None; edges.switches()];
        for first in &self.firsts {
            *waiting.get_mut(first.switch.index())? = Some(*first);
        }
        let mut left = self.firsts.len();
        let mut queue = BinaryHeap::new();
        let mut joined = stem;
        loop {
            // Distances are measured from the tree, to which these switches were added.
            edges.spread(far, joined.iter().copied(), may_take, |switch, distance| {
                if let Some(First { nearest: (cost, worker), .. }) = waiting[switch.index()] {
                    queue.push(Reverse((distance.saturating_add(cost), worker, switch)));
                }
            });
            let next = std::iter::from_fn(|| queue.pop())
                .find_map(|Reverse((.., switch))| waiting[switch.index()].take());
            let Some(First { switch, .. }) = next else { break };
            left -= 1;
            joined = vec![switch];
            let mut at = switch;
            while far.to(at) > 0 {
                let step = edges.step(at, far, may_take)?;
                links.add(step.link);
                joined.push(step.node);
                at = step.node;
            }
        }
        if left == 0 { self.along(edges, &links) } else { None }
    }

    /// Returns the tree of the shortest paths from all workers to the switch, and from it to the server.
    pub(crate) fn meeting_at(&self, edges: &Edges, switch: NodeKey) -> Option<Tree> {
        let far = edges.distances(switch, |_| true);
        let mut links = Links::none(self.fabric);
        let mut passed = vec![false; edges.switches()];
        for from in self.firsts.iter().map(|first| first.switch).chain([self.top.node]) {
            let mut at = from;
            while far.to(at) > 0 && !std::mem::replace(passed.get_mut(at.index())?, true) {
                let step = edges.step(at, &far, |_| true)?;
                links.add(step.link);
                at = step.node;
            }
        }
        self.along(edges, &links)
    }

    /// Returns the tree of the shortest paths to the server that use only these links and the hosts' own
    /// links.
    fn along(&self, edges: &Edges, links: &Links) -> Option<Tree> {
        let inside = |link| links.contain(link);
        let far = edges.distances(self.top.node, inside);
        let down = self.top;
        let to_server =
            Neighbour { port: down.remote_port, link: down.link, node: self.server, remote_port: down.port };
        let parent = |node: NodeKey| {
            if node == down.node {
                Some(to_server)
            } else if self.fabric.is_host(node) {
                // If the server's host is a worker, its path also begins with the step to its switch.
                Edge::of_host(self.fabric, node).map(|edge| edge.via)
            } else {
                edges.step(node, &far, inside)
            }
        };
        Tree::new(self.server, &self.workers, parent)
    }
}
