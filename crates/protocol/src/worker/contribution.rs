//! The contribution of a member to an operation.

use tributary_wire::{Operator, Rank, Totals};

use crate::operation::{Operation, SliceRole};
use crate::tags::{Membership, PadSum, Share};

/// A member's contribution to an operation: the weight of its elements, and the withheld slices.
#[derive(Debug, Clone)]
pub(super) struct Contribution {
    weight: u32,
    /// For each MAX slice, true if this worker withholds its contribution.
    /// It reports this in the MAX slice, and sends the SUM slices that it bounds as zeros of weight 0.
    /// These are the MAX slices that the worker had not sent when the caller abandoned the operation. Empty if nothing
    /// is withheld.
    withheld: Vec<bool>,
}

impl Contribution {
    pub(super) fn new(weight: u32) -> Self {
        Self { weight, withheld: Vec::new() }
    }

    /// Returns the weight in MAX slice `index`, and in the SUM slices whose bounds it carries.
    fn weight(&self, index: usize) -> u32 {
        if self.is_withheld(index) { 0 } else { self.weight }
    }

    fn is_withheld(&self, index: usize) -> bool {
        self.withheld.get(index) == Some(&true)
    }
}

impl Operation<Contribution> {
    /// Writes this member's values of the slice at `position` to `out`.
    /// The slice must not have a result yet, and must not be [relayed](Operation::relayed_by) by another member.
    /// Returns the slice's operator, this member's totals, and the sum of all members' pads.
    pub(super) fn write(
        &mut self,
        position: u64,
        (members, rank): (&Membership, Rank),
        out: &mut [i32],
    ) -> (Operator, Totals, PadSum) {
        let mut astray = false;
        let relayed = self.relayed_by(position, members);
        let weight = match self.layout.part(position) {
            SliceRole::Max(index) => {
                let weight = self.own.weight(index);
                match weight {
                    0 => self.leave_out(index, self.own.is_withheld(index).then_some(rank)),
                    _ => self.measure(index, rank, weight),
                }
                out.fill(0);
                let (first, lanes) = self.lanes_in(index);
                if let Some((to, bounds)) = out.split_first_mut() {
                    *to = first.cast_signed();
                    bounds.iter_mut().zip(lanes.as_flattened()).for_each(|(to, lane)| *to = *lane);
                }
                weight
            }
            SliceRole::Sum(slice) => {
                let weight = self.own.weight(self.layout.bound_of(slice));
                astray = self.agreed(slice).is_none();
                match weight {
                    // A slice without a scale goes out as zeros, so that the window moves on.
                    _ if weight == 0 || astray => out.fill(0),
                    _ => {
                        let (elements, block) = (self.layout.elements(slice), self.layout.block());
                        let not_finite = self.may_have_not_finite(slice);
                        self.elements.write(elements, not_finite, (block, self.scales(slice)), out);
                    }
                }
                weight
            }
            SliceRole::Relay(slice) => {
                astray = relayed.is_some() && self.agreed(slice).is_none();
                if relayed.is_none() || astray || self.own.is_withheld(self.layout.bound_of(slice)) {
                    out.fill(0);
                } else {
                    self.elements.write_words(self.layout.elements(slice), out);
                }
                0
            }
            SliceRole::Rest(index) => {
                self.write_rest(index, |max_slice| self.own.weight(max_slice), out);
                // The SUM slices already carry the weight.
                0
            }
        };
        let meaning = self.meaning(position, members);
        let share = Share { rank, weight };
        let (mut tag, pads) = match relayed {
            Some(_) => members.tag_relayed(&meaning, rank, out),
            None => members.tag(&meaning, share, self.confirmed_in(position), out),
        };
        if astray {
            // This member does not know the scale, so the others must not accept a sum that lacks its values. The wrong
            // tag prevents that.
            tag.low ^= 1;
        }
        let owner = self.owner(position, members).filter(|owner| *owner == rank);
        let contributors = Totals::contributors_of(1, owner);
        (meaning.operator, Totals { contributors, weight, tag }, pads)
    }

    /// Withholds the contribution to the slices whose bounds were not announced.
    /// The bounds of a slice are announced if `is_sent` returns true for the position of its MAX slice. By the MAX
    /// slices, the members agree on weight and scale. So the values must follow if their bounds were announced, and can
    /// be left out otherwise. The operation then [fails](crate::CollectiveError::Withheld) on all other members.
    /// A contribution that is withheld already stays withheld, because its MAX slice has announced that.
    pub(super) fn withhold_unless(&mut self, is_sent: impl Fn(u64) -> bool) {
        let positions = self.layout.max_positions().enumerate();
        let is_withheld = |(index, position)| self.own.is_withheld(index) || !is_sent(position);
        self.own.withheld = positions.map(is_withheld).collect();
        if self.own.withheld.contains(&true) {
            self.least_weight_is(0);
        }
    }
}
