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

/// A node's index in the graph: its order of appearance, switches first.
pub type NodeKey = NodeIndex;
/// A link's index in the graph: its order of appearance.
pub type LinkKey = EdgeIndex;

/// Length of the network prefix that all hosts share, 10.0.0.0/16.
pub const SUBNET_PREFIX_BITS: u8 = 16;

/// A switch or a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique.
    pub name: String,
    /// Its number in hop entries, unique.
    pub id: NodeId,
    /// The kind of node: switch or host.
    pub kind: NodeKind,
}

impl Node {
    /// The host's part; `None` for a switch.
    pub fn host(&self) -> Option<&Host> {
        match &self.kind {
            NodeKind::Host(host) => Some(host),
            NodeKind::Switch(_) => None,
        }
    }

    /// The switch's part; `None` for a host.
    pub fn switch(&self) -> Option<&Switch> {
        match &self.kind {
            NodeKind::Switch(switch) => Some(switch),
            NodeKind::Host(_) => None,
        }
    }
}

/// A switch or a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// It forwards, and aggregates if it is programmable.
    Switch(Switch),
    /// It has one link and runs an agent.
    Host(Host),
}

/// The properties of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// True if the switch runs our P4 program; otherwise it forwards by MAC address.
    pub programmable: bool,
    /// Number of slots; `None`: as many as its P4Info says.
    pub slots: Option<u32>,
    /// Where its P4Runtime server listens, host:port, unless we start the switch ourselves.
    pub p4runtime: Option<String>,
}

impl Switch {
    /// The number of slots for jobs, with a program that has `program` slots: the file may
    /// give a switch fewer.
    pub fn slots_of(&self, program: u32) -> u32 {
        self.slots.map_or(program, |own| own.min(program))
    }
}

/// The properties of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its MAC address, unicast and unique.
    pub mac: MacAddr,
    /// Its IP address, unique.
    pub ip: Ipv4Addr,
    /// The host's role in a job that names no members; `None`: no role.
    pub role: Option<Role>,
}

/// Part of a host in a job that names no members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It trains; its rank is its position among the workers in the file.
    Worker,
    /// It is the root of aggregation trees.
    Server,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// The node.
    pub node: NodeKey,
    /// That node's port, from 1 on; a host's only port is 1.
    pub port: u16,
}

/// A full-duplex link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its ends, in the file's order.
    pub ends: [End; 2],
    /// Its rate in each direction, bit/s; never 0.
    pub rate: u64,
    /// The longest IPv4 packet that it carries, in bytes: one of [`MTUS`].
    pub mtu: u16,
    /// Its present load, bit/s: from the first end to the second, and back.
    pub load: [u64; 2],
}

/// One of a link's two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkDirection {
    /// The link.
    pub link: LinkKey,
    /// The sending end: 0 or 1, an index into [`Link::ends`] and [`Link::load`].
    pub sender: usize,
}

/// A neighbour of a node, through one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// This node's port.
    pub port: u16,
    /// The link there.
    pub link: LinkKey,
    /// The node at its other end.
    pub node: NodeKey,
    /// That node's port.
    pub remote_port: u16,
}

/// A validated topology.
///
/// Keys are only valid for the topology that they come from; indexing with another's may panic.
#[derive(Debug, Clone)]
pub struct Topology {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) graph: UnGraph<Node, Link>,
    pub(crate) by_name: HashMap<String, NodeKey>,
}

impl Topology {
    /// The same topology with another MTU on all links.
    ///
    /// # Errors
    /// [`Problem::BadMtu`] if it is not within [`MTUS`].
    pub fn with_mtu(mut self, mtu: u16) -> Result<Self, Problem> {
        if !MTUS.contains(&mtu) {
            return Err(Problem::BadMtu(mtu.into()));
        }
        self.graph.edge_weights_mut().for_each(|link| link.mtu = mtu);
        Ok(self)
    }

    /// The longest IPv4 packet that every link carries, in bytes.
    pub fn mtu(&self) -> u16 {
        self.graph.edge_weights().map(|link| link.mtu).min().unwrap_or(DEFAULT_MTU)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's description; may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The graph itself, for petgraph's algorithms. Two switches may have several links between them.
    pub fn graph(&self) -> &UnGraph<Node, Link> {
        &self.graph
    }

    /// The node of that name.
    pub fn find(&self, name: &str) -> Option<NodeKey> {
        self.by_name.get(name).copied()
    }

    /// The node with that id.
    pub fn find_id(&self, id: NodeId) -> Option<NodeKey> {
        self.graph.node_indices().find(|&key| self.graph[key].id == id)
    }

    /// The node, if the key belongs to this topology.
    pub fn get(&self, key: NodeKey) -> Option<&Node> {
        self.graph.node_weight(key)
    }

    /// All nodes in their order: the switches, then the hosts, each as they appear in the file.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.graph.node_indices().zip(self.graph.node_weights())
    }

    /// All switches in their order.
    pub fn switches(&self) -> impl Iterator<Item = (NodeKey, &Node, &Switch)> {
        self.nodes().filter_map(|(key, node)| Some((key, node, node.switch()?)))
    }

    /// All hosts in their order.
    pub fn hosts(&self) -> impl Iterator<Item = (NodeKey, &Node, &Host)> {
        self.nodes().filter_map(|(key, node)| Some((key, node, node.host()?)))
    }

    /// The hosts with the role of a worker, by rank; at least one.
    pub fn workers(&self) -> Vec<NodeKey> {
        self.with_role(Role::Worker).collect()
    }

    /// The hosts with the role of a server; at least one, and every worker reaches each of them.
    pub fn servers(&self) -> Vec<NodeKey> {
        self.with_role(Role::Server).collect()
    }

    fn with_role(&self, role: Role) -> impl Iterator<Item = NodeKey> {
        self.hosts().filter(move |(_, _, host)| host.role == Some(role)).map(|(key, ..)| key)
    }

    /// All links in the file's order.
    pub fn links(&self) -> impl Iterator<Item = (LinkKey, &Link)> {
        self.graph.edge_indices().zip(self.graph.edge_weights())
    }

    /// The neighbours of `node`, by port.
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

    /// The neighbour of `node` on `port`.
    pub fn neighbour(&self, node: NodeKey, port: u16) -> Option<Neighbour> {
        self.neighbours(node).into_iter().find(|neighbour| neighbour.port == port)
    }

    /// The direction of `link` in which `sender` sends; `None` if it is at neither end.
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
