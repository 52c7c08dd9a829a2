//! A topology of BMv2 switches and veth pairs, in the test's own network namespace.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;

use tributary_testkit::netns;
use tributary_testkit::simple_switch::{self, SimpleSwitch};
use tributary_topology::{End, NodeKey, Topology};

use crate::switches::Switches;

/// The interfaces of each node, with port numbers and names.
pub(crate) type Interfaces = BTreeMap<NodeKey, Vec<(u16, String)>>;

/// Runs a test with BMv2 in its own network namespace, or prints the reason why it cannot.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    if simple_switch::is_installed() {
        in_bare_namespace(test);
    }
}

/// Runs a test without BMv2 in its own network namespace, or prints the reason why it cannot.
pub(crate) fn in_bare_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    if !netns::enter() {
        return;
    }
    netns::ip("link set lo up");
    // IPv6 is disabled, because interfaces would otherwise send IPv6 frames. A kernel without IPv6 has no such files.
    for interfaces in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interfaces}/disable_ipv6"), "1");
    }
    // The runtime's threads are in the namespace, too, because they are children of this thread.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test());
}

/// The BMv2 switches, by name. Each host's interface has the name of the host.
pub(crate) struct Bmv2Network {
    switches: BTreeMap<String, SimpleSwitch>,
}

impl Bmv2Network {
    pub(crate) fn start(topology: &Topology) -> Self {
        let interfaces = connect(topology);
        let switches = topology.switches().map(|(key, node, _)| {
            (node.name.clone(), SimpleSwitch::start(node.id.get().into(), &interfaces[&key]))
        });
        Self { switches: switches.collect() }
    }

    /// Returns access to the switches, which also gives their P4Runtime addresses.
    pub(crate) fn look(&self) -> Switches {
        let address = |(name, switch): (&String, &SimpleSwitch)| {
            let address: (SocketAddr, u64) = (switch.address(), switch.device_id());
            (name.clone(), address)
        };
        Switches::elsewhere(self.switches.iter().map(address).collect())
    }

    pub(crate) fn switch(&mut self, name: &str) -> &mut SimpleSwitch {
        self.switches.get_mut(name).unwrap()
    }
}

/// Creates a pair of interfaces for each link.
pub(crate) fn connect(topology: &Topology) -> Interfaces {
    let mut interfaces = Interfaces::new();
    for (_, link) in topology.links() {
        let [left, right] = link.ends.map(|end| interface(topology, end));
        netns::connect(&left, &right);
        for (End { node, port }, interface) in link.ends.into_iter().zip([left, right]) {
            interfaces.entry(node).or_default().push((port, interface));
        }
    }
    interfaces
}

fn interface(topology: &Topology, end: End) -> String {
    let node = &topology[end.node];
    if node.host().is_some() { node.name.clone() } else { format!("{}-{}", node.name, end.port) }
}
