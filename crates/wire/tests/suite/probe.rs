//! Tests of probes of cables.
//! A probe that was written reads back with the same fields, and no other frame counts as a probe.

use proptest::prelude::*;
use tributary_wire::probe::{DESTINATION, ETHER_TYPE, FRAME_BYTES};
use tributary_wire::{MacAddr, NodeId, Probe, WireError};

/// The number of bytes with content; the rest is padding.
const SAID: usize = 24;

fn probes() -> impl Strategy<Value = Probe> {
    (1..=u16::MAX, any::<u16>()).prop_map(|(node, port)| Probe { node: NodeId::new(node).unwrap(), port })
}

proptest! {
    #[test]
    fn a_probe_is_read_back_as_it_was_written(probe in probes(), source in any::<[u8; 6]>()) {
        let frame = probe.to_frame(MacAddr::from(source));
        prop_assert_eq!(Probe::parse(&frame), Ok(probe));
        // Ethernet pads frames, and hardware may remove the padding.
        prop_assert_eq!(Probe::parse(&frame[..SAID]), Ok(probe));
        let long = probe.to_long_frame(MacAddr::from(source), 9_014);
        prop_assert_eq!((Probe::parse(&long), long.len()), (Ok(probe), 9_014));
        prop_assert_eq!(&long[..FRAME_BYTES], &frame[..]);
        prop_assert_eq!(&frame[6..12], &source);
    }

    #[test]
    fn a_cut_probe_is_refused(probe in probes(), len in 0..SAID) {
        let frame = probe.to_frame(MacAddr::zero());
        let truncated = matches!(Probe::parse(&frame[..len]), Err(WireError::Truncated { .. }));
        prop_assert!(truncated);
    }

    #[test]
    fn another_destination_ether_type_magic_or_version_is_refused(
        probe in probes(), at in prop_oneof![0..6_usize, 12..19_usize], flip in 1..=u8::MAX,
    ) {
        let mut frame = probe.to_frame(MacAddr::zero());
        frame[at] ^= flip;
        let bad = matches!(Probe::parse(&frame), Err(WireError::Bad { .. }));
        prop_assert!(bad);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = Probe::parse(&bytes);
    }
}

/// Checks the bytes one by one, so that both directions cannot be wrong in the same way.
#[test]
fn the_layout_is_the_documented_one() {
    let probe = Probe { node: NodeId::new(0x0102).unwrap(), port: 0x0304 };
    let frame = probe.to_frame(MacAddr::new(2, 0, 0, 0, 0, 9));
    let expected = [
        0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 9, 0x88, 0xb5, 0x54, 0x50, 0x52, 0x42, 1, 0, 1, 2, 3, 4,
    ];
    assert_eq!((frame.len(), &frame[..SAID]), (FRAME_BYTES, &expected[..]));
    assert_eq!(frame[..6], DESTINATION.octets());
    assert_eq!(frame[12..14], ETHER_TYPE.to_be_bytes());
    assert!(frame[SAID..].iter().all(|byte| *byte == 0));
}

#[test]
fn nobody_is_no_sender() {
    let mut frame = Probe { node: NodeId::new(1).unwrap(), port: 1 }.to_frame(MacAddr::zero());
    frame[20..22].fill(0);
    assert_eq!(Probe::parse(&frame), Err(WireError::Bad { field: "node of a cable probe", value: 0 }));
}
