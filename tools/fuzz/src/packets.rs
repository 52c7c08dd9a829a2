//! Packets of one job, in the form in which hosts make them.

use std::net::Ipv4Addr;

use tributary_wire::frame::{self, ENCAPSULATION_BYTES};
use tributary_wire::{
    FrameHeader, Header, Hop, JobId, Kind, MacAddr, Message, NodeId, Operator, Rank, Seq, SliceWidth, Tag,
    Totals,
};

use crate::finding::sound;

/// The range of the IPv4 header in a frame, and the range of the checksum in the header.
const IPV4: std::ops::Range<usize> = 14..34;
const CHECKSUM: std::ops::Range<usize> = 10..12;

/// The values of an Ethernet-width slice.
pub(crate) type Values = [i32; SliceWidth::ETHERNET.values()];

/// Returns values that identify their source.
pub(crate) fn values(seed: i32) -> Values {
    std::array::from_fn(|lane| (lane as i32).wrapping_mul(0x0101_0107).wrapping_add(seed))
}

pub(crate) fn hop(node: u16, egress_port: u16, child: u8, fan_in: u8) -> Hop {
    let node = sound(NodeId::new(node).ok_or("node 0"));
    Hop { node, egress_port, aggregate: true, child, fan_in }
}

pub(crate) fn header(kind: Kind, job: u16, rank: u16, seq: u32) -> Header {
    Header {
        kind,
        operator: Operator::Sum,
        retransmit: false,
        job: sound(JobId::new(job).ok_or("job 0")),
        rank: Rank::new(rank),
        seq: Seq(seq),
        totals: Totals { contributors: 1, weight: 2, tag: Tag { high: 3, low: 4 } },
    }
}

pub(crate) fn message(header: Header, hops: &[Hop], values: Option<&[i32]>) -> Vec<u8> {
    let message = Message { header, hops, values };
    let mut bytes = vec![0; message.len()];
    sound(message.emit(&mut bytes));
    bytes
}

pub(crate) fn frame(header: Header, hops: &[Hop], values: Option<&[i32]>) -> Vec<u8> {
    let message = Message { header, hops, values };
    let mut bytes = vec![0; frame::frame_len(&message)];
    sound(frame::emit(&ADDRESSES, &message, &mut bytes));
    bytes
}

/// Addresses that no switch reads.
pub(crate) const ADDRESSES: FrameHeader = FrameHeader {
    source_mac: MacAddr(2, 0, 0, 0, 0, 1),
    destination_mac: MacAddr(2, 0, 0, 0, 0, 2),
    source_ip: Ipv4Addr::new(10, 0, 0, 1),
    destination_ip: Ipv4Addr::new(10, 0, 0, 2),
};

/// Returns the frame with the right IPv4 header checksum.
///
/// An attacker sends a right checksum, but mutations hardly ever find it.
pub(crate) fn with_checksum(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame.len() >= ENCAPSULATION_BYTES {
        let ip = &mut frame[IPV4];
        ip[CHECKSUM].fill(0);
        let sum: u32 = ip.as_chunks().0.iter().map(|half| u32::from(u16::from_be_bytes(*half))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        ip[CHECKSUM].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    }
    frame
}
