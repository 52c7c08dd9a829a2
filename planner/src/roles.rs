//! Who aggregates on a tree: streams of gradients merge at switches, and each merge is a hop entry.

use std::collections::BTreeMap;

use tributary_topology::NodeKey;
use tributary_wire::Hop;
use tributary_wire::constants::MAX_CHILDREN;

use crate::fabric::Fabric;
use crate::request::{Aggregation, JobRequest};
use crate::tree::Tree;

/// Workers, by their place in the request, whose gradients travel as one packet.
type Stream = Vec<usize>;

/// Why a switch where streams meet, and which was allowed to aggregate them, does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It does not run our program.
    Plain,
    /// It has so many free slots, fewer than the window.
    Slots(u32),
    /// So many streams meet, more than it can tell apart.
    Children(usize),
}

/// What one switch does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    /// It aggregates.
    pub(crate) aggregate: bool,
    /// Why it does not aggregate although it should.
    pub(crate) refusal: Option<Refusal>,
}

/// What every node of a tree does.
#[derive(Debug, Clone)]
pub(crate) struct Roles {
    /// The switches.
    pub(crate) merges: BTreeMap<NodeKey, Merge>,
    /// The hop stack of each worker for GRADIENT, in the request's order.
    pub(crate) stacks: Vec<Vec<Hop>>,
    /// Streams that arrive at the server. May be more than a hop entry can say; see `search`.
    pub(crate) server_fan_in: usize,
}

impl Roles {
    /// Lets every switch of the tree aggregate that may and can.
    pub(crate) fn on(tree: &Tree, fabric: &Fabric<'_>, job: &JobRequest) -> Self {
        let mut roles =
            Self { merges: BTreeMap::new(), stacks: vec![Vec::new(); job.workers.len()], server_fan_in: 0 };
        let places = job.hosts().into_iter().zip(0..);
        let mut sent: BTreeMap<NodeKey, Vec<Stream>> =
            places.map(|(host, place)| (host, vec![vec![place]])).collect();
        for &switch in tree.bottom_up() {
            let streams = arriving(switch, tree, &mut sent);
            let going = roles.pass(switch, streams, tree, fabric, job);
            sent.insert(switch, going);
        }
        let streams = arriving(tree.server, tree, &mut sent);
        let fan_in = narrow(streams.len());
        roles.server_fan_in = streams.len();
        roles.push_entries(tree.server, &streams, fabric, |child| (true, child, fan_in), 0);
        roles
    }

    /// Takes the streams that arrive at a switch, numbered port by port, through it and returns those that go
    /// on.
    fn pass(
        &mut self,
        switch: NodeKey,
        streams: Vec<Stream>,
        tree: &Tree,
        fabric: &Fabric<'_>,
        job: &JobRequest,
    ) -> Vec<Stream> {
        let count = streams.len();
        let port = tree.parent(switch).map_or(0, |up| up.port);
        let (aggregate, refusal) = match may_aggregate(switch, count, tree, job) {
            false => (false, None),
            true => can_aggregate(switch, count, fabric, job)
                .map_or_else(|why| (false, Some(why)), |()| (true, None)),
        };
        let fan_in = if aggregate { narrow(count) } else { 0 };
        if fabric.is_programmable(switch) {
            // A switch that does not aggregate need not tell them apart.
            let numbered = |child| (aggregate, if aggregate { child } else { 0 }, fan_in);
            self.push_entries(switch, &streams, fabric, numbered, port);
        }
        self.merges.insert(switch, Merge { aggregate, refusal });
        if aggregate { vec![streams.concat()] } else { streams }
    }

    /// Gives every worker of each stream the node's entry: (aggregate, child, fan-in) of the n-th stream.
    fn push_entries(
        &mut self,
        node: NodeKey,
        streams: &[Stream],
        fabric: &Fabric<'_>,
        entry: impl Fn(u8) -> (bool, u8, u8),
        egress_port: u16,
    ) {
        for (n, stream) in streams.iter().enumerate() {
            let (aggregate, child, fan_in) = entry(narrow(n));
            let hop = Hop { node: fabric.topology[node].id, egress_port, aggregate, child, fan_in };
            stream.iter().for_each(|&worker| self.stacks[worker].push(hop));
        }
    }
}

/// The streams that arrive at a node from what is below it, port by port.
fn arriving(node: NodeKey, tree: &Tree, sent: &mut BTreeMap<NodeKey, Vec<Stream>>) -> Vec<Stream> {
    let below = tree.children(node).iter();
    below.flat_map(|child| sent.remove(&child.node).unwrap_or_default()).collect()
}

/// More than a hop entry can say becomes the most that it can; such a tree is refused as a whole.
fn narrow(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// Whether there is something to aggregate, and the job wants it to be here.
fn may_aggregate(node: NodeKey, streams: usize, tree: &Tree, job: &JobRequest) -> bool {
    streams > 1
        && match job.aggregation {
            Aggregation::Tree => true,
            Aggregation::Leaf => tree.children(node).iter().any(|child| tree.is_worker(child.node)),
            Aggregation::None => false,
        }
}

fn can_aggregate(
    node: NodeKey,
    streams: usize,
    fabric: &Fabric<'_>,
    job: &JobRequest,
) -> Result<(), Refusal> {
    let free = fabric.free_slots(node);
    if !fabric.is_programmable(node) {
        Err(Refusal::Plain)
    } else if streams > MAX_CHILDREN {
        Err(Refusal::Children(streams))
    } else if free < job.window {
        Err(Refusal::Slots(free))
    } else {
        Ok(())
    }
}
