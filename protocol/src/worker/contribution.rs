//! What a member gives to an operation.

use std::iter::repeat;

use tributary_wire::{Operator, Rank, Tally};

use crate::numbers::Scaling;
use crate::operation::{Operation, SliceRole};
use crate::tags::{Membership, Share};

/// The weight with which a member's elements go in.
#[derive(Debug, Clone)]
pub(super) struct Contribution {
    weight: u32,
    /// For each MAX slice whether it, and the SUM slices whose bounds it carries, go out as zeros of no weight:
    /// the operation was given up before that MAX slice was sent. Empty when nothing is withheld.
    withheld: Vec<bool>,
}

impl Contribution {
    pub(super) fn new(weight: u32) -> Self {
        Self { weight, withheld: Vec::new() }
    }

    /// The weight in the MAX slice `index`, and in the SUM slices whose bounds it carries.
    fn weight(&self, index: usize) -> u32 {
        if self.withheld.get(index) == Some(&true) { 0 } else { self.weight }
    }
}

impl Operation<Contribution> {
    /// Writes the slice's values into `out`; returns its operator and this member's tally. It has no result yet.
    pub(super) fn write(
        &mut self,
        position: u64,
        (members, rank): (&Membership, Rank),
        out: &mut [i32],
    ) -> (Operator, Tally) {
        let mut astray = false;
        let weight = match self.layout.part(position) {
            SliceRole::Max(index) => {
                let weight = self.own.weight(index);
                match weight {
                    0 => self.leave_out(index),
                    _ => self.measure(index, rank),
                }
                let bounds = self.bounds_in(index).iter().map(|bound| bound.cast_signed());
                out.iter_mut().zip(bounds.chain(repeat(0))).for_each(|(to, bound)| *to = bound);
                weight
            }
            SliceRole::Sum(slice) => {
                let weight = self.own.weight(self.layout.bound_of(slice));
                astray = self.agreed(slice).is_none();
                // A slice that all members have refused goes out as zeros, for the window's sake.
                let scaling = self.scaling(slice).unwrap_or(Scaling::Zeros);
                match weight {
                    0 => out.fill(0),
                    _ => self.elements.write(self.layout.elements(slice), weight, scaling, out),
                }
                weight
            }
        };
        let meaning = self.meaning(position);
        let share = Share { rank, weight, owns: self.owns(position) };
        let mut tag = members.tag(&meaning, share, out);
        if astray {
            // A member that does not know the scale must not let the others believe in a sum without it.
            tag.low ^= 1;
        }
        (meaning.operator, Tally { contributors: 1, weight, tag })
    }

    /// Gives nothing to what `is_sent` says has not been announced: the members agree on weight and scale by the
    /// MAX slices, so what those have announced must follow, and what they have not can be left out.
    pub(super) fn withhold_unless(&mut self, is_sent: impl Fn(u64) -> bool) {
        self.own.withheld = self.layout.max_positions().map(|position| !is_sent(position)).collect();
        if self.own.withheld.contains(&true) {
            self.contributes(0);
        }
    }
}
