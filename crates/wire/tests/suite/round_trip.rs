//! Tests of every format: written packets read back equal, and arbitrary bytes never cause a panic.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use tributary_wire::constants::{HOP_BYTES, INA_HEADER_BYTES, MAX_CHILDREN, MAX_HOPS};
use tributary_wire::frame::{self, ENCAPSULATION_BYTES};
use tributary_wire::{
    FrameHeader, FrameView, Header, Hop, JobId, Kind, MacAddr, Message, MessageView, NodeId, Operator, Rank,
    Seq, SliceWidth, Tag, Totals, WireError,
};

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    let child = 0..u8::try_from(MAX_CHILDREN).unwrap();
    let hop = (1..=u16::MAX, any::<u16>(), any::<bool>(), child, any::<u8>()).prop_map(
        |(node, egress_port, aggregate, child, fan_in)| Hop {
            node: NodeId::new(node).unwrap(),
            egress_port,
            aggregate,
            child,
            fan_in,
        },
    );
    prop::collection::vec(hop, 0..=usize::from(MAX_HOPS))
}

fn header(kind: Kind) -> impl Strategy<Value = Header> {
    const OPERATORS: [Operator; 3] = [Operator::Sum, Operator::Max, Operator::Relay];
    let fields = (any::<bool>(), 1..=u16::MAX, any::<u16>(), any::<[u32; 5]>());
    (prop::sample::select(&OPERATORS[..]), fields).prop_map(
        move |(operator, (retransmit, job, rank, words))| Header {
            kind,
            operator,
            retransmit,
            job: JobId::new(job).unwrap(),
            rank: Rank::new(rank),
            seq: Seq(words[0]),
            totals: Totals {
                contributors: words[1],
                weight: words[2],
                tag: Tag { high: words[3], low: words[4] },
            },
        },
    )
}

/// Generates the parts of a message. A `Message` borrows them.
fn message_parts() -> impl Strategy<Value = (Header, Vec<Hop>, Option<Vec<i32>>)> {
    let widths: Vec<_> = SliceWidth::all().collect();
    let values = move || {
        let width = prop::sample::select(widths.clone());
        width.prop_flat_map(|width| prop::collection::vec(any::<i32>(), width.values()))
    };
    prop_oneof![
        (header(Kind::Gradient), hops(), prop::option::of(values())),
        (header(Kind::Result), hops(), prop::option::of(values())),
    ]
    // A PROBE and an acknowledgement are not relayed.
    .prop_filter("a relayed message has values", |(header, _, values)| {
        header.operator != Operator::Relay || values.is_some()
    })
}

fn assert_same(view: &MessageView<'_>, message: &Message<'_>) {
    assert_eq!(view.header(), &message.header);
    assert_eq!(view.hops().collect::<Vec<_>>(), message.hops);
    assert_eq!(view.first_hop().as_ref(), message.hops.first());
    let values = view.values().map(|v| v.iter().collect::<Vec<_>>());
    assert_eq!(values.as_deref(), message.values);
}

proptest! {
    #[test]
    fn a_message_is_read_back_as_it_was_written((header, hops, values) in message_parts()) {
        let message = Message { header, hops: &hops, values: values.as_deref() };
        let mut bytes = vec![0xee; message.len()];
        message.emit(&mut bytes).unwrap();
        assert_same(&MessageView::parse(&bytes).unwrap(), &message);
    }

    #[test]
    fn a_frame_is_read_back_as_it_was_written(
        (header, hops, values) in message_parts(), macs in any::<[[u8; 6]; 2]>(), ips in any::<[u32; 2]>(),
    ) {
        let message = Message { header, hops: &hops, values: values.as_deref() };
        let addresses = FrameHeader {
            source_mac: MacAddr::from(macs[0]),
            destination_mac: MacAddr::from(macs[1]),
            source_ip: Ipv4Addr::from(ips[0]),
            destination_ip: Ipv4Addr::from(ips[1]),
        };
        let mut bytes = vec![0xee; frame::longest_frame(SliceWidth::WIDEST) + 4];
        let len = frame::emit(&addresses, &message, &mut bytes).unwrap();
        prop_assert_eq!(len, frame::frame_len(&message));
        // Ethernet pads frames, so bytes behind the datagram have no effect.
        let view = FrameView::parse(&bytes[..len + 4]).unwrap();
        prop_assert_eq!(view.header(), &addresses);
        assert_same(view.message(), &message);
    }

    #[test]
    fn a_cut_message_is_refused((header, hops, values) in message_parts(), cut in any::<prop::sample::Index>()) {
        let message = Message { header, hops: &hops, values: values.as_deref() };
        let mut bytes = vec![0; message.len()];
        message.emit(&mut bytes).unwrap();
        bytes.truncate(cut.index(bytes.len()));
        match MessageView::parse(&bytes) {
            Err(WireError::Truncated { .. }) => {}
            // Only the end of the datagram shows the number of these values. It must be that of a slice.
            parsed if header.operator == Operator::Relay && header.kind == Kind::Gradient => {
                let carried = parsed.ok().and_then(|message| message.values()).map(|values| values.len());
                let whole = values.as_ref().map(Vec::len);
                prop_assert!(carried.is_none_or(|carried| SliceWidth::from_values(carried).is_some()));
                prop_assert!(carried < whole);
            }
            parsed => prop_assert!(false, "{:?}", parsed),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..1600)) {
        let _ = MessageView::parse(&bytes);
        let _ = FrameView::parse(&bytes);
        let _ = Hop::parse(&bytes);
    }

    #[test]
    fn a_damaged_frame_never_panics(
        (header, hops, values) in message_parts(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let message = Message { header, hops: &hops, values: values.as_deref() };
        let mut bytes = emit_to_vec(&message);
        let at = at.index(bytes.len().min(ENCAPSULATION_BYTES + INA_HEADER_BYTES + HOP_BYTES));
        bytes[at] = with;
        if let Ok(view) = FrameView::parse(&bytes) {
            let _ = view.message().hops().count();
        }
    }
}

fn emit_to_vec(message: &Message<'_>) -> Vec<u8> {
    let addresses = FrameHeader {
        source_mac: MacAddr::new(2, 0, 0, 0, 0, 1),
        destination_mac: MacAddr::new(2, 0, 0, 0, 0, 2),
        source_ip: Ipv4Addr::new(10, 0, 0, 1),
        destination_ip: Ipv4Addr::new(10, 0, 0, 2),
    };
    let mut bytes = vec![0; frame::frame_len(message)];
    frame::emit(&addresses, message, &mut bytes).unwrap();
    bytes
}

/// Checks the bytes of a header one by one, so that both directions cannot be wrong in the same way.
#[test]
fn the_layout_is_the_documented_one() {
    let header = Header {
        kind: Kind::Gradient,
        operator: Operator::Max,
        retransmit: true,
        job: JobId::new(0x0102).unwrap(),
        rank: Rank::new(0x0304),
        seq: Seq(0x0506_0708),
        totals: Totals {
            contributors: 0x090a_0b0c,
            weight: 0x0d0e_0f10,
            tag: Tag { high: 0x1112_1314, low: 0x1516_1718 },
        },
    };
    let hop =
        Hop { node: NodeId::new(0x2122).unwrap(), egress_port: 0x2324, aggregate: true, child: 5, fan_in: 6 };
    let frame = emit_to_vec(&Message { header, hops: &[hop], values: None });
    let expected_message = [
        0x21, 0x07, 1, 2, 3, 4, 1, 0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0x11, 0x12, 0x13, 0x14,
        0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x85, 6,
    ];
    assert_eq!(frame[ENCAPSULATION_BYTES..], expected_message);
    assert_eq!(frame[12..14], [8, 0]);
    assert_eq!(frame[36..38], [0x74, 0x72], "destination port");
    assert_eq!(frame[40..42], [0, 0], "no UDP checksum");
}

/// A receiver must detect a gradient directly behind the Ethernet header, like a switch does.
#[test]
fn a_gradient_that_hides_is_not_ours() {
    let header = Header {
        kind: Kind::Gradient,
        operator: Operator::Sum,
        retransmit: false,
        job: JobId::new(1).unwrap(),
        rank: Rank::new(0),
        seq: Seq::FIRST,
        totals: Totals::default(),
    };
    let plain =
        emit_to_vec(&Message { header, hops: &[], values: Some(&[7; SliceWidth::ETHERNET.values()]) });
    assert!(FrameView::parse(&plain).is_ok());
    let behind = |bytes: &[u8]| [&plain[..12], bytes, &plain[12..]].concat();
    let with = |at: usize, value: u8| {
        let mut frame = plain.clone();
        frame[at] = value;
        frame
    };
    // (The reader checks the header's checksum last.)
    let hidden = [
        ("an 802.1Q tag", behind(&[0x81, 0x00, 0x00, 0x05])),
        ("a priority tag", behind(&[0x81, 0x00, 0x20, 0x00])),
        ("an 802.1ad tag", behind(&[0x88, 0xa8, 0x00, 0x05])),
        ("an old QinQ tag", behind(&[0x91, 0x00, 0x00, 0x05])),
        ("two tags", behind(&[0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x05])),
        ("three tags", behind(&[0x81, 0x00, 0x00, 0x05].repeat(3))),
        ("an MPLS label", behind(&[0x88, 0x47, 0x00, 0x01, 0x01, 0x40])),
        ("LLC and SNAP", behind(&[0x04, 0x5c, 0xaa, 0xaa, 0x03, 0x00, 0x00, 0x00])),
        ("IPv6's type", with(12, 0x86)),
        ("IP options", with(14, 0x46)),
        ("a first fragment", with(20, 0x20)),
        ("a later fragment", with(21, 0x01)),
        ("another IP protocol", with(23, 136)),
    ];
    for (what, frame) in hidden {
        assert!(matches!(FrameView::parse(&frame), Err(WireError::NotIna(_))), "{what}");
    }
}

#[test]
fn what_cannot_travel_is_not_written() {
    let header = Header {
        kind: Kind::Result,
        operator: Operator::Sum,
        retransmit: false,
        job: JobId::new(1).unwrap(),
        rank: Rank::ALL,
        seq: Seq::FIRST,
        totals: Totals::default(),
    };
    let mut out = [0; 2048];
    let without_values = Message { header, hops: &[], values: None };
    assert!(without_values.emit(&mut out).is_ok());
    let relayed = Message { header: Header { operator: Operator::Relay, ..header }, ..without_values };
    assert!(matches!(relayed.emit(&mut out), Err(WireError::Bad { field: "flags", .. })));
    let hop = Hop { node: NodeId::new(1).unwrap(), egress_port: 1, aggregate: false, child: 0, fan_in: 0 };
    let values = [0; SliceWidth::ETHERNET.values()];
    let too_deep = Message { header, hops: &[hop; 9], values: Some(&values) };
    assert_eq!(too_deep.emit(&mut out), Err(WireError::Bad { field: "hop count", value: 9 }));
    let uncountable = Message { header, hops: &[Hop { child: 64, ..hop }], values: Some(&values) };
    assert_eq!(uncountable.emit(&mut out), Err(WireError::Bad { field: "hop child", value: 64 }));
    let sound = Message { header, hops: &[], values: Some(&values) };
    assert!(matches!(sound.emit(&mut out[..100]), Err(WireError::Truncated { part: "buffer", .. })));
}
