//! The rest of some blocks: the data that does not fit in one integer for each element.
//! It consists of the further limbs of the values, and of the marks of values that are NaN or infinite.
//!
//! The rest travels in slices behind the operation's other slices. Their lanes follow block by block. For each block,
//! the elements' [classes](Class) come first, if a member has NaN or infinity near the block. Then come the elements'
//! further limbs, which [`pack`](Scale::pack) puts into integers. The operation *holds* the sums of such a block until
//! all of them have arrived, because the contribution still needs the memory in which the sums will be stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tributary_wire::ValuesView;

use super::Operation;
use crate::numbers::fixed_point::Scale;
use crate::numbers::lanes::owner;
use crate::numbers::vectors::unpaired_all;
use crate::numbers::{Class, DoesNotFit, NotFinite};

/// The blocks that have a rest, and the sums of these blocks that have arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct Rest {
    /// The blocks that have a rest; in order once all bounds are agreed on.
    blocks: Vec<RestBlock>,
    /// The sums that have arrived, by block.
    held: BTreeMap<usize, Held>,
    /// The blocks whose sums another member receives.
    left_out: BTreeSet<usize>,
    /// The minimum number of contributors of all rest slices that have arrived; `None` before the first.
    least_contributors: Option<u32>,
}

/// A block that has a rest.
#[derive(Debug, Clone, Copy)]
struct RestBlock {
    block: usize,
    /// The number of the block's first lane among all lanes of the rest.
    first: usize,
    lanes: usize,
}

/// The sums of one block that have arrived.
#[derive(Debug, Clone, Default, Hash)]
struct Held {
    /// The sums of the first limbs, then the sums of the rest, in the order of its lanes.
    sums: Vec<i32>,
    /// The number of sums that have arrived.
    arrived: usize,
}

impl Rest {
    /// The maximum number of bytes that the rest takes for each block, in addition to the sums.
    /// The factor 3 covers vectors and maps that grow.
    pub(super) const BYTES_PER_BLOCK: usize =
        3 * size_of::<RestBlock>() + 3 * size_of::<(usize, Held)>() + 3 * size_of::<usize>();

    /// Returns the blocks that have some of these lanes.
    fn in_lanes(&self, lanes: &Range<usize>) -> impl Iterator<Item = RestBlock> + use<> {
        let first = self.blocks.partition_point(|rest| rest.first + rest.lanes <= lanes.start);
        let after = self.blocks.partition_point(|rest| rest.first < lanes.end);
        let blocks: Vec<_> = self.blocks.get(first..after).unwrap_or_default().into();
        blocks.into_iter()
    }

    pub(super) fn hash_state(&self, into: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        (&self.held, &self.left_out, self.least_contributors).hash(into);
    }
}

impl<C> Operation<C> {
    /// Records the blocks of `blocks` that have a rest. Their bounds must be agreed on.
    pub(super) fn expect_rest(&mut self, blocks: Range<usize>) {
        for block in blocks {
            let lanes = self.rest_lanes(block);
            if lanes > 0 {
                self.rest.blocks.push(RestBlock { block, first: 0, lanes });
            }
        }
    }

    /// Assigns lanes to the blocks that have a rest, in order of the blocks. All bounds must be agreed on.
    pub(super) fn lay_out_rest(&mut self) {
        self.rest.blocks.sort_unstable_by_key(|rest| rest.block);
        let mut lanes = 0;
        for rest in &mut self.rest.blocks {
            rest.first = lanes;
            lanes += rest.lanes;
        }
        let slices = lanes.div_ceil(self.layout.width.values());
        self.layout.rest_slices = Some(slices as u64);
        self.unfinished += slices;
    }

    /// Returns true if a block's elements have classes in the rest.
    fn has_classes(&self, block: usize) -> bool {
        self.may_have_not_finite(self.layout.slice_of(block))
    }

    /// Returns the number of lanes that a block has in the rest. Its bounds must be agreed on.
    fn rest_lanes(&self, block: usize) -> usize {
        let len = self.layout.elements_of_block(block).len();
        let classes = if self.has_classes(block) { len } else { 0 };
        classes + self.scale(block).map_or(0, |scale| scale.further_lanes(len))
    }

    /// Returns the lanes of slice `index` of the rest.
    fn lanes_of(&self, index: usize) -> Range<usize> {
        let width = self.layout.width.values();
        index * width..(index + 1) * width
    }

    /// Writes this member's contribution to slice `index` of the rest.
    /// `weight` returns the weight of the blocks whose bounds a given MAX slice carries.
    pub(crate) fn write_rest(&self, index: usize, weight: impl Fn(usize) -> u32, out: &mut [i32]) {
        out.fill(0);
        let lanes = self.lanes_of(index);
        for RestBlock { block, first, .. } in self.rest.in_lanes(&lanes) {
            let weight = weight(self.layout.bound_of(self.layout.slice_of(block)));
            if weight == 0 || self.failed {
                continue;
            }
            let elements = self.layout.elements_of_block(block);
            let (len, has_classes, scale) = (elements.len(), self.has_classes(block), self.scale(block));
            let mut put = |lane: usize, value: i32| {
                let at = lane.checked_sub(lanes.start);
                if let Some(to) = at.and_then(|at| out.get_mut(at)) {
                    *to = value;
                }
            };
            let mut further = first;
            if has_classes {
                elements
                    .clone()
                    .zip(first..)
                    .for_each(|(element, lane)| put(lane, self.elements.class(element).0));
                further += len;
            }
            let Some(scale) = scale.filter(|scale| scale.limbs() > 1) else { continue };
            let mut limbs = vec![0; len * scale.limbs()];
            for (element, to) in elements.zip(limbs.chunks_exact_mut(scale.limbs())) {
                self.elements.write_limbs(element, scale, to);
            }
            let limb = |number: usize, at: usize| limbs.get(at * scale.limbs() + number).copied();
            let packed = scale.pack(len, |number, at| limb(number, at).unwrap_or_default());
            packed.into_iter().zip(further..).for_each(|(limb, lane)| put(lane, limb));
        }
    }

    /// Accepts the sums of a SUM slice.
    pub(super) fn accept_sums(&mut self, slice: usize, values: ValuesView<'_>) {
        let (block_len, blocks) = (self.layout.block(), self.layout.blocks_of(slice..slice + 1));
        let is_split = |scale: &Option<Scale>| scale.is_some_and(|scale| scale.limbs() > 1);
        if !self.may_have_not_finite(slice) && !self.scales(slice).iter().any(is_split) {
            let scales = self.scales.get(blocks).unwrap_or_default();
            self.elements.finish_slice(self.layout.elements(slice), (block_len, scales), values);
            return;
        }
        for (block, values) in
            blocks.zip(values.chunks(block_len / self.tensor.element_type.elements_in_value()))
        {
            let len = self.layout.elements_of_block(block).len();
            if self.tensor.element_type.is_paired() {
                self.hold(block, 0, unpaired_all(values).into_iter().take(len));
            } else {
                self.hold(block, 0, values.iter().take(len));
            }
        }
    }

    /// Accepts slice `index` of the rest, which is the sum of `contributors` members.
    pub(super) fn accept_rest(&mut self, index: usize, contributors: u32, values: ValuesView<'_>) {
        let least = self.rest.least_contributors.unwrap_or(contributors);
        self.rest.least_contributors = Some(least.min(contributors));
        let lanes = self.lanes_of(index);
        for rest in self.rest.in_lanes(&lanes) {
            let from = rest.first.max(lanes.start);
            let until = (rest.first + rest.lanes).min(lanes.end);
            let len = self.layout.elements_of_block(rest.block).len();
            let values = values.iter().skip(from - lanes.start).take(until - from);
            self.hold(rest.block, len + from - rest.first, values);
        }
    }

    /// Drops the sums of blocks that have a rest, because another member receives the blocks' first limbs.
    pub(super) fn leave_out_rest(&mut self, blocks: Range<usize>) {
        for block in blocks.filter(|block| self.rest_lanes(*block) > 0).collect::<Vec<_>>() {
            self.rest.held.remove(&block);
            self.rest.left_out.insert(block);
        }
    }

    /// Holds sums of a block, from sum number `first` on.
    /// Once the last sum of the block has arrived, computes the elements.
    fn hold(&mut self, block: usize, first: usize, values: impl ExactSizeIterator<Item = i32>) {
        if self.rest.left_out.contains(&block) {
            return;
        }
        let len = self.layout.elements_of_block(block).len();
        let needed = len + self.rest_lanes(block);
        let held = self.rest.held.entry(block).or_default();
        let until = first + values.len();
        if held.sums.len() < until {
            held.sums.resize(until, 0);
        }
        held.arrived += values.len();
        held.sums.iter_mut().skip(first).zip(values).for_each(|(to, value)| *to = value);
        if held.arrived < needed {
            return;
        }
        let sums = std::mem::take(held).sums;
        self.rest.held.remove(&block);
        self.finish_block(block, &sums);
    }

    /// Computes the elements of a block from all of its sums.
    fn finish_block(&mut self, block: usize, sums: &[i32]) {
        let (elements, scale, has_classes) =
            (self.layout.elements_of_block(block), self.scale(block), self.has_classes(block));
        let len = elements.len();
        let further = sums.get(if has_classes { 2 * len } else { len }..).unwrap_or_default();
        for (at, element) in elements.enumerate() {
            let sum = |at: usize| sums.get(at).copied().unwrap_or_default();
            let class = if has_classes { Class(sum(len + at)) } else { Class::FINITE };
            let limbs = (0..scale.map_or(0, Scale::limbs)).map(|number| match (number, scale) {
                (1.., Some(scale)) => scale.unpack(further, len, number, at),
                _ => sum(at),
            });
            if class != Class::FINITE && self.found_not_finite.is_none_or(|found| element < found.element) {
                let rank = owner(self.first_lane(self.layout.slice_of(block)));
                self.found_not_finite = rank.map(|rank| NotFinite { element, rank });
            }
            if let Err(DoesNotFit) = self.elements.finish(element, scale, limbs, class) {
                let first = self.overflow.map_or(element, |first| first.min(element));
                self.overflow = Some(first);
            }
        }
    }

    /// Returns the number of members whose values are in a SUM slice with all of their limbs, or a lower
    /// bound of it.
    /// `contributors` is the number of members whose first limbs are in the slice.
    pub(super) fn complete(&self, slice: usize, contributors: u32) -> u32 {
        let blocks = &self.rest.blocks;
        let next = blocks.partition_point(|rest| self.layout.slice_of(rest.block) < slice);
        let has_rest = blocks.get(next).is_some_and(|rest| self.layout.slice_of(rest.block) == slice);
        let least = self.rest.least_contributors.filter(|_| has_rest);
        least.map_or(contributors, |least| least.min(contributors))
    }
}
