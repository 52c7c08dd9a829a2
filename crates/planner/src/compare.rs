//! Compares a tree with kinds of all-reduce that need no programmable switch.

use std::collections::BTreeMap;

use serde::Serialize;
use tributary_topology::{LinkDirection, NodeKey};
use tributary_wire::Downlink;

use crate::costed_tree::CostedTree;
use crate::fabric::Fabric;
use crate::request::JobRequest;
use crate::roles::Roles;
use crate::traffic::{Cost, Frames, Traffic, Use};
use crate::tree::Tree;

/// Expected times of one all-reduce: the time for which its busiest link is busy.
/// They do not include start-up times and round trips.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The time on this tree, in seconds.
    pub tree_seconds: f64,
    /// The time of a ring all-reduce, in seconds; 0 for a single worker.
    ///
    /// In a ring of N workers, each worker sends 2 (N - 1) / N of the gradient to the next worker. No link direction is
    /// part of two steps of the ring, which is the best case on links of one speed. Headers are not counted, which
    /// favours the ring.
    pub ring_seconds: f64,
    /// The number of bytes on each link direction of that ring.
    pub ring_bytes: u64,
    /// The time with a parameter server and without aggregation in the network, in seconds.
    /// Each gradient goes to the server separately, and the server sends each worker its own copy of the result. The
    /// frames have this project's format. The time is for the best of the trees that the planner compared.
    pub parameter_server_seconds: f64,
    /// The number of bytes on the busiest link direction with the parameter server.
    pub parameter_server_bytes: u64,
    /// The ring's time divided by the tree's time: above 1, the tree is faster. `None` for a single worker.
    pub speedup_over_ring: Option<f64>,
    /// The parameter server's time divided by the tree's time: above 1, the tree is faster.
    pub speedup_over_parameter_server: f64,
}

impl Comparison {
    pub(crate) fn of(
        fabric: &Fabric<'_>,
        job: &JobRequest,
        choice: &CostedTree,
        plain: &PlainServer,
    ) -> Self {
        Self::with(choice.cost.busiest, ring(fabric, job, choice), plain.busiest(fabric))
    }

    /// Compares the tree's time with the bytes and the times of the ring and the parameter server.
    pub(crate) fn with(
        tree_seconds: f64,
        (ring_bytes, ring_seconds): (u64, f64),
        (parameter_server_bytes, parameter_server_seconds): (u64, f64),
    ) -> Self {
        Self {
            tree_seconds,
            ring_seconds,
            ring_bytes,
            parameter_server_seconds,
            parameter_server_bytes,
            speedup_over_ring: (ring_seconds > 0.0).then(|| ring_seconds / tree_seconds),
            speedup_over_parameter_server: parameter_server_seconds / tree_seconds,
        }
    }
}

/// The job with a plain parameter server on a tree.
/// No switch aggregates, and each worker gets its own result.
/// It needs neither hop stacks nor slots, so their limits do not apply.
pub(crate) struct PlainServer {
    tree: Tree,
    roles: Roles,
    frames: Frames,
    cost: Cost,
}

impl PlainServer {
    pub(crate) fn on(tree: &Tree, fabric: &Fabric<'_>, job: &JobRequest) -> Self {
        // The gradients of a worker on the server's own host need not travel.
        let tree = match tree.is_worker(tree.server) {
            true => tree.without_server_as_worker(),
            false => tree.clone(),
        };
        let roles = Roles::given(&tree, fabric, |_| false);
        let mut plain = Self { tree, roles, frames: Frames::of(job), cost: Cost::default() };
        plain.cost = plain.used().cost(fabric);
        plain
    }

    fn used(&self) -> Use<'_> {
        let Self { tree, roles, frames, .. } = self;
        Use { tree, roles, downlink: Downlink::Unicast, frames: *frames }
    }

    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        self.cost.is_less_than(&other.cost)
    }

    /// Returns the bytes on the busiest link, and the time for which it is busy, in seconds.
    fn busiest(&self, fabric: &Fabric<'_>) -> (u64, f64) {
        let traffic = Traffic::on(&self.used(), fabric);
        (traffic.busiest_link().map_or(0, |link| link.bytes), traffic.seconds)
    }
}

/// Returns the bytes on every link direction of the ring, and the time of the slowest of them, in
/// seconds.
///
/// The ring's order is the order of a walk around the job's tree. Such a walk passes every link once in each direction,
/// so no two steps of the ring share a link direction.
fn ring(fabric: &Fabric<'_>, job: &JobRequest, choice: &CostedTree) -> (u64, f64) {
    let order = walk(&choice.tree);
    let count = order.len() as u128;
    let total = 2 * (count - 1) * u128::from(job.gradient_bytes);
    let bytes = u64::try_from(total.div_ceil(count)).unwrap_or(u64::MAX);
    if bytes == 0 {
        return (0, 0.0);
    }
    let next = order.iter().cycle().skip(1);
    let steps = order.iter().zip(next).flat_map(|(&from, &to)| directions(fabric, &choice.tree, from, to));
    let mut carried: BTreeMap<LinkDirection, u64> = BTreeMap::new();
    for direction in steps {
        let sum = carried.entry(direction).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let seconds = carried.iter().map(|(&direction, &bytes)| fabric.seconds(direction, bytes));
    (bytes, seconds.fold(0.0, f64::max))
}

/// Returns the workers in the order in which a walk around the tree visits them.
fn walk(tree: &Tree) -> Vec<NodeKey> {
    let below = |node| tree.children(node).iter().rev().map(|child| child.node);
    let mut order = Vec::new();
    let mut stack: Vec<_> = below(tree.server).collect();
    while let Some(node) = stack.pop() {
        if tree.is_worker(node) {
            order.push(node);
        } else {
            stack.extend(below(node));
        }
    }
    order
}

/// Returns the link directions of the path from one worker to another on the tree.
fn directions(fabric: &Fabric<'_>, tree: &Tree, from: NodeKey, to: NodeKey) -> Vec<LinkDirection> {
    let [mut up, mut down] = [from, to].map(|worker| tree.way(worker));
    // Above the node where the two paths meet, they are equal.
    while up.last().is_some_and(|last| down.last() == Some(last)) {
        up.pop();
        down.pop();
    }
    let upwards = up.into_iter().map(|(node, via)| fabric.topology.direction(via.link, node));
    let downwards = down.into_iter().map(|(_, via)| fabric.topology.direction(via.link, via.node));
    upwards.chain(downwards).flatten().collect()
}
