//! Tests of malformed messages: the checks of section 3.10 of the specification, one by one.

use tributary_wire::{
    Header, Hop, JobId, Kind, Message, MessageView, NodeId, Operator, Rank, Seq, SliceWidth, Totals,
    WireError,
};

/// Returns the bytes of a valid message with one hop.
fn valid(kind: Kind, values: Option<&[i32]>) -> Vec<u8> {
    let header = Header {
        kind,
        operator: Operator::Sum,
        retransmit: false,
        job: JobId::new(7).unwrap(),
        rank: Rank::new(0),
        seq: Seq::FIRST,
        totals: Totals::default(),
    };
    let hop = Hop { node: NodeId::new(5).unwrap(), egress_port: 1, aggregate: true, child: 63, fan_in: 64 };
    let message = Message { header, hops: &[hop], values };
    let mut bytes = vec![0; message.len()];
    message.emit(&mut bytes).unwrap();
    bytes
}

/// Replaces one byte of the message, and checks the field in the error.
fn check(message: &[u8], at: usize, byte: u8, field: &'static str, value: u64) {
    let mut bytes = message.to_vec();
    bytes[at] = byte;
    assert_eq!(MessageView::parse(&bytes), Err(WireError::Bad { field, value }), "{byte:#x} at {at}");
}

#[test]
fn a_wrong_field_is_refused_by_its_name() {
    let gradient = valid(Kind::Gradient, Some(&[1; 32]));
    assert!(MessageView::parse(&gradient).is_ok());
    for version in [0, 1, 3, 15] {
        check(&gradient, 0, version << 4 | 1, "version", version.into());
    }
    for kind in [0, 3, 15] {
        check(&gradient, 0, 2 << 4 | kind, "kind", kind.into());
    }
    for bit in 3..8 {
        check(&gradient, 1, 1 << bit, "flags", 1 << bit);
    }
    check(&gradient, 3, 0, "job", 0);
    for hops in [9, 255] {
        check(&gradient, 6, hops, "hop count", hops.into());
    }
    for blocks in [0, 3, 65, 128, 255] {
        check(&gradient, 7, blocks, "blocks", blocks.into());
    }
    // The hop entry follows the header of 28 bytes. Its fifth byte has the flag and the child.
    check(&gradient, 29, 0, "hop node", 0);
    check(&gradient, 32, 64, "hop child", 64);
    check(&gradient, 32, 0xff, "hop child", 127);
}

#[test]
fn a_relayed_gradient_is_a_probe_with_the_values_of_a_slice_behind_it() {
    let mut relayed = valid(Kind::Gradient, Some(&[1; 32]));
    (relayed[1], relayed[7]) = (0x0c, 0);
    let message = MessageView::parse(&relayed).unwrap();
    assert_eq!(message.header().operator, Operator::Relay);
    assert_eq!(message.values().unwrap().len(), 32);
    check(&relayed, 1, 0x08, "flags", 0x08);
    check(&relayed, 1, 0x0d, "flags", 0x0d);
    check(&relayed, 7, 1, "blocks", 1);
    for values in [0, 1, 31, 33, 63] {
        relayed.resize(28 + 6 + 4 * values as usize, 0);
        assert_eq!(MessageView::parse(&relayed), Err(WireError::Bad { field: "values", value: values }));
    }
    let mut result = valid(Kind::Result, Some(&[1; 32]));
    result[1] = 0x08;
    assert_eq!(MessageView::parse(&result).unwrap().header().operator, Operator::Relay);
}

#[test]
fn a_probe_and_an_acknowledgement_have_no_blocks() {
    let probe = valid(Kind::Gradient, None);
    let view = MessageView::parse(&probe).unwrap();
    assert_eq!((view.header().kind, view.values()), (Kind::Gradient, None));
    check(&probe, 7, 1, "blocks", 1);

    let result = valid(Kind::Result, Some(&[1; 32]));
    assert!(MessageView::parse(&result).is_ok());
    check(&result, 1, 0x04, "blocks", 1);
    check(&result, 1, 0x0c, "flags", 0x0c);
    let acknowledgement = valid(Kind::Result, None);
    let view = MessageView::parse(&acknowledgement).unwrap();
    assert_eq!((view.header().kind, view.values()), (Kind::Result, None));
    check(&acknowledgement, 7, 1, "blocks", 1);
}

#[test]
fn a_truncated_part_is_named_with_its_length() {
    let gradient = valid(Kind::Gradient, Some(&[1; 32]));
    let cases =
        [(0, "INA header", 28), (27, "INA header", 28), (28, "hop stack", 162), (33, "hop stack", 162)];
    for (got, part, needed) in cases.into_iter().chain([(34, "values", 162), (161, "values", 162)]) {
        let refused = MessageView::parse(&gradient[..got]);
        assert_eq!(refused, Err(WireError::Truncated { part, needed, got }));
    }
}

#[test]
fn a_message_always_has_a_header() {
    let hops = [];
    let header = *MessageView::parse(&valid(Kind::Gradient, None)).unwrap().header();
    let probe = Message { header, hops: &hops, values: None };
    assert_eq!((probe.len(), probe.is_empty()), (28, false));
}

#[test]
fn only_slices_of_a_width_are_written() {
    let header = *MessageView::parse(&valid(Kind::Gradient, None)).unwrap().header();
    for values in [0, 31, 33, 96, 4_096] {
        let values = vec![0; values];
        let message = Message { header, hops: &[], values: Some(&values) };
        let refused = message.emit(&mut vec![0; message.len()]);
        assert_eq!(refused, Err(WireError::Bad { field: "values", value: values.len() as u64 }));
    }
    let widest = vec![0; SliceWidth::WIDEST.values()];
    let message = Message { header, hops: &[], values: Some(&widest) };
    assert_eq!(message.emit(&mut vec![0; message.len()]), Ok(()));
}
