//! Tests of the headers around a message: sections 3.1, 3.9 and 3.10 of the specification.

use std::net::Ipv4Addr;

use tributary_wire::frame::{self, emit, frame_len, marks};
use tributary_wire::{
    FrameHeader, FrameView, Header, Hop, JobId, Kind, MacAddr, Message, NodeId, Operator, Rank, Seq,
    SliceWidth, Totals, WireError,
};

fn header(job: u16) -> Header {
    Header {
        kind: Kind::Gradient,
        operator: Operator::Sum,
        retransmit: false,
        job: JobId::new(job).unwrap(),
        rank: Rank::new(0),
        seq: Seq::FIRST,
        totals: Totals::default(),
    }
}

fn addresses() -> FrameHeader {
    FrameHeader {
        source_mac: MacAddr::new(2, 0, 10, 0, 0, 1),
        destination_mac: MacAddr::new(2, 0, 10, 0, 0, 2),
        source_ip: Ipv4Addr::new(10, 0, 0, 1),
        destination_ip: Ipv4Addr::new(10, 0, 0, 2),
    }
}

/// Returns a frame of job 0x0708 with 32 values and no hops: 14 + 20 + 8 + 28 + 128 bytes.
fn frame_of_32() -> Vec<u8> {
    let message = Message { header: header(0x0708), hops: &[], values: Some(&[0; 32]) };
    let mut frame = vec![0; 198];
    assert_eq!(emit(&addresses(), &message, &mut frame), Ok(198));
    frame
}

/// Writes the checksum of a changed IPv4 header (RFC 1071), so that only the change is wrong.
fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame
}

#[test]
fn a_host_sends_the_headers_of_the_specification() {
    let frame = frame_of_32();
    let ethernet = [2, 0, 10, 0, 0, 2, 2, 0, 10, 0, 0, 1, 8, 0];
    // Version 4, five words; 184 bytes; DF; TTL 64; UDP. The checksum is the complement of the sum of the words:
    // 4500 + 00b8 + 4000 + 4011 + 0a00 + 0001 + 0a00 + 0002 = d9cc.
    let ip = [0x45, 0, 0, 184, 0, 0, 0x40, 0, 64, 17, 0x26, 0x33, 10, 0, 0, 1, 10, 0, 0, 2];
    let udp = [0x74, 0x72, 0x74, 0x72, 0, 164, 0, 0];
    assert_eq!(frame[..42], [&ethernet[..], &ip, &udp].concat());
}

#[test]
fn the_marks_are_in_every_frame_of_the_job() {
    let found = marks(JobId::new(0x0708).unwrap());
    // The EtherType, the UDP destination port, and the job id, which is two bytes into the INA header.
    assert_eq!(found, [(12, 0x0800), (36, 0x7472), (44, 0x0708)]);
    let frame = frame_of_32();
    for (at, mark) in found {
        assert_eq!(frame[at..at + 2], mark.to_be_bytes());
    }
}

#[test]
fn a_frame_is_as_long_as_its_parts() {
    let hop = Hop { node: NodeId::new(1).unwrap(), egress_port: 1, aggregate: false, child: 0, fan_in: 0 };
    for hops in 0..=8 {
        for width in SliceWidth::all() {
            let (stack, values) = (vec![hop; hops], vec![0; width.values()]);
            let message = Message { header: header(1), hops: &stack, values: Some(&values) };
            let expected = 14 + 20 + 8 + 28 + 6 * hops + 128 * usize::from(width.blocks());
            assert_eq!(frame_len(&message), expected);
            let mut short = vec![0; expected - 1];
            let truncated = WireError::Truncated { part: "buffer", needed: expected, got: expected - 1 };
            assert_eq!(emit(&addresses(), &message, &mut short), Err(truncated));
            assert!(expected <= frame::longest_frame(width));
        }
    }
}

#[test]
fn a_frame_that_ipv4_cannot_carry_is_not_written() {
    // 16,384 values are 65,536 bytes; the length field of IPv4 has 16 bits.
    let values = vec![0; 16_384];
    let message = Message { header: header(1), hops: &[], values: Some(&values) };
    let refused = emit(&addresses(), &message, &mut vec![0; 70_000]);
    assert_eq!(refused, Err(WireError::Bad { field: "length", value: 65_536 + 70 }));
}

#[test]
fn a_damaged_ipv4_header_is_refused() {
    let frame = frame_of_32();
    // The TTL, the checksum and the addresses have no other check.
    for at in [22, 24, 25, 26, 29, 30, 33] {
        let mut damaged = frame.clone();
        damaged[at] ^= 0x10;
        assert_eq!(FrameView::parse(&damaged), Err(WireError::Checksum), "byte {at}");
    }
}

#[test]
fn lengths_beyond_the_frame_are_refused() {
    let changed = |at: usize, value: u16| {
        let mut frame = frame_of_32();
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        with_checksum(frame)
    };
    assert!(FrameView::parse(&changed(16, 184)).is_ok());
    let parse = |frame: &[u8]| FrameView::parse(frame).map(|_| ()).unwrap_err();
    let truncated = |part, needed, got| WireError::Truncated { part, needed, got };
    assert_eq!(parse(&changed(16, 185)), truncated("IPv4 packet", 185, 184));
    assert_eq!(parse(&changed(16, 19)), truncated("IPv4 packet", 19, 184));
    assert_eq!(parse(&changed(16, 27)), truncated("UDP header", 8, 7));
    assert_eq!(parse(&changed(38, 165)), truncated("UDP datagram", 165, 164));
    assert_eq!(parse(&changed(38, 7)), truncated("UDP datagram", 7, 164));
    // The message ends behind its last value: 28 + 128 bytes, 8 of UDP.
    assert_eq!(parse(&changed(38, 163)), truncated("values", 156, 155));
    assert_eq!(parse(&frame_of_32()[..13]), truncated("Ethernet header", 14, 13));
    assert_eq!(parse(&frame_of_32()[..33]), truncated("IPv4 header", 20, 19));
}

#[test]
fn frames_of_other_protocols_are_not_ours() {
    let changed = |at: usize, value: u8| {
        let mut frame = frame_of_32();
        frame[at] = value;
        with_checksum(frame)
    };
    let cases = [
        (13, 0x06, "not IPv4"),
        (14, 0x65, "not a plain IPv4 header"),
        (14, 0x46, "not a plain IPv4 header"),
        (23, 6, "not UDP"),
        (20, 0x20, "a fragment"),
        (21, 0x01, "a fragment"),
        (37, 0x73, "another UDP port"),
    ];
    for (at, value, reason) in cases {
        assert_eq!(FrameView::parse(&changed(at, value)), Err(WireError::NotIna(reason)), "byte {at}");
    }
    // Neither the source port nor a cleared DF matters.
    for (at, value) in [(34, 0), (20, 0)] {
        assert!(FrameView::parse(&changed(at, value)).is_ok(), "byte {at}");
    }
}
