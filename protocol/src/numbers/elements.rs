//! The elements of one all-reduce: this member's contribution, and in its place the sums.
//!
//! A slice's sums overwrite the contribution to it, which nobody asks for again once the slice is done. So an
//! all-reduce needs no second vector, which for a large tensor would cost more time than the additions.

use std::collections::TryReserveError;
use std::ops::Range;

use tributary_wire::{Rank, SliceWidth, ValuesView};

use super::data::{ElementType, GradientData, Scaling, Sums, filled};
use super::prefetch::prefetch;
use super::{bound, vectors};

/// All elements of an operation at one participant: the sums of the slices that are done, and its contribution to the
/// others.
#[derive(Debug, Clone)]
pub(crate) struct Elements(Sums);

impl Elements {
    /// Bytes of one element, whatever its type.
    const BYTES: u64 = 4;

    /// Bytes of so many elements.
    pub(crate) fn memory(len: usize) -> u64 {
        (len as u64).saturating_mul(Self::BYTES)
    }

    /// The elements of a contribution.
    pub(crate) fn contributed(data: GradientData) -> Self {
        Self(match data {
            GradientData::F32(values) | GradientData::F16(values) | GradientData::BF16(values) => {
                Sums::F32(values)
            }
            GradientData::I32(values) => Sums::I32(values),
        })
    }

    /// Room for the sums of an operation that is only read.
    ///
    /// # Errors
    /// The system does not give the memory for them.
    pub(crate) fn awaited(element_type: ElementType, len: usize) -> Result<Self, TryReserveError> {
        Ok(Self(match element_type {
            ElementType::I32 => Sums::I32(filled(0, len)?),
            ElementType::F32 | ElementType::F16 | ElementType::BF16 => Sums::F32(filled(0.0, len)?),
        }))
    }

    /// Writes the [bound](bound) of each slice of this width to `out`: of the elements in `range`, none of whose slices is
    /// done.
    pub(crate) fn write_bounds(&self, range: Range<usize>, rank: Rank, width: SliceWidth, out: &mut [u32]) {
        fn write<T>(values: &[T], width: SliceWidth, out: &mut [u32], bound: impl Fn(&[T]) -> u32) {
            out.iter_mut().zip(values.chunks(width.values())).for_each(|(out, slice)| *out = bound(slice));
        }
        match &self.0 {
            Sums::F32(values) => {
                write(part(values, range), width, out, |slice| bound::of_floats(slice, rank));
            }
            Sums::I32(values) => write(part(values, range), width, out, bound::of_integers),
        }
    }

    /// Writes the elements in `range`, whose slice is not done, to `out`, in the form in which they travel, and zeros behind
    /// them.
    pub(crate) fn write(&self, range: Range<usize>, weight: u32, scaling: Scaling, out: &mut [i32]) {
        let multiplier = match scaling {
            Scaling::Zeros => return out.fill(0),
            Scaling::Whole => 1.0,
            Scaling::Fixed(scale) => scale.multiplier(weight),
        };
        // Slices are sent in their order.
        let (len, next) = (range.len(), range.end..range.end + range.len());
        match &self.0 {
            Sums::F32(values) => {
                vectors::quantise_all(part(values, range), multiplier, out);
                prefetch(part(values, next));
            }
            Sums::I32(values) => {
                vectors::weigh_all(part(values, range), weight.cast_signed(), out);
                prefetch(part(values, next));
            }
        }
        out.get_mut(len..).unwrap_or_default().fill(0);
    }

    /// Puts the sums of the slice with the elements in `range`, which is done, into their place.
    pub(crate) fn finish(&mut self, range: Range<usize>, scaling: Scaling, integers: ValuesView<'_>) {
        match &mut self.0 {
            Sums::I32(sums) => {
                let sums = sums.get_mut(range).unwrap_or_default();
                sums.iter_mut().zip(integers.iter()).for_each(|(sum, integer)| *sum = integer);
            }
            Sums::F32(sums) => {
                let sums = sums.get_mut(range).unwrap_or_default();
                match scaling {
                    Scaling::Fixed(scale) => vectors::restore_all(integers, scale.unit(), sums),
                    // What was contributed here does not stay: it may have no weight, or be a zero with a sign.
                    Scaling::Zeros | Scaling::Whole => sums.fill(0.0),
                }
            }
        }
    }

    /// The sums, once all slices are done.
    pub(crate) fn into_sums(self) -> Sums {
        self.0
    }
}

/// The elements in `range`, or none where it goes beyond the last.
fn part<T>(values: &[T], range: Range<usize>) -> &[T] {
    values.get(range).unwrap_or_default()
}
