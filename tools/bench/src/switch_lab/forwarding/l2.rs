//! An L2 switch with most addresses behind the receiver's port.

use std::net::Ipv4Addr;

use rand::{Rng, RngExt};
use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, TableEntry};

use super::frame::{Headers, mac, value};
use super::{FLOWS, PacketFlow, Ports, Traffic};

const ADDRESSES: u16 = 1000;
/// The multicast group for frames to unknown addresses.
const FLOOD: u32 = 1;
/// The second byte of MAC addresses.
///
/// It shows that the address is behind the receiver's port, or that it is a sender's address.
const RECEIVER: u8 = 1;
const SENDER: u8 = 2;

pub(super) fn traffic(random: &mut impl Rng, ports: &Ports, bytes: usize) -> Traffic {
    let all = ports.senders.into_iter().chain([ports.receiver]).map(u32::from);
    let address = |number| {
        let forward = ActionCall::new("forward").with("port", ports.receiver);
        let destination = value(mac(RECEIVER, number));
        TableEntry::new("destinations").exact("hdr.ethernet.destination", destination).action(forward).into()
    };
    let flood = ActionCall::new("flood").with("group", FLOOD);
    let flow = |number: usize| {
        let sender = number % ports.senders.len();
        let headers = Headers {
            source_mac: mac(SENDER, number as u16),
            destination_mac: mac(RECEIVER, random.random_range(0..ADDRESSES)),
            source: Ipv4Addr::new(10, 0, sender as u8, 1),
            destination: Ipv4Addr::new(10, 1, 0, 1),
            time_to_live: 64,
            source_port: 1000,
            destination_port: 2000,
        };
        let frame = headers.frame(bytes);
        PacketFlow { sender, sent: frame.clone(), expected: frame }
    };
    Traffic {
        inserted: (0..ADDRESSES)
            .map(address)
            .chain([Entity::from(MulticastGroup::to_ports(FLOOD, all))])
            .collect(),
        modified: vec![TableEntry::default_of("destinations").action(flood).into()],
        flows: (0..FLOWS).map(flow).collect(),
    }
}
