//! Frames, as hosts receive them. Anyone on the link can send any bytes.
//!
//! The target checks these properties: reading allocates no memory, and accepted messages have only one
//! encoding. Writing a message again must give equal bytes, or an equal frame where other nodes may have
//! changed the headers around it.

use tributary_wire::frame::{self, ENCAPSULATION_BYTES};
use tributary_wire::{
    FrameView, Header, Hop, Kind, MacAddr, Message, MessageView, NodeId, Operator, Probe, Rank,
};

use crate::bounded::within;
use crate::finding::sound;
use crate::packets::{self, hop, values, with_checksum};
use crate::{Seed, Target};

pub(super) const TARGET: Target = Target {
    name: "frames",
    about: "frames at a host: INA packets, hops, probes of cables",
    max_len: 1300,
    tries: 4000,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    message(bytes);
    whole_frame(bytes);
    whole_frame(&with_checksum(bytes));
    if let Ok(hop) = Hop::parse(bytes) {
        assert_eq!(hop.to_bytes(), bytes[..hop.to_bytes().len()]);
    }
    probe(bytes);
}

fn message(bytes: &[u8]) {
    if let Ok(view) = within(0, "a message", || MessageView::parse(bytes)) {
        let written = written(&view);
        assert_eq!(written, bytes[..written.len()], "there are two ways to say this");
    }
}

/// Returns the values of a message.
fn carried(view: &MessageView<'_>) -> Option<Vec<i32>> {
    view.values().map(|values| values.iter().collect())
}

/// Writes the message again, and returns its bytes.
fn written(view: &MessageView<'_>) -> Vec<u8> {
    let hops: Vec<Hop> = view.hops().collect();
    assert_eq!(view.first_hop(), hops.first().copied());
    packets::message(*view.header(), &hops, carried(view).as_deref())
}

fn whole_frame(bytes: &[u8]) {
    let Ok(view) = within(0, "a frame", || FrameView::parse(bytes)) else { return };
    let inside = written(view.message());
    let mut again = vec![0; ENCAPSULATION_BYTES + inside.len()];
    let message = sound(MessageView::parse(&inside));
    let (hops, values): (Vec<_>, _) = (message.hops().collect(), carried(&message));
    let message = Message { header: *message.header(), hops: &hops, values: values.as_deref() };
    let len = sound(frame::emit(view.header(), &message, &mut again));
    assert_eq!(sound(FrameView::parse(&again[..len])), view);
}

fn probe(bytes: &[u8]) {
    if let Ok(probe) = within(0, "a probe", || Probe::parse(bytes)) {
        let source = MacAddr::new(bytes[6], bytes[7], bytes[8], bytes[9], bytes[10], bytes[11]);
        let frame = probe.to_frame(source);
        assert_eq!(Probe::parse(&frame), Ok(probe));
        // The byte after the version is ignored, and so is the frame's padding.
        assert_eq!((&frame[..19], &frame[20..24]), (&bytes[..19], &bytes[20..24]));
    }
}

fn seeds() -> Vec<Seed> {
    let hops = [hop(7, 9, 1, 2), hop(1000, 0, 0, 1)];
    let gradient = packets::header(Kind::Gradient, 0x1234, 3, 17);
    let result = Header { kind: Kind::Result, rank: Rank::ALL, ..gradient };
    let max = Header { operator: Operator::Max, retransmit: true, ..gradient };
    let node = sound(NodeId::new(1001).ok_or("node 0"));
    vec![
        ("gradient".to_owned(), packets::frame(gradient, &hops, Some(&values(1)))),
        ("result".to_owned(), packets::frame(result, &hops[..1], Some(&values(2)))),
        ("probe-for-a-result".to_owned(), packets::frame(max, &hops, None)),
        ("message".to_owned(), packets::message(max, &[], Some(&values(3)))),
        ("message-without-values".to_owned(), packets::message(gradient, &hops, None)),
        ("cable".to_owned(), Probe { node, port: 3 }.to_frame(packets::ADDRESSES.source_mac).to_vec()),
        ("hop".to_owned(), hops[0].to_bytes().to_vec()),
    ]
}
