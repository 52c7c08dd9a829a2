//! The topology as a graph, and queries on it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::ops::Index;

use petgraph::graph::{EdgeIndex, NodeIndex, UnGraph};
use petgraph::visit::EdgeRef;
use serde::{Deserialize, Serialize};
use tributary_wire::{MacAddr, NodeId};

use crate::error::Problem;
use crate::limits::{DEFAULT_MTU, MTUS};

/// A node's index in the graph, in the order of the file, switches first.
pub type NodeKey = NodeIndex;
/// A link's index in the graph, in the order of the file.
pub type LinkKey = EdgeIndex;

/// The length of the network prefix that all hosts share: 10.0.0.0/16.
pub const SUBNET_PREFIX_BITS: u8 = 16;

/// A node of the topology: a switch or a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The unique name of the node.
    pub name: String,
    /// The unique number of the node in hops.
    pub id: NodeId,
    /// The kind of node: switch or host.
    pub kind: NodeKind,
}

impl Node {
    /// Returns the properties of a host; `None` for a switch.
    pub fn host(&self) -> Option<&Host> {
        match &self.kind {
            NodeKind::Host(host) => Some(host),
            NodeKind::Switch(_) => None,
        }
    }

    /// Returns the properties of a switch; `None` for a host.
    pub fn switch(&self) -> Option<&Switch> {
        match &self.kind {
            NodeKind::Switch(switch) => Some(switch),
            NodeKind::Host(_) => None,
        }
    }
}

/// The kind and the properties of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A switch, which forwards frames, and aggregates if it is programmable.
    Switch(Switch),
    /// A host, which has one link and runs an agent.
    Host(Host),
}

/// The properties of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// True if the switch runs our P4 program; otherwise it forwards by MAC address.
    pub programmable: bool,
    /// The number of slots; `None` selects the number in the switch's P4Info.
    pub slots: Option<u32>,
    /// The `host:port` of the switch's P4Runtime server; `None` if Tributary starts the switch itself.
    pub p4runtime: Option<String>,
}

impl Switch {
    /// Returns the number of slots for jobs, if the switch's program has `program` slots.
    /// The file may give a switch fewer slots.
    pub fn slots_of(&self, program: u32) -> u32 {
        self.slots.map_or(program, |own| own.min(program))
    }
}

/// The properties of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The unicast MAC address, unique in the topology.
    pub mac: MacAddr,
    /// The IP address, unique in the topology.
    pub ip: Ipv4Addr,
    /// The role in jobs whose request does not name members; `None` for no role.
    pub role: Option<Role>,
}

/// The role of a host in jobs whose request does not name members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The host trains. Its rank is its position among the workers in the file.
    Worker,
    /// The host can be the aggregation server.
    Server,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// The node.
    pub node: NodeKey,
    /// The port of the node, counted from 1. A host's only port is 1.
    pub port: u16,
}

/// A full-duplex link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The ends of the link, in the order of the file.
    pub ends: [End; 2],
    /// The rate in each direction, in bit/s; never 0.
    pub rate: u64,
    /// The size of the longest IPv4 packet that the link carries, in bytes; within [`MTUS`].
    pub mtu: u16,
    /// The present load in bit/s: from the first end to the second, and in the opposite direction.
    pub load: [u64; 2],
}

/// One of the two directions of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkDirection {
    /// The link.
    pub link: LinkKey,
    /// The sending end: 0 or 1, as an index into [`Link::ends`] and [`Link::load`].
    pub sender: usize,
}

/// A neighbour of a node, at one of the node's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// The node's own port.
    pub port: u16,
    /// The link to the neighbour.
    pub link: LinkKey,
    /// The neighbour.
    pub node: NodeKey,
    /// The neighbour's port.
    pub remote_port: u16,
}

/// A validated topology.
///
/// Keys are valid only for the topology that returned them. Indexing with a key of another topology may panic.
#[derive(Debug, Clone)]
pub struct Topology {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) graph: UnGraph<Node, Link>,
    pub(crate) by_name: HashMap<String, NodeKey>,
}

impl Topology {
    /// Returns the topology with the MTU of all links set to `mtu`.
    ///
    /// # Errors
    /// [`Problem::BadMtu`]: the MTU is not within [`MTUS`].
    pub fn with_mtu(mut self, mtu: u16) -> Result<Self, Problem> {
        if !MTUS.contains(&mtu) {
            return Err(Problem::BadMtu(mtu.into()));
        }
        self.graph.edge_weights_mut().for_each(|link| link.mtu = mtu);
        Ok(self)
    }

    /// Returns the size of the longest IPv4 packet that all links carry, in bytes.
    pub fn mtu(&self) -> u16 {
        self.graph.edge_weights().map(|link| link.mtu).min().unwrap_or(DEFAULT_MTU)
    }

    /// Returns the name of the topology.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description in the file, which may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the graph itself, for petgraph's algorithms. There may be several links between two
    /// switches.
    pub fn graph(&self) -> &UnGraph<Node, Link> {
        &self.graph
    }

    /// Returns the node with this name.
    pub fn find(&self, name: &str) -> Option<NodeKey> {
        self.by_name.get(name).copied()
    }

    /// Returns the node with this id.
    pub fn find_id(&self, id: NodeId) -> Option<NodeKey> {
        self.graph.node_indices().find(|&key| self.graph[key].id == id)
    }

    /// Returns the node with this key; `None` if the key does not belong to this topology.
    pub fn get(&self, key: NodeKey) -> Option<&Node> {
        self.graph.node_weight(key)
    }

    /// Returns all nodes: the switches, then the hosts, each in the order of the file.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.graph.node_indices().zip(self.graph.node_weights())
    }

    /// Returns all switches, in the order of the file.
    pub fn switches(&self) -> impl Iterator<Item = (NodeKey, &Node, &Switch)> {
        self.nodes().filter_map(|(key, node)| Some((key, node, node.switch()?)))
    }

    /// Returns all hosts, in the order of the file.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeKey, &Node, &Host)> {
        self.nodes().filter_map(|(key, node)| Some((key, node, node.host()?)))
    }

    /// Returns the hosts with the role of a worker, by rank. There is at least one.
    pub fn workers(&self) -> Vec<NodeKey> {
        self.with_role(Role::Worker).collect()
    }

    /// Returns the hosts with the role of a server. There is at least one, and every worker can reach each
    /// of them.
    pub fn servers(&self) -> Vec<NodeKey> {
        self.with_role(Role::Server).collect()
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = NodeKey> {
        self.hosts().filter(move |(_, _, host)| host.role == Some(role)).map(|(key, ..)| key)
    }

    /// Returns all links, in the order of the file.
    pub fn links(&self) -> impl Iterator<Item = (LinkKey, &Link)> {
        self.graph.edge_indices().zip(self.graph.edge_weights())
    }

    /// Returns the neighbours of `node`, by port.
    pub fn neighbours(&self, node: NodeKey) -> Vec<Neighbour> {
        let see = |link: LinkKey| {
            let ends = self.graph.edge_weight(link)?.ends;
            let [here, there] = if ends[0].node == node { ends } else { [ends[1], ends[0]] };
            Some(Neighbour { port: here.port, link, node: there.node, remote_port: there.port })
        };
        let mut all: Vec<_> = self.graph.edges(node).filter_map(|edge| see(edge.id())).collect();
        all.sort_unstable_by_key(|neighbour| neighbour.port);
        all
    }

    /// Returns the neighbour of `node` on `port`.
    pub fn neighbour(&self, node: NodeKey, port: u16) -> Option<Neighbour> {
        self.neighbours(node).into_iter().find(|neighbour| neighbour.port == port)
    }

    /// Returns the direction of `link` in which `sender` sends; `None` if `sender` is not at an end of it.
    pub fn direction(&self, link: LinkKey, sender: NodeKey) -> Option<LinkDirection> {
        let ends = &self.graph.edge_weight(link)?.ends;
        let sender = ends.iter().position(|end| end.node == sender)?;
        Some(LinkDirection { link, sender })
    }
}

impl Index<NodeKey> for Topology {
    type Output = Node;

    fn index(&self, key: NodeKey) -> &Node {
        &self.graph[key]
    }
}

impl Index<LinkKey> for Topology {
    type Output = Link;

    fn index(&self, key: LinkKey) -> &Link {
        &self.graph[key]
    }
}
