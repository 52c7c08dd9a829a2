//! The elements of one all-reduce: this member's contribution, which the sums replace.
//!
//! The sums of a slice overwrite the contribution to it, because no member needs the contribution once the slice has a
//! result. So an all-reduce needs no second vector, which for a large tensor would cost more time than the additions.

use std::collections::TryReserveError;
use std::ops::Range;

use tributary_wire::values::read;
use tributary_wire::{SliceWidth, ValuesView};

use super::bound::Bound;
use super::data::{ElementType, Part, Sums, filled};
use super::fixed_point::{Number, Scale};
use super::prefetch::prefetch;
use super::vectors;

/// The maximum number of blocks in a slice.
const MOST_BLOCKS: usize = SliceWidth::WIDEST.blocks_of_values();

/// An error: a sum does not fit into the type of its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DoesNotFit;

/// All elements of an operation at one participant.
#[derive(Debug, Clone)]
pub(crate) struct Elements {
    element_type: ElementType,
    /// The sums of blocks that have a result. The other blocks hold the first part of the contribution.
    sums: Sums,
    /// The factor of the first part.
    factor: u32,
    /// The other parts of the contribution, with their factors.
    further: Vec<(Sums, u32)>,
}

impl Elements {
    /// Returns the number of bytes of `len` elements.
    pub(crate) fn memory(element_type: ElementType, len: usize) -> u64 {
        (len as u64).saturating_mul(element_type.sum_bytes() as u64)
    }

    /// Takes the elements of a contribution. All parts must have equal types and lengths.
    pub(crate) fn contributed(first: Part, further: Vec<Part>) -> Self {
        // A part without weight contributes nothing, not even NaN.
        let further = further.into_iter().filter(|part| part.factor > 0);
        Self {
            element_type: first.data.element_type(),
            sums: first.data.into_values(),
            factor: first.factor,
            further: further.map(|part| (part.data.into_values(), part.factor)).collect(),
        }
    }

    /// Returns the parts that have a weight, with their factors.
    fn parts(&self) -> impl Iterator<Item = (&Sums, u32)> {
        let first = (self.factor > 0).then_some((&self.sums, self.factor));
        first.into_iter().chain(self.further.iter().map(|(values, factor)| (values, *factor)))
    }

    /// Allocates the memory for the sums of an operation that is only read.
    ///
    /// # Errors
    /// [`TryReserveError`] if the allocation fails.
    pub(crate) fn awaited(element_type: ElementType, len: usize) -> Result<Self, TryReserveError> {
        let sums = match element_type {
            ElementType::I32 => Sums::I32(filled(0, len)?),
            ElementType::I64 => Sums::I64(filled(0, len)?),
            ElementType::F64 => Sums::F64(filled(0.0, len)?),
            ElementType::F32
            | ElementType::F16
            | ElementType::BF16
            | ElementType::F32Exact
            | ElementType::F16Paired
            | ElementType::BF16Paired => Sums::F32(filled(0.0, len)?),
        };
        Ok(Self { element_type, sums, factor: 0, further: Vec::new() })
    }

    /// Writes the [bound](Bound) of each block of the elements in `range` to `out`, for a contribution of
    /// the total `weight`. None of the elements may have a result.
    pub(crate) fn write_bounds(
        &self,
        range: Range<usize>,
        weight: u32,
        width: SliceWidth,
        out: &mut [Bound],
    ) {
        let (element_type, block) = (self.element_type, self.element_type.elements_in_block(width));
        let mut add = |factor: u32, values: &Sums| {
            fn write<T>(values: &[T], block: usize, out: &mut [Bound], bound: impl Fn(&[T]) -> Bound) {
                out.iter_mut()
                    .zip(values.chunks(block))
                    .for_each(|(out, values)| *out = out.joined(bound(values)));
            }
            let part_of = |bound: Bound| bound.of_part(element_type, factor, weight);
            let range = range.clone();
            match values {
                Sums::F32(values) => write(part(values, range), block, out, |block| {
                    part_of(Bound::of_floats(element_type, block))
                }),
                Sums::F64(values) => write(part(values, range), block, out, |block| {
                    part_of(Bound::of_doubles(element_type, block))
                }),
                Sums::I32(values) => {
                    write(part(values, range), block, out, |block| part_of(Bound::of_integers(block)));
                }
                Sums::I64(values) => {
                    write(part(values, range), block, out, |block| part_of(Bound::of_long_integers(block)));
                }
            }
        };
        self.parts().for_each(|(values, factor)| add(factor, values));
    }

    /// Writes the values of a SUM slice, with the first limbs of the elements in `range`, to `out`.
    /// Zeros follow behind them.
    /// `range` is a slice without a result. `scales` are the scales of its blocks, which have `block` elements each. If
    /// `not_finite` is true, the elements may include NaN and infinities, which this function leaves out.
    pub(crate) fn write(
        &self,
        range: Range<usize>,
        not_finite: bool,
        (block, scales): (usize, &[Option<Scale>]),
        out: &mut [i32],
    ) {
        if !self.element_type.is_paired() {
            return self.write_first_limbs(range, not_finite, (block, scales), out);
        }
        let mut limbs = [0; 2 * SliceWidth::WIDEST.values()];
        let limbs = limbs.get_mut(..2 * out.len()).unwrap_or_default();
        self.write_first_limbs(range, not_finite, (block, scales), limbs);
        vectors::pair_all(limbs, block, out);
    }

    /// Writes the first limbs of the elements in `range` to `out`, and zeros behind them.
    /// The arguments are those of [`write`](Self::write).
    fn write_first_limbs(
        &self,
        range: Range<usize>,
        not_finite: bool,
        (block, scales): (usize, &[Option<Scale>]),
        out: &mut [i32],
    ) {
        // Slices are sent in order, so the elements behind `range` are needed next.
        let (len, next) = (range.len(), range.end..range.end + range.len());
        let is_single = self.further.is_empty();
        let has_one_limb = || scales.iter().flatten().all(|scale| scale.limbs() == 1);
        match &self.sums {
            Sums::F32(values) if !not_finite && is_single => {
                let multipliers = per_block(scales, |scale| scale.multiplier(self.factor));
                let values = (part(values, range), part(values, next));
                vectors::quantise_all(values, (block, &multipliers), out);
            }
            // With one limb, all values are small multiples of its unit, so that their sums are exact in f64.
            Sums::F32(_) if !not_finite && (self.element_type.is_rounded() || has_one_limb()) => {
                let multipliers = per_block(scales, |scale| scale.multiplier(1));
                let parts: Vec<_> = self
                    .parts()
                    .map(|(values, factor)| match values {
                        Sums::F32(values) => (part(values, range.clone()), f64::from(factor)),
                        Sums::F64(_) | Sums::I32(_) | Sums::I64(_) => (&[][..], 0.0),
                    })
                    .collect();
                vectors::quantise_sums(&parts, (block, &multipliers), out);
            }
            Sums::I32(values) if is_single && has_one_limb() => {
                vectors::weigh_all(part(values, range), self.factor.cast_signed(), out);
                prefetch(part(values, next));
            }
            _ => {
                for ((at, element), out) in range.enumerate().zip(out.iter_mut()) {
                    let scale = scales.get(at / block).copied().flatten();
                    *out = scale.map_or(0, |scale| self.first_limb(element, scale));
                }
            }
        }
        out.get_mut(len..).unwrap_or_default().fill(0);
    }

    /// Writes the words of a broadcast in `range`, and zeros behind them, to `out`.
    pub(crate) fn write_words(&self, range: Range<usize>, out: &mut [i32]) {
        let words = match &self.sums {
            Sums::I32(words) => part(words, range),
            Sums::F32(_) | Sums::F64(_) | Sums::I64(_) => &[],
        };
        out.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        out.get_mut(words.len()..).unwrap_or_default().fill(0);
    }

    /// Stores the words of a broadcast in `range`.
    pub(crate) fn finish_words(&mut self, range: Range<usize>, words: ValuesView<'_>) {
        if let Sums::I32(to) = &mut self.sums {
            read(words, to.get_mut(range).unwrap_or_default());
        }
    }

    /// Prefetches the elements in `range` into the processor's cache.
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        match &self.sums {
            Sums::F32(values) => prefetch(part(values, range)),
            Sums::F64(values) => prefetch(part(values, range)),
            Sums::I32(values) => prefetch(part(values, range)),
            Sums::I64(values) => prefetch(part(values, range)),
        }
    }

    /// Writes the limbs of an element that has no result yet, the first limb first.
    pub(crate) fn write_limbs(&self, element: usize, scale: Scale, out: &mut [i32]) {
        match self.number(element) {
            Some(number) => out.iter_mut().zip(scale.split(number)).for_each(|(to, limb)| *to = limb),
            None => {
                let numbers = self.parts().map(|(values, factor)| number(values, element, factor));
                scale.split_sum(numbers, out);
            }
        }
    }

    fn first_limb(&self, element: usize, scale: Scale) -> i32 {
        let mut first = [0];
        self.write_limbs(element, scale, &mut first);
        first[0]
    }

    /// Returns the weighted sum of an element's parts, if one [`Number`] holds it; values that are not
    /// finite count as 0. The element must not have a result yet.
    fn number(&self, element: usize) -> Option<Number> {
        if self.further.is_empty() {
            return Some(number(&self.sums, element, self.factor));
        }
        match &self.sums {
            // These sums may be rounded.
            Sums::F32(_) if self.element_type.is_rounded() => {
                let terms = self.parts().map(|(values, factor)| match values {
                    Sums::F32(values) => f64::from(at(values, element)) * f64::from(factor),
                    Sums::F64(_) | Sums::I32(_) | Sums::I64(_) => 0.0,
                });
                Some(Number::float(terms.filter(|term| term.is_finite()).sum(), 1))
            }
            Sums::F32(_) | Sums::F64(_) => None,
            Sums::I32(_) | Sums::I64(_) => {
                Some(Number::sum_of_integers(self.parts().map(|(values, factor)| match values {
                    Sums::I32(values) => (at(values, element).into(), factor),
                    Sums::I64(values) => (at(values, element), factor),
                    Sums::F32(_) | Sums::F64(_) => (0, 0),
                })))
            }
        }
    }

    /// Returns the [class](Class) of an element that has no result yet.
    pub(crate) fn class(&self, element: usize) -> Class {
        let class = |values: &Sums| match values {
            Sums::F32(values) => Class::of(at(values, element).into()),
            Sums::F64(values) => Class::of(at(values, element)),
            Sums::I32(_) | Sums::I64(_) => Class::FINITE,
        };
        self.parts().fold(Class::FINITE, |all, (values, _)| Class(all.0 | class(values).0))
    }

    /// Stores the sums of the slice with the elements in `range`.
    /// Each of its blocks must have a single limb, or contain only zeros (`None`).
    pub(crate) fn finish_slice(
        &mut self,
        range: Range<usize>,
        (block, scales): (usize, &[Option<Scale>]),
        integers: ValuesView<'_>,
    ) {
        match &mut self.sums {
            Sums::I32(sums) => {
                read(integers, sums.get_mut(range).unwrap_or_default());
            }
            Sums::I64(sums) => {
                let sums = sums.get_mut(range).unwrap_or_default();
                sums.iter_mut().zip(integers.iter()).for_each(|(sum, integer)| *sum = integer.into());
            }
            Sums::F32(sums) => {
                let (units, sums) = (per_block(scales, Scale::unit), sums.get_mut(range).unwrap_or_default());
                match self.element_type.is_paired() {
                    true => vectors::restore_pairs(integers, (block, &units), sums),
                    false => vectors::restore_all(integers, (block, &units), sums),
                }
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

    /// Stores the sum of one element.
    /// It follows from the sums of its limbs, or from its NaNs and infinities.
    ///
    /// # Errors
    /// [`DoesNotFit`] if the sum does not fit into the element's type. The element then has an arbitrary value.
    pub(crate) fn finish(
        &mut self,
        element: usize,
        scale: Option<Scale>,
        limbs: impl DoubleEndedIterator<Item = i32> + Clone,
        class: Class,
    ) -> Result<(), DoesNotFit> {
        let number = scale.map_or(Number::integer(0, 0), |scale| scale.join(limbs));
        let special = class.value();
        match &mut self.sums {
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

    /// Returns the sums. All blocks must have results.
    pub(crate) fn into_sums(self) -> Sums {
        self.sums
    }
}

/// Returns an element times a factor; 0 if it is not finite.
fn number(values: &Sums, element: usize, factor: u32) -> Number {
    match values {
        // The product is rounded to f64, like the product from which the first limb is made.
        Sums::F32(values) => Number::float(f64::from(factor) * f64::from(at(values, element)), 1),
        Sums::F64(values) => Number::float(at(values, element), factor),
        Sums::I32(values) => Number::integer(at(values, element).into(), factor),
        Sums::I64(values) => Number::integer(at(values, element), factor),
    }
}

/// For one element, the number of members with +infinity or NaN, and the number of members with
/// −infinity or NaN.
/// The two numbers are the halves of one integer, so that the fabric can add both at once.
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

    /// Returns the sum of the values, if at least one of them is not finite.
    fn value(self) -> Option<f64> {
        match (self.0 as u16 > 0, self.0.cast_unsigned() >= Self::NEGATIVE.cast_unsigned()) {
            (false, false) => None,
            (true, false) => Some(f64::INFINITY),
            (false, true) => Some(f64::NEG_INFINITY),
            (true, true) => Some(f64::NAN),
        }
    }
}

/// Returns a number for each block of a slice; 0 for a block of zeros.
fn per_block(scales: &[Option<Scale>], number: impl Fn(Scale) -> f64) -> [f64; MOST_BLOCKS] {
    let mut numbers = [0.0; MOST_BLOCKS];
    numbers.iter_mut().zip(scales).for_each(|(to, scale)| *to = scale.map_or(0.0, &number));
    numbers
}

/// Returns the elements in `range`; none if the range ends behind the last element.
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
