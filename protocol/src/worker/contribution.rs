//! What a member gives to an operation.

use tributary_wire::constants::VALUES_PER_SLICE;
use tributary_wire::{Operator, Rank, Tally};

use crate::numbers::{GradientData, Scaling};
use crate::operation::{Operation, Part};

/// A member's elements and their weight.
#[derive(Debug)]
pub(super) struct Contribution {
    pub(super) data: GradientData,
    pub(super) weight: u32,
}

impl Contribution {
    /// This member's bound of each SUM slice.
    pub(super) fn bounds(&self, rank: Rank) -> Vec<u32> {
        if self.weight == 0 {
            return vec![0; self.data.len().div_ceil(VALUES_PER_SLICE)];
        }
        self.data.bounds(rank)
    }
}

impl Operation<Contribution> {
    /// Writes the slice's values into `out`; returns its operator and this member's tally.
    pub(super) fn write(
        &self,
        position: u64,
        rank: Rank,
        out: &mut [i32; VALUES_PER_SLICE],
    ) -> (Operator, Tally) {
        out.fill(0);
        let Contribution { data, weight } = &self.own;
        let mut astray = false;
        match self.layout.part(position) {
            Part::Max(index) => {
                for (to, bound) in out.iter_mut().zip(self.bounds_in(index)) {
                    *to = bound.cast_signed();
                }
            }
            Part::Sum(slice) => {
                astray = self.agreed(slice).is_none();
                // A slice that all members have refused goes out as zeros, for the window's sake.
                let scaling = self.scaling(slice).unwrap_or(Scaling::Zeros);
                data.write(self.layout.elements(slice), *weight, scaling, out);
            }
        }
        let meaning = self.meaning(position);
        let check = meaning.contribution(rank, out.iter().copied());
        // A member that does not know the scale must not let the others believe in a sum without it.
        let check = if astray { !check } else { check };
        (meaning.operator, Tally { contributors: 1, weight: *weight, check })
    }
}
