//! The elements of one all-reduce: this member's contribution, and in its place the sums.
//!
//! A slice's sums overwrite the contribution to it, which no member requests again once the slice is done. So an
//! all-reduce needs no second vector, which for a large tensor would cost more time than the additions.

use std::collections::TryReserveError;
use std::ops::Range;

use tributary_wire::values::read;
use tributary_wire::{SliceWidth, ValuesView};

use super::bound::Bound;
use super::data::{ElementType, GradientData, Sums, filled};
use super::fixed_point::{Number, Scale};
use super::prefetch::prefetch;
use super::vectors;

/// The most blocks in a slice.
const MOST_BLOCKS: usize = SliceWidth::WIDEST.blocks_of_values();

/// A sum does not fit into its element's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DoesNotFit;

/// All elements of an operation at one participant: the sums of the blocks that are done, and its
/// contribution to the others.
#[derive(Debug, Clone)]
pub(crate) struct Elements(Sums);

impl Elements {
    /// The number of bytes of `len` elements.
    pub(crate) fn memory(element_type: ElementType, len: usize) -> u64 {
        (len as u64).saturating_mul(element_type.sum_bytes() as u64)
    }

    /// The elements of a contribution.
    pub(crate) fn contributed(data: GradientData) -> Self {
        Self(match data {
            GradientData::F32(values)
            | GradientData::F16(values)
            | GradientData::BF16(values)
            | GradientData::F32Exact(values) => Sums::F32(values),
            GradientData::F64(values) => Sums::F64(values),
            GradientData::I32(values) => Sums::I32(values),
            GradientData::I64(values) => Sums::I64(values),
        })
    }

    /// Room for the sums of an operation that is only read.
    ///
    /// # Errors
    /// The system does not give the memory for them.
    pub(crate) fn awaited(element_type: ElementType, len: usize) -> Result<Self, TryReserveError> {
        Ok(Self(match element_type {
            ElementType::I32 => Sums::I32(filled(0, len)?),
            ElementType::I64 => Sums::I64(filled(0, len)?),
            ElementType::F64 => Sums::F64(filled(0.0, len)?),
            ElementType::F32 | ElementType::F16 | ElementType::BF16 | ElementType::F32Exact => {
                Sums::F32(filled(0.0, len)?)
            }
        }))
    }

    /// Writes the [bound](Bound) of each block of the elements in `range`, none of which is done, to `out`.
    pub(crate) fn write_bounds(
        &self,
        range: Range<usize>,
        element_type: ElementType,
        width: SliceWidth,
        out: &mut [Bound],
    ) {
        fn write<T>(values: &[T], block: usize, out: &mut [Bound], bound: impl Fn(&[T]) -> Bound) {
            out.iter_mut().zip(values.chunks(block)).for_each(|(out, values)| *out = bound(values));
        }
        let block = width.values_in_block();
        match &self.0 {
            Sums::F32(values) => {
                write(part(values, range), block, out, |block| Bound::of_floats(element_type, block));
            }
            Sums::F64(values) => {
                write(part(values, range), block, out, |block| Bound::of_doubles(element_type, block));
            }
            Sums::I32(values) => write(part(values, range), block, out, Bound::of_integers),
            Sums::I64(values) => write(part(values, range), block, out, Bound::of_long_integers),
        }
    }

    /// Writes the first limbs of the elements in `range`, a slice that is not done, to `out`, and zeros
    /// behind them. `scales` are those of the slice's blocks, each of `block` elements. With `not_finite`, NaN and
    /// infinities may be among the elements, and are left out.
    pub(crate) fn write(
        &self,
        range: Range<usize>,
        (weight, not_finite): (u32, bool),
        (block, scales): (usize, &[Option<Scale>]),
        out: &mut [i32],
    ) {
        // Slices are sent in their order.
        let (len, next) = (range.len(), range.end..range.end + range.len());
        match &self.0 {
            Sums::F32(values) if !not_finite => {
                let multipliers = per_block(scales, |scale| scale.multiplier(weight));
                let values = (part(values, range), part(values, next));
                vectors::quantise_all(values, (block, &multipliers), out);
            }
            Sums::I32(values) if scales.iter().flatten().all(|scale| scale.limbs() == 1) => {
                vectors::weigh_all(part(values, range), weight.cast_signed(), out);
                prefetch(part(values, next));
            }
            _ => {
                for ((at, element), out) in range.enumerate().zip(out.iter_mut()) {
                    let scale = scales.get(at / block).copied().flatten();
                    *out =
                        scale.and_then(|scale| scale.split(self.number(element, weight)).next()).unwrap_or(0);
                }
            }
        }
        out.get_mut(len..).unwrap_or_default().fill(0);
    }

    /// Lets the processor fetch the elements in `range`.
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        match &self.0 {
            Sums::F32(values) => prefetch(part(values, range)),
            Sums::F64(values) => prefetch(part(values, range)),
            Sums::I32(values) => prefetch(part(values, range)),
            Sums::I64(values) => prefetch(part(values, range)),
        }
    }

    /// The limbs of an element that is not done.
    pub(crate) fn limbs(&self, element: usize, weight: u32, scale: Scale) -> impl Iterator<Item = i32> {
        scale.split(self.number(element, weight))
    }

    /// An element that is not done, times its weight; 0 if it is not finite.
    fn number(&self, element: usize, weight: u32) -> Number {
        match &self.0 {
            // Rounded as for the first limb.
            Sums::F32(values) => Number::float(f64::from(weight) * f64::from(at(values, element)), 1),
            Sums::F64(values) => Number::float(at(values, element), weight),
            Sums::I32(values) => Number::integer(at(values, element).into(), weight),
            Sums::I64(values) => Number::integer(at(values, element), weight),
        }
    }

    /// The [class](Class) of an element that is not done.
    pub(crate) fn class(&self, element: usize) -> Class {
        match &self.0 {
            Sums::F32(values) => Class::of(at(values, element).into()),
            Sums::F64(values) => Class::of(at(values, element)),
            Sums::I32(_) | Sums::I64(_) => Class::FINITE,
        }
    }

    /// Puts the sums of a slice with the elements in `range` into their place.
    /// All of its blocks have a single limb, or nothing but zeros (`None`).
    pub(crate) fn finish_slice(
        &mut self,
        range: Range<usize>,
        (block, scales): (usize, &[Option<Scale>]),
        integers: ValuesView<'_>,
    ) {
        match &mut self.0 {
            Sums::I32(sums) => {
                read(integers, sums.get_mut(range).unwrap_or_default());
            }
            Sums::I64(sums) => {
                let sums = sums.get_mut(range).unwrap_or_default();
                sums.iter_mut().zip(integers.iter()).for_each(|(sum, integer)| *sum = integer.into());
            }
            Sums::F32(sums) => {
                let units = per_block(scales, Scale::unit);
                vectors::restore_all(integers, (block, &units), sums.get_mut(range).unwrap_or_default());
            }
            Sums::F64(sums) => {
                let sums = sums.get_mut(range).unwrap_or_default();
                for ((at, sum), integer) in sums.iter_mut().enumerate().zip(integers.iter()) {
                    let scale = scales.get(at / block).copied().flatten();
                    *sum = scale.map_or(0.0, |scale| scale.join(std::iter::once(integer)).to_f64());
                }
            }
        }
    }

    /// Puts the sum of one element into its place: what its limbs' sums stand for, or what NaN and
    /// infinities make of it.
    ///
    /// # Errors
    /// It does not fit; the element is then arbitrary.
    pub(crate) fn finish(
        &mut self,
        element: usize,
        scale: Option<Scale>,
        limbs: impl DoubleEndedIterator<Item = i32> + Clone,
        class: Class,
    ) -> Result<(), DoesNotFit> {
        let number = scale.map_or(Number::integer(0, 0), |scale| scale.join(limbs));
        let special = class.value();
        match &mut self.0 {
            Sums::F32(sums) => {
                put(sums, element, special.map_or_else(|| number.to_f32(), |value| value as f32));
            }
            Sums::F64(sums) => put(sums, element, special.unwrap_or_else(|| number.to_f64())),
            Sums::I32(sums) => {
                let sum = number.to_i64().and_then(|sum| i32::try_from(sum).ok());
                put(sums, element, sum.ok_or(DoesNotFit)?);
            }
            Sums::I64(sums) => put(sums, element, number.to_i64().ok_or(DoesNotFit)?),
        }
        Ok(())
    }

    /// The sums, once all blocks are done.
    pub(crate) fn into_sums(self) -> Sums {
        self.0
    }
}

/// Numbers of members whose value of one element is +infinity or NaN, and −infinity or NaN: in the
/// halves of one integer, so that the fabric adds up both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(pub(crate) i32);

impl Class {
    /// All values are finite.
    pub(crate) const FINITE: Self = Self(0);
    const POSITIVE: i32 = 1;
    const NEGATIVE: i32 = 1 << 16;

    fn of(value: f64) -> Self {
        Self(match value {
            _ if value.is_nan() => Self::POSITIVE | Self::NEGATIVE,
            f64::INFINITY => Self::POSITIVE,
            f64::NEG_INFINITY => Self::NEGATIVE,
            _ => 0,
        })
    }

    /// The sum of such values, if one is not finite.
    fn value(self) -> Option<f64> {
        match (self.0 as u16 > 0, self.0.cast_unsigned() >= Self::NEGATIVE.cast_unsigned()) {
            (false, false) => None,
            (true, false) => Some(f64::INFINITY),
            (false, true) => Some(f64::NEG_INFINITY),
            (true, true) => Some(f64::NAN),
        }
    }
}

/// A number for each block of a slice; 0 for a block of zeros.
fn per_block(scales: &[Option<Scale>], number: impl Fn(Scale) -> f64) -> [f64; MOST_BLOCKS] {
    let mut numbers = [0.0; MOST_BLOCKS];
    numbers.iter_mut().zip(scales).for_each(|(to, scale)| *to = scale.map_or(0.0, &number));
    numbers
}

/// The elements in `range`, or none where it goes beyond the last.
fn part<T>(values: &[T], range: Range<usize>) -> &[T] {
    values.get(range).unwrap_or_default()
}

fn at<T: Copy + Default>(values: &[T], element: usize) -> T {
    values.get(element).copied().unwrap_or_default()
}

fn put<T>(sums: &mut [T], element: usize, sum: T) {
    if let Some(to) = sums.get_mut(element) {
        *to = sum;
    }
}
