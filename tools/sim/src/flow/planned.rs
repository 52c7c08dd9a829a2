//! Synchronisation over the fabric: the planner's trees, their slots, and their links' traffic.

use petgraph::visit::EdgeRef;
use tributary_planner::{Aggregation, Downlink, FabricState, JobRequest, Member, Plan, plan, replan};
use tributary_topology::{LinkKey, NodeKey};
use tributary_wire::SliceWidth;
use tributary_wire::frame::ENCAPSULATION_BYTES;
use tributary_wire::message::message_len;

use super::error::FlowError;
use super::job::{Job, Method};
use super::network::{Network, direction, index};
use super::share::Stream;

/// Number of round trips of an all-reduce without the time for its bytes.
///
/// One is for the exponents, which must arrive before values are sent, and one is for the values.
const ROUND_TRIPS: f64 = 2.0;

/// The planner's view of the fabric: the slots that jobs have taken, and the long-term load of links.
#[derive(Debug)]
pub(super) struct PlannedFabric {
    state: FabricState,
}

/// A job's request, its plan, and its expected pace.
#[derive(Debug, Clone)]
pub(super) struct PlannedTree {
    request: JobRequest,
    pub(super) plan: Plan,
    /// Iterations per second that the planner expects.
    pace: f64,
}

impl PlannedFabric {
    /// Makes a fabric without jobs.
    ///
    /// `background` is the mean load of each link direction in bytes/s, by its index.
    pub(super) fn new(network: &Network<'_>, background: &[f64]) -> Self {
        let mut state = FabricState::of(network.topology, network.assumptions.slots);
        let load = background.iter().enumerate().map(|(at, bytes)| (direction(at), (bytes * 8.0) as u64));
        state.load = load.filter(|(_, load)| *load > 0).collect();
        Self { state }
    }

    /// Plans a job beside the admitted jobs, and allocates its slots.
    pub(super) fn admit(
        &mut self,
        place: usize,
        job: &Job,
        network: &Network<'_>,
    ) -> Result<PlannedTree, FlowError> {
        let (aggregation, window) = match job.method {
            Method::Leaf { window } => (Aggregation::Leaf, window),
            Method::Fabric { window } => (Aggregation::Tree, window),
            Method::ParameterServer { .. } | Method::Ring | Method::DoubleTree => {
                return Err(FlowError::Job { job: place });
            }
        };
        let request = JobRequest {
            workers: Member::ranked(job.workers.iter().copied()),
            server: *job.servers.first().ok_or(FlowError::Job { job: place })?,
            aggregation,
            downlink: Downlink::Multicast,
            width: SliceWidth::WIDEST,
            window,
            gradient_bytes: job.gradient_bytes,
        }
        .with_widest_slices(network.topology, SliceWidth::WIDEST);
        let refused = |reason| FlowError::Plan { job: place, reason };
        let plan = plan(network.topology, &self.state, &request).map_err(refused)?;
        let pace = 1.0 / (job.compute.seconds + plan.comparison.tree_seconds);
        let tree = PlannedTree { request, plan, pace };
        self.account(&tree, true);
        Ok(tree)
    }

    /// Plans a job again around dead parts if a part of its tree has died.
    ///
    /// Returns true if the job has another tree now. Without an alternative the job keeps its tree.
    pub(super) fn repair(&mut self, tree: &mut PlannedTree, network: &Network<'_>) -> bool {
        if !tree.is_hit(network) {
            return false;
        }
        self.state.dead_nodes.clone_from(&network.dead.nodes);
        self.state.dead_links.clone_from(&network.dead.links);
        self.account(tree, false);
        let repaired = replan(network.topology, &self.state, &tree.request, &tree.plan);
        let has_changed = repaired.is_ok();
        if let Ok(plan) = repaired {
            tree.plan = plan;
        }
        self.account(tree, true);
        has_changed
    }

    /// Allocates the job's slots and adds its load, or releases both if `takes` is false.
    fn account(&mut self, tree: &PlannedTree, takes: bool) {
        for role in tree.plan.switches.iter().filter(|role| role.aggregate) {
            if let Some(free) = self.state.free_slots.get_mut(&role.key) {
                let window = tree.request.window;
                *free = if takes { free.saturating_sub(window) } else { free.saturating_add(window) };
            }
        }
        for link in &tree.plan.traffic.links {
            let load = (link.bytes as f64 * 8.0 * tree.pace) as u64;
            let known = self.state.load.entry(link.direction).or_default();
            *known = if takes { known.saturating_add(load) } else { known.saturating_sub(load) };
        }
    }
}

impl PlannedTree {
    /// Returns the length of the shortest frame: a RESULT by multicast, which has no hop stack.
    fn frame_bytes(&self) -> usize {
        ENCAPSULATION_BYTES + message_len(0, self.request.width.bytes())
    }

    fn is_hit(&self, network: &Network<'_>) -> bool {
        let mut links = self.plan.traffic.links.iter().map(|link| link.direction.link);
        links.any(|link| network.dead.is_link_dead(network.topology, link))
    }

    /// Returns the number of switches that aggregate, and of switches that only pass streams on.
    ///
    /// Streams meet at the latter without being summed.
    pub(super) fn switches(&self) -> (usize, usize) {
        let aggregating = self.plan.switches.iter().filter(|role| role.aggregate).count();
        let meeting = self.plan.switches.iter().filter(|role| role.down.len() > 1).count();
        (aggregating, meeting.saturating_sub(aggregating))
    }

    /// Returns the stream of one synchronisation.
    ///
    /// All links of the tree move at one rate, because a worker sends a slice only when it has the result of
    /// the slice that used the slot before. So the stream's limit is S slices per round trip.
    pub(super) fn stream(&self, network: &Network<'_>) -> Stream {
        let plan = &self.plan;
        let frames = plan.traffic.links.iter().map(|link| link.frames).min().unwrap_or(0);
        let bytes = frames as f64 * self.frame_bytes() as f64;
        let uses = plan.traffic.links.iter().map(|link| (index(link.direction), link.bytes as f64 / bytes));
        let window = f64::from(plan.window) * self.frame_bytes() as f64;
        Stream { bytes, limit: window / self.round_trip(network), uses: uses.collect() }
    }

    /// Returns the latency of one synchronisation without the time for its bytes, in seconds.
    ///
    /// The last slices arrive half a round trip after they were sent, and the last results half a round trip
    /// later.
    pub(super) fn latency(&self, network: &Network<'_>) -> f64 {
        ROUND_TRIPS * self.round_trip(network)
    }

    /// Returns the round trip between the server and the worker farthest from it, in seconds.
    fn round_trip(&self, network: &Network<'_>) -> f64 {
        let ups = |node: NodeKey| {
            let role = self.plan.switches.binary_search_by_key(&node, |role| role.key).ok();
            role.and_then(|at| self.plan.switches.get(at)).map(|role| role.up.link)
        };
        let first = |node: NodeKey| network.topology.graph().edges(node).next().map(|edge| edge.id());
        let ways = self.plan.workers.iter().map(|worker| {
            let links: Vec<LinkKey> =
                first(worker.key).into_iter().chain(worker.path.iter().copied().filter_map(ups)).collect();
            network.latency(links.into_iter(), self.frame_bytes())
        });
        2.0 * ways.fold(0.0, f64::max)
    }
}
