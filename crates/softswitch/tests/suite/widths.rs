//! Tests slices of all widths, in the programs of each width.

use std::sync::Arc;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_softswitch::Pipeline;
use tributary_wire::{FrameView, Operator, SliceWidth};

use crate::program::PROGRAMS;
use crate::support::{Rig, Sent, UP, WINDOW, program_in, values};

/// The program for the widest slices.
const WIDEST: (&str, SliceWidth) = PROGRAMS[PROGRAMS.len() - 1];

fn rig(folder: &str) -> Rig {
    let [json, p4info] = program_in(folder);
    Rig::running(Arc::new(Pipeline::load_text(&json, &p4info).unwrap())).aggregates(2)
}

fn frame(child: u8, seq: u32, operator: Operator, carried: &[i32]) -> Vec<u8> {
    let mut sent = Sent::gradient(child, 2, seq, values(0));
    sent.header.operator = operator;
    sent.frame_carrying(carried)
}

fn random_values(random: &mut impl Rng, width: SliceWidth) -> Vec<i32> {
    (0..width.values()).map(|_| random.random()).collect()
}

fn combined(operator: Operator, [a, b]: [&[i32]; 2]) -> Vec<i32> {
    let one = |(a, b): (&i32, &i32)| match operator {
        Operator::Sum => a.wrapping_add(*b),
        Operator::Max => (a & i32::MAX).max(b & i32::MAX),
        Operator::Relay => unreachable!("a switch forwards these"),
    };
    a.iter().zip(b).map(one).collect()
}

/// Processes a frame, and returns the values of the only frame that leaves, which goes to the
/// parent.
fn goes_up(rig: &mut Rig, port: u16, frame: &[u8]) -> Vec<i32> {
    let out = rig.send(port, frame);
    let [(UP, frame)] = out.as_slice() else { panic!("not one frame to port {UP}: {out:?}") };
    FrameView::parse(frame).unwrap().message().values().unwrap().iter().collect()
}

#[test]
fn every_program_aggregates_slices_of_its_own_width_and_of_all_narrower_ones() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    for (folder, program) in PROGRAMS {
        let mut rig = rig(folder);
        let mut seq = 0;
        for width in SliceWidth::all().filter(|width| *width <= program) {
            for operator in [Operator::Sum, Operator::Max] {
                seq += 1;
                let [a, b] = [(); 2].map(|()| random_values(&mut random, width));
                assert_eq!(rig.send(1, &frame(0, seq, operator, &a)), []);
                let second = frame(1, seq, operator, &b);
                let expected = combined(operator, [&a, &b]);
                assert_eq!(goes_up(&mut rig, 2, &second), expected, "{width:?} in {program:?}");
                // For a duplicate, the slot's sum leaves again.
                let again = goes_up(&mut rig, 1, &frame(0, seq, operator, &a));
                assert_eq!(again, expected, "{width:?} in {program:?}, once more");
            }
        }
    }
}

/// Checks that values of a wide slice do not get into the sum of a later narrow slice, and vice
/// versa.
#[test]
fn a_slot_that_was_wide_can_be_narrow() {
    let mut random = ChaCha8Rng::seed_from_u64(13);
    let mut rig = rig(WIDEST.0);
    for (seq, width) in [WIDEST.1, SliceWidth::NARROWEST, WIDEST.1].into_iter().enumerate() {
        // Each iteration uses one slot, because the sequence numbers differ by the window.
        let seq = (seq as u32 + 1) * WINDOW;
        let [a, b] = [(); 2].map(|()| random_values(&mut random, width));
        assert_eq!(rig.send(1, &frame(0, seq, Operator::Sum, &a)), []);
        let sum = goes_up(&mut rig, 2, &frame(1, seq, Operator::Sum, &b));
        assert_eq!(sum, combined(Operator::Sum, [&a, &b]), "{width:?}");
    }
}

#[test]
fn a_slice_that_is_wider_than_the_program_is_rejected() {
    for (folder, program) in PROGRAMS {
        let mut rig = rig(folder);
        for width in SliceWidth::all().filter(|width| *width > program) {
            let rejected = rig.job("job_rejected");
            assert_eq!(rig.send(1, &frame(0, 1, Operator::Sum, &vec![1; width.values()])), []);
            assert_eq!(rig.job("job_rejected"), rejected + 1, "{width:?} in {program:?}");
        }
    }
}

#[test]
fn numbers_of_blocks_that_no_slice_has_are_rejected() {
    let mut rig = rig(WIDEST.0);
    let whole = frame(0, 1, Operator::Sum, &vec![1; WIDEST.1.values()]);
    // This is the offset of the header's eighth byte, behind Ethernet, IPv4 and UDP.
    let blocks = 14 + 20 + 8 + 7;
    assert_eq!(whole[blocks], WIDEST.1.blocks());
    for wrong in (0..=255).filter(|blocks| SliceWidth::from_blocks(*blocks).is_none()) {
        let mut frame = whole.clone();
        frame[blocks] = wrong;
        let rejected = rig.job("job_rejected");
        assert_eq!(rig.send(1, &frame), [], "{wrong} blocks");
        assert_eq!(rig.job("job_rejected"), rejected + 1, "{wrong} blocks");
    }
}

#[test]
fn a_question_has_no_values_however_wide_the_slice_was() {
    for (folder, width) in PROGRAMS {
        let mut rig = rig(folder);
        let sent = Sent::gradient(0, 2, 1, values(0)).retransmitted();
        let frame = sent.frame_carrying(&vec![9; width.values()]);
        let out = rig.send(1, &frame);
        let [(UP, probe)] = out.as_slice() else { panic!("not one frame to port {UP}: {out:?}") };
        assert_eq!(probe.len(), frame.len() - width.bytes() - 6, "{width:?}");
        assert_eq!(FrameView::parse(probe).unwrap().message().values(), None);
    }
}
