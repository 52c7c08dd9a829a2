//! A lower bound of a tree's time: the slowest link on the best path of a worker to the server.
//!
//! If every switch aggregates, a tree puts one stream on each of its links. So if all links of a tree are within this
//! bound, it is as fast as any tree, independent of its shape.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tributary_topology::{LinkDirection, LinkKey, NodeKey};

use crate::edges::Edges;
use crate::fabric::Fabric;
use crate::grow::{Links, Members};
use crate::request::JobRequest;
use crate::traffic::Frames;

/// A link is within the bound even if it takes this number of times the bound.
/// Hop stacks are longer on some links than on others.
pub(crate) const SLACK: f64 = 1.05;

/// The times that links take for one stream of a job.
pub(crate) struct Pace<'a> {
    fabric: &'a Fabric<'a>,
    bytes: u64,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(fabric: &'a Fabric<'a>, job: &JobRequest) -> Self {
        Self { fabric, bytes: Frames::of(job).least_bytes() }
    }

    /// Returns the time for which a link is busy, in seconds, for one stream and its results.
    fn of(&self, link: LinkKey) -> f64 {
        let of = |sender| self.fabric.seconds(LinkDirection { link, sender }, self.bytes);
        of(0).max(of(1))
    }

    /// Returns a lower bound of the time, in seconds, of any tree through switches that `may_pass` allows.
    /// Infinite if such a tree does not exist.
    pub(crate) fn least(
        &self,
        edges: &Edges,
        members: &Members<'_>,
        may_pass: impl Fn(NodeKey) -> bool,
    ) -> f64 {
        let widest = self.widest(edges, members.top(), may_pass);
        let of_first = |first: NodeKey| widest.get(first.index()).copied().unwrap_or(f64::INFINITY);
        let between = members.firsts().map(of_first);
        between.chain(members.own_links().map(|link| self.of(link))).fold(0.0, f64::max)
    }

    /// Returns the links between switches of `may_pass` that take at most about `seconds` seconds.
    pub(crate) fn within(&self, seconds: f64, edges: &Edges, may_pass: impl Fn(NodeKey) -> bool) -> Links {
        let switches = (0..edges.switches()).map(NodeKey::new).filter(|&switch| may_pass(switch));
        let all = switches.flat_map(|switch| edges.of_switch(switch)).filter(|edge| may_pass(edge.via.node));
        let fast = all.map(|edge| edge.via.link).filter(|&link| self.of(link) <= SLACK * seconds);
        Links::of(self.fabric, fast)
    }

    /// Returns, for each switch, the time of the slowest link on its best path to `to`.
    fn widest(&self, edges: &Edges, to: NodeKey, may_pass: impl Fn(NodeKey) -> bool) -> Vec<f64> {
        let mut best = vec![f64::INFINITY; edges.switches()];
        // Times are not negative, so their bits have the same order as the times.
        let mut queue = BinaryHeap::from([Reverse((0u64, to))]);
        while let Some(Reverse((bits, at))) = queue.pop() {
            let slowest = f64::from_bits(bits);
            match best.get_mut(at.index()) {
                Some(known) if slowest < *known => *known = slowest,
                _ => continue,
            }
            for edge in edges.of_switch(at).iter().filter(|edge| may_pass(edge.via.node)) {
                let known = best.get(edge.via.node.index()).copied().unwrap_or_default();
                if slowest >= known {
                    continue;
                }
                let onwards = slowest.max(self.of(edge.via.link));
                if onwards < known {
                    queue.push(Reverse((onwards.to_bits(), edge.via.node)));
                }
            }
        }
        best
    }
}
