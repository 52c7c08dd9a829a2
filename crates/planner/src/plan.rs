//! The plan and its parts.

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use tributary_topology::{LinkKey, NodeKey};
use tributary_wire::{Downlink, Hop, NodeId, SliceWidth};

use crate::compare::Comparison;
use crate::request::{Aggregation, DownlinkName};
use crate::traffic::Traffic;

/// A job's tree, with everything that its members and the controller need, and its expected gain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The topology's name.
    pub topology: String,
    /// Which switches were allowed to aggregate.
    pub aggregation: Aggregation,
    /// The delivery of results: as requested, or by unicast where multicast is impossible.
    #[serde(with = "DownlinkName")]
    pub downlink: Downlink,
    /// Number of values that a slice has.
    #[serde(rename = "values_per_slice", serialize_with = "values_per_slice")]
    pub width: SliceWidth,
    /// The job's window, in slices.
    pub window: u32,
    /// The bytes of one gradient.
    pub gradient_bytes: u64,
    /// The workers, by rank.
    pub workers: Vec<WorkerRoute>,
    /// The root of the tree.
    pub server: ServerRole,
    /// Every switch of the tree, in the topology's order: those that aggregate, those that only forward by
    /// hop entries, and plain ones.
    pub switches: Vec<SwitchRole>,
    /// The bytes that one all-reduce puts on the links.
    pub traffic: Traffic,
    /// The expected time, compared with other all-reduces.
    pub comparison: Comparison,
    /// Notes for people: where the plan fell back, and where it gains nothing.
    pub notes: Vec<String>,
}

impl Plan {
    /// The number of switches that add the job's gradients.
    pub fn aggregating_switches(&self) -> u32 {
        self.switches.iter().map(|switch| u32::from(switch.aggregate)).sum()
    }

    /// Returns the time for which a slice, all streams of it, keeps the slowest link of the tree busy,
    /// whatever else it carries.
    pub fn slice_time(&self) -> Duration {
        self.traffic.slice_time(self.gradient_bytes, self.width)
    }
}

/// One worker's way to the server and back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRoute {
    /// The worker in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// Its name.
    pub name: String,
    /// Its rank.
    pub rank: u16,
    /// All nodes of its way, from itself to the server.
    /// A worker on the server's host has the way from there to its switch and back.
    #[serde(skip)]
    pub path: Vec<NodeKey>,
    /// Its hop stack for GRADIENT: the programmable switches of the way, then the server.
    #[serde(serialize_with = "hops")]
    pub up: Vec<Hop>,
    /// The server's hop stack for a unicast RESULT to it: the same switches in reverse order.
    #[serde(serialize_with = "hops")]
    pub down: Vec<Hop>,
}

/// The aggregation server's place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerRole {
    /// The server in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// Its name.
    pub name: String,
    /// Its number in hop entries.
    #[serde(serialize_with = "node_id")]
    pub node: NodeId,
    /// Number of children that it waits for, numbered from 0.
    pub fan_in: u8,
}

/// One switch's place in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchRole {
    /// The switch in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// Its name.
    pub name: String,
    /// Its number in hop entries.
    #[serde(serialize_with = "node_id")]
    pub node: NodeId,
    /// True if the switch runs our program. If not, it is in no hop stack and gets no table entries.
    pub programmable: bool,
    /// True if the switch aggregates; it then takes [`Plan::window`] slots there.
    pub aggregate: bool,
    /// Number of children that it waits for; 0 if it does not aggregate.
    pub fan_in: u8,
    /// Its port towards the server.
    pub up: TreePort,
    /// Its ports towards the workers, ascending.
    /// If the server's host is a worker, the port towards the server is one of them.
    pub down: Vec<TreePort>,
    /// The entries of its admission table.
    pub admission: Vec<Admission>,
    /// The ports by which the job's packets may leave, ascending.
    pub egress_ports: Vec<u16>,
    /// Forwarding of a multicast RESULT; `None` with unicast, and on a plain switch.
    pub result_group: Option<ResultGroup>,
}

/// A port of a switch that the tree uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreePort {
    /// The port's number.
    pub port: u16,
    /// The link there.
    #[serde(skip)]
    pub link: LinkKey,
    /// The node at its other end.
    #[serde(skip)]
    pub key: NodeKey,
    /// That node's name.
    pub name: String,
}

/// Packets that a switch admits by one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Admission {
    /// The port.
    pub ingress_port: u16,
    /// The only host whose packets are admitted, if the port leads to a plain switch: there are others
    /// behind that, and it lets them send anything. Such a port has one admission for each of the job's hosts that send
    /// through it. `None`: whatever comes in by the port, since the node there is a host, or has admitted it.
    pub sender: Option<Sender>,
    /// Bit n: a GRADIENT's hop entry may name child n. A switch that does not aggregate has only child 0.
    pub children: u64,
    /// The rank that a GRADIENT must have, if only one worker sends them this way: whatever a GRADIENT
    /// requests is sent to its rank.
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

/// A host whose packets come in by a port that it shares.
/// Packets of a switch that aggregates carry the addresses of the worker whose gradient completed the sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sender {
    /// The host in the topology.
    #[serde(skip)]
    pub key: NodeKey,
    /// Its name.
    pub name: String,
}

/// Forwarding of a multicast RESULT by a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResultGroup {
    /// The ports of the multicast group, ascending.
    /// If the server's host is a worker, the port by which the RESULT comes in is among them.
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

/// A hop in the form in which it is shown and stored.
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
    /// `None` if its node id is not a valid one.
    pub(crate) fn hop(self) -> Option<Hop> {
        let Self { node, egress_port, aggregate, child, fan_in } = self;
        Some(Hop { node: NodeId::new(node)?, egress_port, aggregate, child, fan_in })
    }
}
