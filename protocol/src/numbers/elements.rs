//! The elements of one all-reduce, from what is contributed to what it is reduced to.
//!
//! A slice's sums take the place of what was contributed to it: nobody asks for that again once the slice is done.
//! So a tensor needs no second one beside it, which for large ones costs more time than to add them.

use std::collections::TryReserveError;
use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use tributary_wire::{Rank, SliceWidth, ValuesView};

use super::data::{ElementType, GradientData, Scaling, Sums, filled};
use super::{bound, vectors};

/// All elements of an operation, at one who takes part in it.
#[derive(Debug, Clone)]
pub(crate) struct Elements {
    /// What is contributed here, where sums do not fit into its place.
    narrow: Option<Narrow>,
    /// The sums of the slices that are done. Those of the others are what is contributed here, unless that is `narrow`.
    sums: Sums,
}

/// Floats of 16 bits.
#[derive(Debug, Clone)]
enum Narrow {
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

impl Elements {
    /// Bytes of one element's sum, whatever its type.
    const SUM_BYTES: u64 = 4;

    /// Bytes of so many elements of this type.
    pub(crate) fn memory(element_type: ElementType, len: usize) -> u64 {
        let narrow = match element_type {
            ElementType::F16 | ElementType::BF16 => size_of::<f16>() as u64,
            ElementType::F32 | ElementType::I32 => 0,
        };
        (len as u64).saturating_mul(Self::SUM_BYTES + narrow)
    }

    /// Those that are contributed.
    ///
    /// # Errors
    /// The system does not give the memory for their sums.
    pub(crate) fn contributed(data: GradientData) -> Result<Self, TryReserveError> {
        let (element_type, len) = (data.element_type(), data.len());
        let narrow = match data {
            GradientData::F32(values) => return Ok(Self { narrow: None, sums: Sums::F32(values) }),
            GradientData::I32(values) => return Ok(Self { narrow: None, sums: Sums::I32(values) }),
            GradientData::F16(values) => Narrow::F16(values),
            GradientData::BF16(values) => Narrow::BF16(values),
        };
        Ok(Self { narrow: Some(narrow), ..Self::awaited(element_type, len)? })
    }

    /// Those of an operation whose sums are only read.
    ///
    /// # Errors
    /// As [`contributed`](Self::contributed).
    pub(crate) fn awaited(element_type: ElementType, len: usize) -> Result<Self, TryReserveError> {
        let sums = match element_type {
            ElementType::I32 => Sums::I32(filled(0, len)?),
            ElementType::F32 | ElementType::F16 | ElementType::BF16 => Sums::F32(filled(0.0, len)?),
        };
        Ok(Self { narrow: None, sums })
    }

    /// Writes the [bound](bound) of each slice of this width to `out`: of the elements in `range`, none of whose slices is
    /// done.
    pub(crate) fn write_bounds(&self, range: Range<usize>, rank: Rank, width: SliceWidth, out: &mut [u32]) {
        fn write<T>(values: &[T], width: SliceWidth, out: &mut [u32], bound: impl Fn(&[T]) -> u32) {
            out.iter_mut().zip(values.chunks(width.values())).for_each(|(out, slice)| *out = bound(slice));
        }
        match (&self.narrow, &self.sums) {
            (None, Sums::F32(values)) => {
                write(part(values, range), width, out, |slice| bound::of_floats(slice, rank));
            }
            (None, Sums::I32(values)) => write(part(values, range), width, out, bound::of_integers),
            (Some(Narrow::F16(values)), _) => {
                write(part(values, range), width, out, |slice| bound::of_halves(slice, rank));
            }
            (Some(Narrow::BF16(values)), _) => {
                write(part(values, range), width, out, |slice| bound::of_upper_halves(slice, rank));
            }
        }
    }

    /// Writes the elements in `range`, whose slice is not done, as they travel to the start of `out`; the rest of it stays.
    pub(crate) fn write(&self, range: Range<usize>, weight: u32, scaling: Scaling, out: &mut [i32]) {
        let multiplier = match scaling {
            Scaling::Zeros => return,
            Scaling::Whole => 1.0,
            Scaling::Fixed(scale) => scale.multiplier(weight),
        };
        match (&self.narrow, &self.sums) {
            (None, Sums::F32(values)) => vectors::quantise_all(part(values, range), multiplier, out),
            (None, Sums::I32(values)) => vectors::weigh_all(part(values, range), weight.cast_signed(), out),
            (Some(Narrow::F16(values)), _) => widen_and_quantise(part(values, range), multiplier, out),
            (Some(Narrow::BF16(values)), _) => widen_and_quantise(part(values, range), multiplier, out),
        }
    }

    /// Puts the sums of the slice with the elements in `range`, which is done, into their place.
    pub(crate) fn finish(&mut self, range: Range<usize>, scaling: Scaling, integers: ValuesView<'_>) {
        match &mut self.sums {
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
        self.sums
    }
}

/// The elements in `range`, or none where it goes beyond the last.
fn part<T>(values: &[T], range: Range<usize>) -> &[T] {
    values.get(range).unwrap_or_default()
}

/// Floats of 16 bits that are widened at once.
const WIDENED: usize = 256;

/// Floats of 16 bits, some after the other.
fn widen_and_quantise<T>(values: &[T], multiplier: f64, out: &mut [i32])
where
    [T]: HalfFloatSliceExt,
{
    let mut wide = [0.0; WIDENED];
    for (values, out) in values.chunks(WIDENED).zip(out.chunks_mut(WIDENED)) {
        let wide = &mut wide[..values.len()];
        values.convert_to_f32_slice(wide);
        vectors::quantise_all(wide, multiplier, out);
    }
}
