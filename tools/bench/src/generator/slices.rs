//! The children's contributions to slices, and their expected sums.
//!
//! When the sum of a slice has come out, its slot of the switch gets the next slice, as rule 1 of the
//! protocol demands. Results are not sent back, because a newer slice takes over the slot even if it was not
//! released. So each slice is two packets into the switch and one packet out of it.

use std::ops::Range;

use tributary_wire::constants::{HOP_BYTES, INA_HEADER_BYTES};
use tributary_wire::frame::{ENCAPSULATION_BYTES, FrameHeader, FrameView, emit};
use tributary_wire::{
    Header, Hop, JobId, Kind, Message, NodeId, Operator, Rank, Seq, SliceWidth, Tag, Totals, WireError,
};

use super::{Arrived, GeneratorError, Load, SENDERS};

/// Hops of a contribution: one for the switch, and one for the parent, which acts as the server.
const HOPS: usize = 2;
/// The offset of the values in a contribution's frame.
pub(crate) const VALUES_AT: usize = ENCAPSULATION_BYTES + INA_HEADER_BYTES + HOPS * HOP_BYTES;

/// The number of children that send: each slice is the sum of one contribution from each child.
pub const CHILDREN: usize = SENDERS;
/// The increment of each child's values, and of its checks, from one slice to the next: odd, so
/// that 2^32 slices differ.
const STEPS: [u32; CHILDREN] = [0x9e37_79b1, 0x85eb_ca77];

/// One job at one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The data-plane job id.
    pub job: JobId,
    /// The node id of the switch.
    pub switch: NodeId,
    /// The node id of the server behind the switch.
    pub server: NodeId,
    /// The switch's port to the parent.
    pub parent_port: u16,
    /// Slices in flight at once, a power of two: the job's slots.
    pub window: u32,
    /// Number of values in a slice.
    pub width: SliceWidth,
    /// The frame headers of each child.
    pub frames: [FrameHeader; CHILDREN],
}

impl Flow {
    /// Returns the length of a contribution's frame in bytes.
    pub fn frame_bytes(&self) -> usize {
        VALUES_AT + self.width.bytes()
    }
}

/// The contributions of both children to any slice, computed from its number.
#[derive(Debug)]
pub struct SliceContributions {
    flow: Flow,
    hops: [[Hop; HOPS]; CHILDREN],
    /// The values of slice 0, by child.
    values: [Vec<u32>; CHILDREN],
    /// The sums for slice 0.
    sums: Vec<u32>,
    /// The values of the frame that is being written.
    outgoing: Vec<i32>,
}

impl SliceContributions {
    /// Prepares the contributions of this job.
    pub fn new(flow: Flow) -> Self {
        let value = |child: usize, at: usize| (at as u32 + 1).wrapping_mul(STEPS[CHILDREN - 1 - child]);
        let places = || 0..flow.width.values();
        let values: [Vec<u32>; CHILDREN] =
            std::array::from_fn(|child| places().map(|at| value(child, at)).collect());
        let sum = |at: usize| values.iter().fold(0_u32, |sum, values| sum.wrapping_add(values[at]));
        Self {
            flow,
            hops: std::array::from_fn(|child| hops(&flow, child)),
            sums: places().map(sum).collect(),
            values,
            outgoing: Vec::with_capacity(flow.width.values()),
        }
    }
}

impl Load for SliceContributions {
    fn window(&self) -> u32 {
        self.flow.window
    }

    fn senders(&self, _seq: Seq) -> Range<usize> {
        0..CHILDREN
    }

    fn write(
        &mut self,
        child: usize,
        seq: Seq,
        again: bool,
        frame: &mut [u8],
    ) -> Result<usize, GeneratorError> {
        let step = STEPS[child].wrapping_mul(seq.0);
        self.outgoing.clear();
        self.outgoing.extend(self.values[child].iter().map(|value| value.wrapping_add(step).cast_signed()));
        let header = Header {
            kind: Kind::Gradient,
            operator: Operator::Sum,
            retransmit: again,
            job: self.flow.job,
            rank: Rank::new(child as u16),
            seq,
            totals: Totals { contributors: 1, weight: 1, tag: Tag { high: step, low: !step } },
        };
        let message = Message { header, hops: &self.hops[child], values: Some(&self.outgoing) };
        emit(&self.flow.frames[child], &message, frame).map_err(GeneratorError::Unwritable)
    }

    fn check(&self, frame: &[u8]) -> Result<Arrived, GeneratorError> {
        let view = match FrameView::parse(frame) {
            Ok(view) => view,
            Err(WireError::NotIna(_)) => return Ok(Arrived::Other),
            Err(error) => return Err(GeneratorError::Malformed(error)),
        };
        let header = view.message().header();
        let Some(values) = view.message().values().filter(|_| header.job == self.flow.job) else {
            return Ok(Arrived::Other);
        };
        let step = STEPS.iter().fold(0_u32, |sum, step| sum.wrapping_add(*step)).wrapping_mul(header.seq.0);
        let children = CHILDREN as u32;
        let totals = [
            ("contributors", children, header.totals.contributors),
            ("weight", children, header.totals.weight),
            ("high digit of the tag", step, header.totals.tag.high),
            ("low digit of the tag", step.wrapping_neg().wrapping_sub(children), header.totals.tag.low),
        ];
        let wrong = |what, expected, got| GeneratorError::WrongSum { seq: header.seq, what, expected, got };
        for (field, expected, got) in totals {
            if expected != got {
                return Err(wrong(field.to_owned(), expected, got));
            }
        }
        // Compares all values without an early exit, because a loop with an early exit is several times
        // slower.
        let pairs =
            || self.sums.iter().map(|sum| sum.wrapping_add(step)).zip(values.iter().map(i32::cast_unsigned));
        if pairs().fold(0, |differs, (expected, got)| differs | (expected ^ got)) != 0 {
            let first = pairs().enumerate().find(|(_, (expected, got))| expected != got);
            let (at, (expected, got)) = first.unwrap_or_default();
            return Err(wrong(format!("value {at}"), expected, got));
        }
        Ok(Arrived::Whole(header.seq))
    }
}

fn hops(flow: &Flow, child: usize) -> [Hop; HOPS] {
    [
        Hop {
            node: flow.switch,
            egress_port: flow.parent_port,
            aggregate: true,
            child: child as u8,
            fan_in: CHILDREN as u8,
        },
        Hop { node: flow.server, egress_port: 0, aggregate: true, child: 0, fan_in: 1 },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;
    use tributary_wire::MacAddr;

    fn contributions(width: SliceWidth) -> SliceContributions {
        let header = FrameHeader {
            source_mac: MacAddr::new(2, 0, 0, 0, 0, 1),
            destination_mac: MacAddr::new(2, 0, 0, 0, 0, 2),
            source_ip: Ipv4Addr::new(10, 0, 0, 1),
            destination_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        SliceContributions::new(Flow {
            job: JobId::new(7).unwrap(),
            switch: NodeId::new(1).unwrap(),
            server: NodeId::new(2).unwrap(),
            parent_port: 1,
            window: 16,
            width,
            frames: [header; CHILDREN],
        })
    }

    fn widths() -> impl Strategy<Value = SliceWidth> {
        prop_oneof![Just(SliceWidth::ETHERNET), Just(SliceWidth::WIDEST)]
    }

    /// Computes the switch's sum of both contributions step by step.
    fn sum(
        contributions: &mut SliceContributions,
        seq: Seq,
        damage: impl FnOnce(&mut [i32], &mut Totals),
    ) -> Vec<u8> {
        let frames = [0, 1].map(|child| {
            let mut frame = vec![0; contributions.flow.frame_bytes()];
            let len = contributions.write(child, seq, false, &mut frame).unwrap();
            assert_eq!(len, frame.len());
            frame
        });
        let [a, b] = [0, 1].map(|child: usize| FrameView::parse(&frames[child]).unwrap());
        let mut values: Vec<i32> = a.message().values().unwrap().iter().collect();
        values.iter_mut().zip(b.message().values().unwrap().iter()).for_each(|(a, b)| *a = a.wrapping_add(b));
        let [mut totals, other] = [a, b].map(|view| view.message().header().totals);
        totals.add(other);
        damage(&mut values, &mut totals);
        let header = Header { totals, ..*b.message().header() };
        let hops: Vec<Hop> = b.message().hops().skip(1).collect();
        let mut frame = vec![0; contributions.flow.frame_bytes()];
        let message = Message { header, hops: &hops, values: Some(&values) };
        let len = emit(b.header(), &message, &mut frame).unwrap();
        frame.truncate(len);
        frame
    }

    proptest! {
        #[test]
        fn the_sum_of_both_contributions_is_right_for_every_slice(seq: u32, width in widths()) {
            let mut contributions = contributions(width);
            let frame = sum(&mut contributions, Seq(seq), |_, _| ());
            let arrived = contributions.check(&frame).unwrap();
            prop_assert_eq!(arrived, Arrived::Whole(Seq(seq)));
        }

        #[test]
        fn any_wrong_value_is_noticed(seq: u32, width in widths(), at: usize, by in 1u32..) {
            let mut contributions = contributions(width);
            let at = at % width.values();
            let frame = sum(&mut contributions, Seq(seq), |values, _| {
                values[at] = values[at].wrapping_add(by.cast_signed());
            });
            let error = contributions.check(&frame).unwrap_err().to_string();
            prop_assert!(error.contains(&format!("is wrong in value {at}:")), "{}", error);
        }
    }

    #[test]
    fn a_missing_contribution_is_noticed() {
        let mut contributions = contributions(SliceWidth::ETHERNET);
        let frame = sum(&mut contributions, Seq::FIRST, |_, totals| totals.contributors = 1);
        let error = contributions.check(&frame).unwrap_err().to_string();
        assert!(error.contains("contributors: expected 0x2, got 0x1"), "{error}");
    }

    #[test]
    fn frames_of_others_are_left_alone() {
        assert_eq!(contributions(SliceWidth::ETHERNET).check(&[0; 60]).unwrap(), Arrived::Other);
    }

    #[test]
    fn slices_a_window_apart_share_a_slot() {
        let contributions = contributions(SliceWidth::ETHERNET);
        assert_eq!(contributions.place(Seq::FIRST), 0);
        assert_eq!(contributions.place(Seq(16)), 15);
        assert_eq!(contributions.place(Seq(0)), 15);
        assert_eq!(contributions.place(Seq(u32::MAX)), contributions.place(Seq(u32::MAX).plus(16)));
    }
}
