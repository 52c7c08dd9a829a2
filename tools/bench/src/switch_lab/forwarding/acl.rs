//! A firewall: rules of all kinds, and packets each of which is permitted by a rule.

use std::net::Ipv4Addr;

use rand::{Rng, RngExt};
use tributary_p4runtime::entry::{ActionCall, Entity, Match, TableEntry};

use super::frame::{Headers, mac};
use super::{FLOWS, PacketFlow, Ports, Traffic};

const RULES: usize = 1000;
/// One of this many rules denies, on average.
const DENIES: u32 = 5;
/// The protocol number of UDP in an IPv4 header.
const UDP: u8 = 17;

/// A field of the rules' key.
///
/// It has a name, a width in bits, and the lengths of prefixes that a rule may match.
struct Field {
    name: &'static str,
    bits: u32,
    prefixes: &'static [u32],
}

/// The fields, in the order of [`Packet`].
const FIELDS: [Field; 6] = [
    Field { name: "standard.ingress_port", bits: 9, prefixes: &[0, 0, 0, 9] },
    Field { name: "hdr.ipv4.source", bits: 32, prefixes: &[0, 16, 24, 32] },
    Field { name: "hdr.ipv4.destination", bits: 32, prefixes: &[8, 16, 24, 32] },
    Field { name: "hdr.ipv4.protocol", bits: 8, prefixes: &[0, 8] },
    Field { name: "hdr.ports.source", bits: 16, prefixes: &[0, 0, 6, 16] },
    Field { name: "hdr.ports.destination", bits: 16, prefixes: &[0, 10, 16, 16] },
];

/// A packet's values of the fields in [`FIELDS`].
type Packet = [u32; FIELDS.len()];

/// A rule. It matches a packet whose fields equal the values in the bits that are set in the mask.
struct Rule {
    values: Packet,
    masks: Packet,
    permits: bool,
}

impl Rule {
    fn random(random: &mut impl Rng, ports: &Ports) -> Self {
        let packet = packet(random, ports);
        let masks = FIELDS.map(|field| {
            let prefix = field.prefixes[random.random_range(0..field.prefixes.len())];
            let all = u32::MAX >> (u32::BITS - field.bits);
            all & !all.checked_shr(prefix).unwrap_or_default()
        });
        let values = std::array::from_fn(|at| packet[at] & masks[at]);
        Self { values, masks, permits: !random.random_ratio(1, DENIES) }
    }

    fn matches(&self, packet: &Packet) -> bool {
        (0..FIELDS.len()).all(|at| packet[at] & self.masks[at] == self.values[at])
    }

    /// Returns a packet that the rule matches.
    fn packet(&self, random: &mut impl Rng, ports: &Ports) -> Packet {
        let packet = packet(random, ports);
        std::array::from_fn(|at| packet[at] & !self.masks[at] | self.values[at])
    }

    fn entry(&self, priority: i32, ports: &Ports) -> Entity {
        let action = if self.permits {
            ActionCall::new("permit").with("port", ports.receiver)
        } else {
            ActionCall::new("deny")
        };
        let fields =
            FIELDS.iter().zip(self.values.iter().zip(self.masks)).filter(|(_, (_, mask))| *mask != 0);
        let entry = fields.fold(TableEntry::new("rules"), |entry, (field, (&value, mask))| {
            entry.matching(field.name, Match::Ternary { value: value.into(), mask: mask.into() })
        });
        TableEntry { priority, ..entry.action(action) }.into()
    }
}

pub(super) fn traffic(random: &mut impl Rng, ports: &Ports, bytes: usize) -> Traffic {
    // The first rule that matches a packet decides.
    let rules: Vec<Rule> = (0..RULES).map(|_| Rule::random(random, ports)).collect();
    let inserted =
        rules.iter().zip((1..=RULES as i32).rev()).map(|(rule, priority)| rule.entry(priority, ports));
    let inserted = inserted.collect();
    let mut flows = Vec::new();
    while flows.len() < FLOWS {
        let packet = rules[random.random_range(0..RULES)].packet(random, ports);
        if rules.iter().find(|rule| rule.matches(&packet)).is_some_and(|rule| rule.permits) {
            flows.extend(flow(&packet, ports, bytes));
        }
    }
    Traffic { inserted, modified: Vec::new(), flows }
}

/// Draws a random UDP packet from one of the senders.
fn packet(random: &mut impl Rng, ports: &Ports) -> Packet {
    let ingress_port = ports.senders[random.random_range(0..ports.senders.len())];
    [
        ingress_port.into(),
        random.random(),
        random.random(),
        UDP.into(),
        random.random::<u16>().into(),
        random.random::<u16>().into(),
    ]
}

fn flow(packet: &Packet, ports: &Ports, bytes: usize) -> Option<PacketFlow> {
    let [ingress_port, source, destination, _, source_port, destination_port] = *packet;
    let sender = ports.senders.iter().position(|port| u32::from(*port) == ingress_port)?;
    let headers = Headers {
        source_mac: mac(1, sender as u16),
        destination_mac: mac(2, 0),
        source: Ipv4Addr::from(source),
        destination: Ipv4Addr::from(destination),
        time_to_live: 64,
        source_port: source_port as u16,
        destination_port: destination_port as u16,
    };
    let frame = headers.frame(bytes);
    Some(PacketFlow { sender, sent: frame.clone(), expected: frame })
}
