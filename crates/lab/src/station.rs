//! The devices of a lab: each node of the topology and the controller, each in a separate namespace.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use tributary_topology::Topology;

use crate::error::LabError;
use crate::names;
use crate::options::LabOptions;
use crate::processors;

/// The controller's station. It is only on the management network. No node can have this name, because
/// topologies do not allow '@'.
pub const CONTROLLER: &str = "@controller";

/// The prefix length of the management network 10.255.0.0/16, which is outside of the hosts'
/// 10.0.0.0/16.
pub(crate) const MANAGEMENT_PREFIX_BITS: u8 = 16;
/// The controller's address on the management network. The nodes have the following addresses, in the
/// topology's order.
const CONTROLLER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
/// The most nodes of a lab: the number of a kernel bridge's ports, without the one that the kernel
/// never assigns.
const MAX_NODES: usize = 1023;

/// A node's interface on the data network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The port's number in the topology; a host's only port is 1.
    pub port: u16,
    /// The interface's name inside the node's namespace.
    pub name: String,
}

/// A device with a separate network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Station {
    /// The node's name, or [`CONTROLLER`].
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The station's address on the management network.
    pub(crate) management: Ipv4Addr,
    /// The station's interfaces on the data network, by port.
    pub(crate) interfaces: Vec<Interface>,
    /// The number of the processor on which the station's programs run; `None` allows all processors.
    #[serde(default)]
    pub(crate) processor: Option<usize>,
}

/// Returns the controller's station, then one station for each node in the topology's order.
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
