//! The devices of a lab: each node of the topology and the controller, each in a namespace of its own.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use tributary_topology::Topology;

use crate::error::LabError;
use crate::names;
use crate::options::LabOptions;
use crate::processors;

/// The controller's station.
/// It is on the management network only; no node can have this name, since topologies do not allow the '@'.
pub const CONTROLLER: &str = "@controller";

/// The management network is 10.255.0.0/16, outside of the 10.0.0.0/16 that the hosts share.
pub(crate) const MANAGEMENT_PREFIX_BITS: u8 = 16;
/// The controller's address there; nodes have the following ones, in the topology's order.
const CONTROLLER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// The number of ports that the kernel gives a bridge, less the one that it never hands out.
const MAX_NODES: usize = 1023;

/// A node's interface on the data network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its port number in the topology; a host's only port is 1.
    pub port: u16,
    /// Its name inside the node's namespace.
    pub name: String,
}

/// One device with a network namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Station {
    /// The node's name, or [`CONTROLLER`].
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// Its address on the management network.
    pub(crate) management: Ipv4Addr,
    /// Its interfaces on the data network, by port.
    pub(crate) interfaces: Vec<Interface>,
    /// The number of the processor on which its programs run; `None`: all of them.
    #[serde(default)]
    pub(crate) processor: Option<usize>,
}

/// The controller's station, then one for each node in the topology's order.
pub(crate) fn stations(options: &LabOptions, topology: &Topology) -> Result<Vec<Station>, LabError> {
    let lab = &options.name;
    let nodes = topology.nodes().count();
    if nodes > MAX_NODES {
        return Err(LabError::TooManyNodes { nodes, limit: MAX_NODES });
    }
    let controller = Station {
        name: CONTROLLER.into(),
        namespace: names::namespace(lab, CONTROLLER),
        management: CONTROLLER_ADDRESS,
        interfaces: Vec::new(),
        processor: None,
    };
    let processors = if options.pinned { processors::available() } else { Vec::new() };
    let processors = processors::assign(topology, &processors);
    let addresses = (CONTROLLER_ADDRESS.to_bits() + 1..).map(Ipv4Addr::from_bits);
    let nodes = topology.nodes().zip(addresses).map(|((key, node), management)| Station {
        name: node.name.clone(),
        namespace: names::namespace(lab, &node.name),
        management,
        interfaces: topology
            .neighbours(key)
            .iter()
            .map(|to| Interface { port: to.port, name: names::interface(&node.name, to.port) })
            .collect(),
        processor: processors.get(&key).copied(),
    });
    Ok(std::iter::once(controller).chain(nodes).collect())
}
