//! The plan and its parts.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use tributary_topology::{LinkKey, NodeKey};
use tributary_wire::{Downlink, Hop, NodeId, SliceWidth};

use crate::compare::Comparison;
use crate::request::{Aggregation, DownlinkName};
use crate::traffic::Traffic;

/// A job's tree, with everything that its members and the controller need, and the expected gain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The topology's name.
    pub topology: String,
    /// The switches that were allowed to aggregate.
    pub aggregation: Aggregation,
    /// The delivery of results.
    /// It is unicast instead of the requested multicast if a switch cannot multicast.
    #[serde(with = "DownlinkName")]
    pub downlink: Downlink,
    /// The number of values in a slice.
    #[serde(rename = "values_per_slice", serialize_with = "values_per_slice")]
    pub width: SliceWidth,
    /// The job's window, in slices.
    pub window: u32,
    /// The size of one gradient in bytes.
    pub gradient_bytes: u64,
    /// The workers, by rank.
    pub workers: Vec<WorkerRoute>,
    /// The root of the tree.
    pub server: ServerRole,
    /// Every switch of the tree, in the topology's order, including plain switches and switches that do not
    /// aggregate.
    pub switches: Vec<SwitchRole>,
    /// The bytes that one all-reduce puts on the links.
    pub traffic: Traffic,
    /// The expected time, compared with other all-reduces.
    pub comparison: Comparison,
    /// Notes for users: fallbacks of the plan, and reasons why it gains nothing.
    pub notes: Vec<String>,
}

impl Plan {
    /// Returns the number of switches that aggregate the job's gradients.
    pub fn aggregating_switches(&self) -> u32 {
        self.switches.iter().map(|switch| u32::from(switch.aggregate)).sum()
    }

    /// Returns the time for which one slice, with all of its streams, keeps the slowest link of the tree
    /// busy.
    /// Other load of the link is ignored.
    pub fn slice_time(&self) -> Duration {
        self.traffic.slice_time(self.gradient_bytes, self.width)
    }
}

/// One worker's path to the server and back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRoute {
    /// The worker in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// The worker's name.
    pub name: String,
    /// The worker's rank.
    pub rank: u16,
    /// All nodes of its path, from the worker to the server.
    /// If the worker is on the server's host, the path leads from there to its switch and back.
    #[serde(skip)]
    pub path: Vec<NodeKey>,
    /// The worker's hop stack for GRADIENT: the programmable switches of the path, then the server.
    #[serde(serialize_with = "hops")]
    pub up: Vec<Hop>,
    /// The server's hop stack for a unicast RESULT to the worker: the same switches in reverse order.
    #[serde(serialize_with = "hops")]
    pub down: Vec<Hop>,
}

/// The aggregation server's place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerRole {
    /// The server in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// The server's name.
    pub name: String,
    /// The server's node id in hop entries.
    #[serde(serialize_with = "node_id")]
    pub node: NodeId,
    /// The number of children for which the server waits. Children are numbered from 0.
    pub fan_in: u8,
}

/// One switch's place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchRole {
    /// The switch in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// The switch's name.
    pub name: String,
    /// The switch's node id in hop entries.
    #[serde(serialize_with = "node_id")]
    pub node: NodeId,
    /// True if the switch runs our program. Otherwise it has no hop entries and gets no table entries.
    pub programmable: bool,
    /// True if the switch aggregates. The job then takes [`Plan::window`] slots there.
    pub aggregate: bool,
    /// The number of children for which the switch waits; 0 if it does not aggregate.
    pub fan_in: u8,
    /// The switch's port towards the server.
    pub up: TreePort,
    /// The switch's ports towards the workers, ascending.
    /// If the server's host is a worker, the port towards the server is one of them.
    pub down: Vec<TreePort>,
    /// The entries of the switch's admission table.
    pub admission: Vec<Admission>,
    /// The ports through which the job's packets may leave, ascending.
    pub egress_ports: Vec<u16>,
    /// Forwarding of a multicast RESULT; `None` with unicast, and on a plain switch.
    pub result_group: Option<ResultGroup>,
}

/// A port of a switch that the tree uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreePort {
    /// The port's number.
    pub port: u16,
    /// The link at the port.
    #[serde(skip)]
    pub link: LinkKey,
    /// The node at the other end of the link.
    #[serde(skip)]
    pub key: NodeKey,
    /// The name of the node at the other end.
    pub name: String,
}

/// The packets that a switch admits at one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Admission {
    /// The port.
    pub ingress_port: u16,
    /// The only host whose packets are admitted by this entry, if the port leads to a plain switch.
    /// A plain switch also connects other hosts, and lets them send anything. So such a port has one entry for each of
    /// the job's hosts that send through it. `None` admits packets of any sender at the port, because the node there is
    /// a host or has admitted them.
    pub sender: Option<Sender>,
    /// The allowed child numbers in a GRADIENT's hop entry, as a bit mask: bit n for child n.
    /// A switch that does not aggregate has only child 0.
    pub children: u64,
    /// The required rank of a GRADIENT, if only one worker sends through the port.
    /// The server sends requested results to this rank.
    pub rank: Option<u16>,
    /// True if the switch admits GRADIENT.
    pub gradient: bool,
    /// True if the switch admits RESULT.
    pub result: bool,
    /// The required flag of the hop entry: `aggregate` for GRADIENT, release for RESULT.
    pub aggregate: bool,
    /// The fan-in that the hop entry must have.
    pub fan_in: u8,
}

/// A host whose packets arrive at a port that it shares with other hosts.
/// If a switch has aggregated packets, the sum has the addresses of the worker whose gradient completed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sender {
    /// The host in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// The host's name.
    pub name: String,
}

/// Forwarding of a multicast RESULT by a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResultGroup {
    /// The ports of the multicast group, ascending.
    /// If the server's host is a worker, the port at which the RESULT arrives is one of them.
    pub ports: Vec<u16>,
    /// True if the switch releases the slot.
    pub release: bool,
}

fn node_id<S: Serializer>(id: &NodeId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(id.get())
}

fn hops<S: Serializer>(stack: &[Hop], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(stack.iter().map(HopEntry::from))
}

fn values_per_slice<S: Serializer>(width: &SliceWidth, out: S) -> Result<S::Ok, S::Error> {
    width.values().serialize(out)
}

/// A hop entry in the form in which it is printed and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HopEntry {
    node: u16,
    egress_port: u16,
    aggregate: bool,
    child: u8,
    fan_in: u8,
}

impl From<&Hop> for HopEntry {
    fn from(hop: &Hop) -> Self {
        let Hop { node, egress_port, aggregate, child, fan_in } = *hop;
        Self { node: node.get(), egress_port, aggregate, child, fan_in }
    }
}

impl HopEntry {
    /// Returns the hop; `None` if the node id is invalid.
    pub(crate) fn hop(self) -> Option<Hop> {
        let Self { node, egress_port, aggregate, child, fan_in } = self;
        Some(Hop { node: NodeId::new(node)?, egress_port, aggregate, child, fan_in })
    }
}
