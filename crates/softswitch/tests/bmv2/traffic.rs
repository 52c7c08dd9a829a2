//! Random packets: mostly valid packets of hosts and switches, and every kind of fault in them.

use std::net::Ipv4Addr;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_wire::constants::{FLAG_PROBE, INA_HEADER_BYTES};
use tributary_wire::frame::{ENCAPSULATION_BYTES, FrameHeader, emit, frame_len};
use tributary_wire::{
    Header, Hop, JobId, Kind, Message, NodeId, Operator, Rank, Seq, SliceWidth, Tag, Totals,
};

use super::tables::{JOBS, Job, NODE, PORTS, UP, mac, sender};

// Offsets in a frame without a VLAN tag.
const ETHERTYPE: usize = 12;
const IPV4: usize = 14;
const FRAGMENT: usize = 20;
const TTL: usize = 22;
const PROTOCOL: usize = 23;
const CHECKSUM: usize = 24;
const UDP_DESTINATION: usize = 36;
const UDP: usize = 34;
const INA: usize = ENCAPSULATION_BYTES;
const FLAGS: usize = INA + 1;
const HOP_COUNT: usize = INA + 6;
const BLOCKS: usize = INA + 7;
/// Offset of `aggregate` and `child` of the first hop.
const CHILD: usize = INA + INA_HEADER_BYTES + 4;

/// An endless stream of ports and frames. An equal seed gives an equal stream.
pub(crate) struct Traffic {
    random: ChaCha8Rng,
    width: SliceWidth,
    /// The current slice of each job.
    at: [u32; JOBS.len()],
}

impl Traffic {
    pub(crate) fn new(seed: u64, width: SliceWidth) -> Self {
        // The stream begins just before the sequence numbers wrap around.
        Self { random: ChaCha8Rng::seed_from_u64(seed), width, at: [u32::MAX - 5; JOBS.len()] }
    }

    fn plain(&mut self) -> (u16, Vec<u8>) {
        let random = &mut self.random;
        let mut frame = destination(random).to_be_bytes()[2..].to_vec();
        frame.extend([2, 2, 2, 2, 2, 2]);
        frame.extend(random.choose_from(&[
            &[0x08, 0x06][..],
            &[0x08, 0x00],
            &[0x81, 0x00, 0x20, 0x05, 0x08, 0x00],
            &[0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x20, 0x05, 0x08, 0x00],
            &[0x86, 0xdd],
        ]));
        frame.extend((0..random.random_range(0..80)).map(|_| random.random::<u8>()));
        (random.choose_from(&PORTS), frame)
    }

    fn gradient(&mut self) -> (u16, Vec<u8>) {
        let which = self.random.random_range(0..JOBS.len());
        let job = &JOBS[which];
        let seq = self.seq(which);
        let random = &mut self.random;
        let &(port, children) = job.children.choose(random).unwrap();
        let port = if random.random_bool(0.05) { random.choose_from(&PORTS) } else { port };
        let child =
            if random.random_bool(0.04) { random.random_range(0..64) } else { random.choose_from(children) };
        let mut hops = vec![Hop {
            node: NodeId::new(if random.random_bool(0.02) { NODE + 1 } else { NODE }).unwrap(),
            egress_port: if random.random_bool(0.04) { random.choose_from(&[9, 510, 516]) } else { UP },
            aggregate: job.aggregate ^ random.random_bool(0.02),
            child,
            fan_in: if random.random_bool(0.02) { 2 } else { job.fan_in },
        }];
        hops.extend(later_hops(random));
        let values = (!random.random_bool(0.1)).then(|| values(random, self.width));
        let header = header(random, Kind::Gradient, job, seq);
        (port, frame(random, sender::CHILD, &Message { header, hops: &hops, values: values.as_deref() }))
    }

    fn result(&mut self) -> (u16, Vec<u8>) {
        let which = self.random.random_range(0..JOBS.len());
        let job = &JOBS[which];
        let seq = self.seq(which);
        let random = &mut self.random;
        let port = if random.random_bool(0.1) { random.choose_from(&PORTS) } else { UP };
        let mut hops = Vec::new();
        if random.random_bool(0.5) {
            hops.push(Hop {
                node: NodeId::new(if random.random_bool(0.03) { NODE + 1 } else { NODE }).unwrap(),
                egress_port: random.choose_from(job.egress),
                aggregate: job.aggregate ^ random.random_bool(0.03),
                child: 0,
                fan_in: 0,
            });
            hops.extend(later_hops(random));
        }
        let values = values(random, self.width);
        let header = header(random, Kind::Result, job, seq);
        (port, frame(random, sender::PARENT, &Message { header, hops: &hops, values: Some(&values) }))
    }

    /// Returns a slice near the job's current one, which advances now and then.
    fn seq(&mut self, job: usize) -> Seq {
        let window = u32::from(JOBS[job].window);
        let distances =
            [0, 0, 0, 0, 0, 1, u32::MAX, u32::MAX, window, window.wrapping_neg(), 1 << 31, (1 << 31) - 1];
        let seq = self.at[job].wrapping_add(self.random.choose_from(&distances));
        if self.random.random_bool(0.15) {
            self.at[job] = self.at[job].wrapping_add(1);
        }
        Seq(seq)
    }
}

impl Iterator for Traffic {
    type Item = (u16, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let (port, mut frame) = match self.random.random_range(0..100) {
            0..8 => return Some(self.plain()),
            8..70 => self.gradient(),
            _ => self.result(),
        };
        if self.random.random_bool(0.15) {
            damage(&mut self.random, &mut frame);
        }
        Some((port, frame))
    }
}

/// A uniform choice from a few values.
trait Choose {
    fn choose_from<T: Copy>(&mut self, from: &[T]) -> T;
}

impl<R: Rng> Choose for R {
    fn choose_from<T: Copy>(&mut self, from: &[T]) -> T {
        *from.choose(self).unwrap()
    }
}

fn destination(random: &mut ChaCha8Rng) -> u64 {
    random.choose_from(&mac::ALL)
}

fn header(random: &mut ChaCha8Rng, kind: Kind, job: &Job, seq: Seq) -> Header {
    let id = if random.random_bool(0.03) { random.choose_from(&[1, 99, 104]) } else { job.id };
    Header {
        kind,
        operator: if seq.0 >> 2 & 3 == 0 { Operator::Max } else { Operator::Sum },
        retransmit: random.random_bool(0.2),
        job: JobId::new(id).unwrap(),
        rank: Rank::new(random.choose_from(&[1, 2, u16::MAX])),
        seq,
        totals: Totals {
            contributors: random.random(),
            weight: random.random(),
            tag: Tag { high: random.random(), low: random.random() },
        },
    }
}

fn later_hops(random: &mut ChaCha8Rng) -> Vec<Hop> {
    let count = random.choose_from(&[0, 0, 1, 1, 2, 3, 7]);
    let hop = |_| Hop {
        node: NodeId::new(random.random_range(1..=u16::MAX)).unwrap(),
        egress_port: random.random(),
        aggregate: random.random(),
        child: random.random_range(0..64),
        fan_in: random.random(),
    };
    (0..count).map(hop).collect()
}

fn values(random: &mut ChaCha8Rng, width: SliceWidth) -> Vec<i32> {
    let any = random.random_bool(0.7);
    let one = |_| if any { random.random() } else { random.choose_from(&[0, 1, -1, i32::MAX, i32::MIN]) };
    (0..width.values()).map(one).collect()
}

/// Makes a frame from this sender, or with one or both addresses of another sender.
fn frame(random: &mut ChaCha8Rng, from: (u64, u32), message: &Message<'_>) -> Vec<u8> {
    let mut address = || if random.random_bool(0.05) { random.choose_from(&sender::ALL) } else { from };
    let ((source_mac, _), (_, source_ip)) = (address(), address());
    let [_, _, source_mac @ ..] = source_mac.to_be_bytes();
    let [_, _, mac @ ..] = destination(random).to_be_bytes();
    let header = FrameHeader {
        source_mac: source_mac.into(),
        destination_mac: mac.into(),
        source_ip: source_ip.into(),
        destination_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut frame = vec![0; frame_len(message)];
    emit(&header, message, &mut frame).unwrap();
    frame
}

/// Damages a frame in one way that no correct sender would, or that a switch must handle specially.
fn damage(random: &mut ChaCha8Rng, frame: &mut Vec<u8>) {
    match random.random_range(0..18) {
        0 => frame[INA] = random.choose_from(&[0x01, 0x11, 0xf2, 0x20, 0x23, 0x2f]),
        1 => frame[FLAGS] ^= FLAG_PROBE,
        2 => frame[FLAGS] ^= 1 << random.random_range(0..8),
        3 => frame[BLOCKS] = random.choose_from(&[0, 1, 7, 9, 255]),
        4 => frame[HOP_COUNT] = random.choose_from(&[0, 1, 2, 8, 9, 200]),
        5 => set_and_repair(frame, TTL, random.choose_from(&[0, 1, 2])),
        6 => frame[CHECKSUM] ^= 1 << random.random_range(0..8),
        7 => set_and_repair(frame, FRAGMENT, random.choose_from(&[0x20, 0x40, 0x80, 0x1f])),
        8 => set_and_repair(frame, FRAGMENT + 1, 1),
        9 => set_and_repair(frame, PROTOCOL, 6),
        10 => frame[UDP_DESTINATION] = 0,
        // Inserts an IPv4 option, with a header length that may or may not match it.
        11 => {
            frame.splice(UDP..UDP, [1, 1, 1, 1]);
            set_and_repair(frame, IPV4, random.choose_from(&[0x45, 0x46, 0x65]));
        }
        12 => {
            // The last of these types is not the type of a tag.
            for _ in 0..random.random_range(1..4) {
                let kind: u16 = random.choose_from(&[0x8100, 0x88a8, 0x9100, 0x9200, 0x9300, 0x8800]);
                let tag = [kind.to_be_bytes(), [0, random.choose_from(&[0, 5])]].concat();
                frame.splice(ETHERTYPE..ETHERTYPE, tag);
            }
        }
        13 => frame.truncate(random.random_range(1..frame.len())),
        14 if frame.len() > CHILD => frame[CHILD] ^= 1 << random.random_range(0..8),
        14 | 15 => frame.truncate(random.random_range(1..140)),
        // Turns any message into a probe.
        16 => {
            frame[FLAGS] |= FLAG_PROBE;
            frame[BLOCKS] = 0;
        }
        _ => frame.extend((0..random.random_range(1..40)).map(|_| random.random::<u8>())),
    }
}

/// Changes a byte of the IPv4 header and corrects the header's checksum.
fn set_and_repair(frame: &mut [u8], offset: usize, value: u8) {
    frame[offset] = value;
    frame[CHECKSUM..CHECKSUM + 2].fill(0);
    let words = frame[IPV4..UDP].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
