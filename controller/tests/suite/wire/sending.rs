//! Sends frames out of a host's interface, and reads the switches' counts of them.

use tributary_api::v1;
use tributary_link::{FramePort, InterfacePort};
use tributary_topology::Topology;

use crate::common::Client;
use crate::switches::{Ports, eventually};
use crate::wire::network::connect;

/// Number of frames sent at once. BMv2's ring holds 32 frames, and silently drops further ones.
const BURST: usize = 16;

/// Creates a pair of interfaces for each link. Returns a function that opens an embedded switch's
/// ports, given its name.
pub(crate) fn embedded_ports(topology: &Topology) -> impl FnMut(&str) -> Ports {
    let interfaces = connect(topology);
    move |name| {
        let open = |(number, interface): &(u16, String)| {
            let port: Box<dyn FramePort> = Box::new(InterfacePort::open(interface).unwrap());
            (*number, port)
        };
        interfaces[&topology.find(name).unwrap()].iter().map(open).collect()
    }
}

/// Sends frames from a host in bursts, and returns the number of sent frames.
/// After each burst, waits until the count `arrived` has grown from `before` by the number of frames sent by then.
pub(crate) async fn send(
    host: &str,
    frames: &[Vec<u8>],
    before: u64,
    mut arrived: impl AsyncFnMut() -> u64,
) -> u64 {
    let mut port = InterfacePort::open(host).unwrap();
    for burst in frames.chunks(BURST) {
        for frame in burst {
            port.send(frame).unwrap();
        }
        port.flush().unwrap();
        let sent = port.meter().sent.read();
        assert_eq!(sent.dropped, 0);
        eventually(async || arrived().await == before + sent.frames).await;
    }
    port.meter().sent.read().frames
}

/// Returns a switch's counters.
pub(crate) async fn counters(client: &Client, switch: &str) -> v1::SwitchCounters {
    let request = v1::GetCountersRequest { switches: vec![switch.into()] };
    client.clone().get_counters(request).await.unwrap().into_inner().switches.remove(0)
}

/// Returns the packets of a kind that a switch has counted at its port towards `host`.
pub(crate) async fn at_port(
    client: &Client,
    topology: &Topology,
    (switch, host): (&str, &str),
    kind: &str,
) -> u64 {
    let [from, to] = [switch, host].map(|name| topology.find(name).unwrap());
    let port = topology.forwarding().next(from, to).unwrap().port;
    let counters = counters(client, switch).await;
    let mut ports = counters.ports.iter();
    ports.find(|counter| counter.port == u32::from(port) && counter.kind == kind).unwrap().packets
}
