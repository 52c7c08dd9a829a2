//! An IPv4 router with nested prefixes of many lengths. The next hop shows which prefix matched.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use rand::{Rng, RngExt};
use tributary_p4runtime::entry::{ActionCall, Entity, Match, TableEntry};

use super::frame::{Headers, mac, value};
use super::{FLOWS, PacketFlow, Ports, Traffic};

const ROUTES: usize = 1000;
const NEXT_HOPS: u16 = 32;
const PREFIXES: std::ops::RangeInclusive<u32> = 10..=30;
/// All routes are in 10.0.0.0/8, so that many are nested.
const NETWORK: u32 = 10 << 24;
const NETWORK_MASK: u32 = 0xff00_0000;
/// The second byte of MAC addresses: the address is a next hop's, the router's or a sender's.
const NEXT_HOP: u8 = 1;
const ROUTER: u8 = 2;
const SENDER: u8 = 3;

pub(super) fn traffic(random: &mut impl Rng, ports: &Ports, bytes: usize) -> Traffic {
    let routes = routes(random);
    let route = |(&(network, prefix), &next_hop): (&(u32, u32), &u16)| -> Entity {
        let destination = Match::Lpm { value: network.into(), prefix };
        let action = ActionCall::new("to_next_hop").with("next_hop", next_hop);
        TableEntry::new("routes").matching("hdr.ipv4.destination", destination).action(action).into()
    };
    let next_hop = |number| -> Entity {
        let send = ActionCall::new("send")
            .with("port", ports.receiver)
            .with("source", value(mac(ROUTER, 0)))
            .with("destination", value(mac(NEXT_HOP, number)));
        TableEntry::new("next_hops").exact("meta.next_hop", number).action(send).into()
    };
    let flow = |number: usize| {
        let sender = number % ports.senders.len();
        let (destination, next_hop) = destination(random, &routes);
        let sent = Headers {
            source_mac: mac(SENDER, sender as u16),
            destination_mac: mac(ROUTER, sender as u16 + 1),
            source: Ipv4Addr::new(192, 168, sender as u8, number as u8),
            destination: destination.into(),
            time_to_live: 64,
            source_port: 1000,
            destination_port: 2000,
        };
        let expected = Headers {
            source_mac: mac(ROUTER, 0),
            destination_mac: mac(NEXT_HOP, next_hop),
            time_to_live: sent.time_to_live - 1,
            ..sent
        };
        PacketFlow { sender, sent: sent.frame(bytes), expected: expected.frame(bytes) }
    };
    let flows = (0..FLOWS).map(flow).collect();
    let inserted = routes.iter().map(route).chain((0..NEXT_HOPS).map(next_hop)).collect();
    Traffic { inserted, modified: Vec::new(), flows }
}

/// Draws random routes: next hops by the network and the length of its prefix.
fn routes(random: &mut impl Rng) -> BTreeMap<(u32, u32), u16> {
    let mut routes = BTreeMap::new();
    while routes.len() < ROUTES {
        let prefix = random.random_range(PREFIXES);
        let network = (NETWORK | random.random::<u32>() & !NETWORK_MASK) & mask(prefix);
        routes.insert((network, prefix), random.random_range(0..NEXT_HOPS));
    }
    routes
}

/// Returns an address that has a route, and the next hop of the longest route that matches.
fn destination(random: &mut impl Rng, routes: &BTreeMap<(u32, u32), u16>) -> (u32, u16) {
    loop {
        // The address is drawn from inside a random route, so that long routes match often enough.
        let at = random.random_range(0..routes.len());
        let Some((network, prefix)) = routes.keys().nth(at).copied() else { continue };
        let address = network | random.random::<u32>() & !mask(prefix);
        let longest = routes.iter().filter(|((network, prefix), _)| address & mask(*prefix) == *network);
        if let Some((_, next_hop)) = longest.max_by_key(|((_, prefix), _)| *prefix) {
            return (address, *next_hop);
        }
    }
}

fn mask(prefix: u32) -> u32 {
    !u32::MAX.checked_shr(prefix).unwrap_or_default()
}
