//! The demo's network: embedded switches, and in-process links between switches and hosts.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use anyhow::{Context, Result};
use tributary_controller::SwitchAddress;
use tributary_link::{FramePort, InProcessPort, LinkConfig, LinkMeter, link};
use tributary_softswitch::{SoftSwitch, SwitchConfig};
use tributary_topology::{End, LinkKey, NodeKey, Topology};

use crate::report::Bytes;

/// The number of frames that a link can queue in each direction. It exceeds all windows that can share
/// a link, so that frames are lost only because of `--loss`.
const QUEUE_FRAMES: usize = 8192;
/// The address of a switch's P4Runtime server if the topology names none.
const ANY_LOOPBACK_PORT: &str = "127.0.0.1:0";

/// A running network.
pub struct DemoNetwork {
    switches: Vec<(NodeKey, SoftSwitch)>,
    host_ports: HashMap<NodeKey, InProcessPort>,
    meters: Vec<(LinkKey, LinkMeter)>,
}

impl DemoNetwork {
    /// Starts every switch of the topology and connects all links.
    ///
    /// # Errors
    /// A P4Runtime address cannot be listened on, or the process is out of resources.
    pub async fn start(topology: &Topology, loss: f64, seed: u64) -> Result<Self> {
        let mut ports: HashMap<NodeKey, Vec<(u16, InProcessPort)>> = HashMap::new();
        let mut meters = Vec::new();
        for (number, (key, ends)) in (0..).zip(topology.links()) {
            let config = LinkConfig { loss, seed: seed.wrapping_add(number), queue_frames: QUEUE_FRAMES };
            let (a, b, meter) = link(&config)?;
            for (End { node, port }, end) in ends.ends.into_iter().zip([a, b]) {
                ports.entry(node).or_default().push((port, end));
            }
            meters.push((key, meter));
        }
        let mut switches = Vec::new();
        for (key, node, switch) in topology.switches() {
            let address = switch.p4runtime.as_deref().unwrap_or(ANY_LOOPBACK_PORT);
            let listen: SocketAddr = address
                .parse()
                .with_context(|| format!("switch {}: {address:?} is not an address:port", node.name))?;
            let ports = ports.remove(&key).unwrap_or_default();
            let ports = ports.into_iter().map(|(port, end)| (port, Box::new(end) as Box<dyn FramePort>));
            let config = SwitchConfig {
                device_id: node.id.get().into(),
                ..SwitchConfig::new(&node.name, listen, ports.collect())
            };
            let running = SoftSwitch::start(config).await;
            switches.push((key, running.with_context(|| format!("switch {} cannot start", node.name))?));
        }
        let host_ports = ports
            .into_iter()
            .filter_map(|(host, mut ports)| ports.pop().map(|(_, port)| (host, port)))
            .collect();
        Ok(Self { switches, host_ports, meters })
    }

    /// Returns the P4Runtime address of each switch, for a controller.
    pub fn switch_addresses(&self, topology: &Topology) -> BTreeMap<String, SwitchAddress> {
        let address = |(key, switch): &(NodeKey, SoftSwitch)| {
            let node = &topology[*key];
            let address = switch.p4runtime_addr().to_string();
            (node.name.clone(), SwitchAddress { address, device_id: node.id.get().into() })
        };
        self.switches.iter().map(address).collect()
    }

    /// Removes and returns the port of a host, for its agent. Returns `None` on the second call.
    pub fn take_host_port(&mut self, host: NodeKey) -> Option<InProcessPort> {
        self.host_ports.remove(&host)
    }

    /// Returns the bytes that the links have carried since the start.
    pub(crate) fn bytes(&self, topology: &Topology, server: NodeKey) -> Bytes {
        let mut bytes = Bytes { into_server: 0, out_of_server: 0, all_links: 0, busiest_link: 0 };
        for (key, meter) in &self.meters {
            let [a_to_b, b_to_a] = [&meter.a_to_b, &meter.b_to_a].map(|direction| direction.read().bytes);
            bytes.all_links += a_to_b + b_to_a;
            bytes.busiest_link = bytes.busiest_link.max(a_to_b).max(b_to_a);
            let [a, b] = topology[*key].ends;
            if b.node == server {
                bytes.into_server += a_to_b;
                bytes.out_of_server += b_to_a;
            } else if a.node == server {
                bytes.into_server += b_to_a;
                bytes.out_of_server += a_to_b;
            }
        }
        bytes
    }

    /// Stops every switch.
    pub async fn stop(self) -> Result<()> {
        for (_, switch) in self.switches {
            switch.stop().await?;
        }
        Ok(())
    }
}
