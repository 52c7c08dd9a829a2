//! The hop stacks of a tree. Each stream that arrives at a node is one of its children.

use tributary_topology::NodeKey;
use tributary_wire::Hop;

use crate::fabric::Fabric;
use crate::request::JobRequest;
use crate::roles::Roles;
use crate::tree::Tree;

/// The workers whose gradients travel as one packet, by their index in the request.
type StreamWorkers = Vec<usize>;

/// Computes the hop stack of each worker for GRADIENT, in the request's order.
pub(crate) fn stacks(tree: &Tree, roles: &Roles, fabric: &Fabric<'_>, job: &JobRequest) -> Vec<Vec<Hop>> {
    let mut workers: Vec<_> = job.workers.iter().map(|worker| worker.host).zip(0..).collect();
    workers.sort_unstable();
    let mut walk = Walk { tree, workers, sent: Vec::new(), stacks: vec![Vec::new(); job.workers.len()] };
    for (branch, merge) in tree.branches().iter().zip(&roles.merges) {
        let streams = walk.arriving(branch.switch);
        // A switch that does not aggregate need not distinguish its children.
        let fan_in = if merge.aggregate { narrow(streams.len()) } else { 0 };
        if fabric.is_programmable(branch.switch) {
            let entry = |n| Hop {
                node: fabric.topology[branch.switch].id,
                egress_port: branch.up.port,
                aggregate: merge.aggregate,
                child: if merge.aggregate { n } else { 0 },
                fan_in,
            };
            walk.push(&streams, entry);
        }
        walk.sent.push(if merge.aggregate { vec![streams.concat()] } else { streams });
    }
    let streams = walk.arriving(tree.server);
    let (node, fan_in) = (fabric.topology[tree.server].id, narrow(streams.len()));
    walk.push(&streams, |child| Hop { node, egress_port: 0, aggregate: true, child, fan_in });
    walk.stacks
}

struct Walk<'a> {
    tree: &'a Tree,
    /// The workers ordered by key, each with its index in the request.
    workers: Vec<(NodeKey, usize)>,
    /// For each place in the tree, the streams that have left it and have not yet arrived at the next node.
    sent: Vec<Vec<StreamWorkers>>,
    stacks: Vec<Vec<Hop>>,
}

impl Walk<'_> {
    /// Returns the streams that arrive at a node from below, port by port.
    fn arriving(&mut self, node: NodeKey) -> Vec<StreamWorkers> {
        let mut streams = Vec::new();
        for child in self.tree.children(node) {
            match self.tree.place(child.node) {
                Some(place) => {
                    streams.extend(self.sent.get_mut(place).map(std::mem::take).unwrap_or_default());
                }
                None => {
                    let worker = self.workers.binary_search_by_key(&child.node, |(host, _)| *host);
                    streams.extend(worker.ok().map(|at| vec![self.workers[at].1]));
                }
            }
        }
        streams
    }

    /// Adds the n-th entry of a node to the stack of every worker in the n-th stream.
    fn push(&mut self, streams: &[StreamWorkers], entry: impl Fn(u8) -> Hop) {
        for (n, stream) in streams.iter().enumerate() {
            let hop = entry(narrow(n));
            stream.iter().for_each(|&worker| self.stacks[worker].push(hop));
        }
    }
}

/// Converts a number for a hop entry, saturated at the largest one.
/// A tree that exceeds the limit is rejected as a whole.
fn narrow(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}
