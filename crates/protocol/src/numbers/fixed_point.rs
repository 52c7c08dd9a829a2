//! Conversion between numbers and the integers that the fabric aggregates.
//!
//! With the agreed exponent e of a block and the total weight W, a member of weight w sends `round(w · x · 2^(S − e −
//! ceil(log2 W)))`, where S is 30 or 31. The magnitude of each integer is at most w · 2^(S − ceil(log2 W)), so the sum
//! of all integers fits into 32 bits. Rounding follows the multiplication by w. So the error of the sum of N members is
//! at most N/2 units. With w · round(x · …) it would be up to W/2. For weights that are batch sizes of a few hundred,
//! this is 2 decimal digits worse.
//!
//! If the unit of these integers is coarser than the finest unit that a member has requested, the block has further
//! *limbs*. A limb is an integer for the remainder that the rounding of the previous limb left. The unit of each limb
//! is finer by the factor 2^[`step`](Scale). The remainder is at most half a unit for each member, so a limb needs
//! about as many bits as the first one. If few bits are missing, the block has one further limb with only these bits,
//! and one integer carries several such limbs.

use std::num::NonZeroU8;

use super::data::ElementType;
use super::lanes::Lanes;

/// The largest total weight. It leaves one bit for each member's scale.
pub(crate) const MAX_TOTAL_WEIGHT: u32 = 1 << 30;

/// The number of bits that the magnitude of a sum may fill.
const SUM_BITS: i32 = 31;

/// The number of bits of weight up to which the first limb of f32 uses all [`SUM_BITS`].
/// Then its integers have at least as many bits as the mantissa of an f32, so no value is rounded up to the next power
/// of two. With larger weights, one bit is reserved for this rounding.
const EXACT_WEIGHT_BITS: i32 = 7;

/// The number of bits that the magnitude of a sum of paired elements may fill.
const PAIRED_SUM_BITS: i32 = 15;

/// The logarithm of [`MOST_MEMBERS`](crate::tags::MOST_MEMBERS), rounded up.
const MOST_MEMBER_BITS: i32 = 15;

/// 1.5 · 2^52, which rounds a small f64 when it is added to it.
/// The low bits of the sum are the number, rounded to the nearest integer (ties to even). Unlike `round_ties_even`, the
/// addition compiles to vector instructions on every x86-64.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The total weight and the number of members with which a block's bounds were agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Total {
    pub(crate) weight: u32,
    pub(crate) contributors: u32,
}

/// The scale of one block, which turns its values into integers. All members use the same scale.
/// It is small, because large tensors have many scales and the caches of processors are small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    /// The binary logarithm of the value of one unit of the first limb.
    first: i16,
    /// The number of bits by which each further limb is finer.
    step: u8,
    limbs: NonZeroU8,
    /// The number of bits of a second limb's sum, if several of them fit into one integer; else 0.
    field_bits: u8,
}

/// The maximum number of bits of a field, so that two fields fit into one integer.
const MOST_FIELD_BITS: i32 = 15;

impl Scale {
    /// Computes the scale from a block's agreed lanes; `None` if all values are zeros.
    #[inline]
    pub(crate) fn new(element_type: ElementType, lanes: Lanes, total: Total) -> Option<Self> {
        let scale = |first: i32, step: i32, further: u32, field_bits: i32| Self {
            first: first as i16,
            step: step as u8,
            limbs: NonZeroU8::MIN.saturating_add(further as u8),
            field_bits: field_bits as u8,
        };
        let weight_bits = log2_rounded_up(total.weight);
        // In a failed operation, the number of contributors is not verified and may be too large.
        let member_bits = log2_rounded_up(total.contributors).min(MOST_MEMBER_BITS);
        let step = SUM_BITS - member_bits;
        if element_type.float_exponents().is_none() {
            if lanes.bits() == 0 {
                return None;
            }
            // The last limb has the unit 1.
            let further = (lanes.bits() + weight_bits - SUM_BITS).max(0).cast_unsigned();
            let further = further.div_ceil(step.cast_unsigned());
            return Some(scale(further.cast_signed() * step, step, further, 0));
        }
        let bits = match element_type.is_paired() {
            // An element of 8 bits is below its bound by 2^7 of 2^15 units, and each member rounds by half a unit at most.
            true => PAIRED_SUM_BITS - i32::from(member_bits > PAIRED_SUM_BITS - element_type.mantissa_bits()),
            false => SUM_BITS - i32::from(!element_type.is_widened() || weight_bits > EXACT_WEIGHT_BITS),
        };
        let first = lanes.exponent()? + weight_bits - bits;
        // The error of the sum of N members is at most N / 2 units. The errors of paired elements are compared with
        // those of N additions in 16 bits, whose mean square is N / 2 times that of one rounding.
        let (coarser, finer) = match element_type.is_paired() {
            true => (member_bits / 2, 0),
            false => (0, member_bits),
        };
        let (digits, lowest) = element_type.grid();
        let by_floor = lanes.floor().map(|floor| floor - digits - finer);
        let unit = lanes.unit().map(|unit| by_floor.map_or(unit, |by_floor| unit.max(by_floor)));
        let unit = unit.map(|unit| if unit > lowest { unit + coarser } else { unit });
        let missing = unit.map_or(0, |unit| (first - unit).max(0));
        if missing == 0 {
            return Some(scale(first, step, 0, 0));
        }
        let field_bits = missing + member_bits + 1;
        if field_bits <= MOST_FIELD_BITS {
            return Some(scale(first, missing, 1, field_bits));
        }
        let further = missing.cast_unsigned().div_ceil(step.cast_unsigned());
        Some(scale(first, step, further, 0))
    }

    /// Returns the number of integers that the further limbs of `values` values take.
    pub(crate) fn further_lanes(self, values: usize) -> usize {
        match self.fields() {
            Some(fields) => values.div_ceil(fields),
            None => (self.limbs() - 1) * values,
        }
    }

    /// Returns the number of second limbs that one integer carries; `None` if it carries one only.
    fn fields(self) -> Option<usize> {
        (SUM_BITS as usize).checked_div(self.field_bits.into())
    }

    /// Returns the further limbs of `values` values, packed into the integers that travel.
    /// `limb` returns the limb with a given number (from 1) of the value at a given index.
    pub(crate) fn pack(self, values: usize, limb: impl Fn(usize, usize) -> i32) -> Vec<i32> {
        let Some(fields) = self.fields() else {
            let indices = (1..self.limbs()).flat_map(|number| (0..values).map(move |at| (number, at)));
            return indices.map(|(number, at)| limb(number, at)).collect();
        };
        let packed = |lane: usize| {
            let values = (lane * fields..((lane + 1) * fields).min(values)).rev();
            values.fold(0, |packed: i32, at| (packed << self.field_bits).wrapping_add(limb(1, at)))
        };
        (0..values.div_ceil(fields)).map(packed).collect()
    }

    /// Returns the limb `number` (from 1) of the value at index `at`, from the packed integers of all
    /// values.
    pub(crate) fn unpack(self, lanes: &[i32], values: usize, number: usize, at: usize) -> i32 {
        let lane = |lane: usize| lanes.get(lane).copied().unwrap_or_default();
        let Some(fields) = self.fields() else { return lane((number - 1) * values + at) };
        let (mut packed, unused) = (lane(at / fields), i32::BITS - u32::from(self.field_bits));
        let field = |packed: i32| packed << unused >> unused;
        for _ in 0..at % fields {
            packed = packed.wrapping_sub(field(packed)) >> self.field_bits;
        }
        field(packed)
    }

    /// Returns the number of limbs of each value: 1 for most blocks.
    pub(crate) fn limbs(self) -> usize {
        self.limbs.get().into()
    }

    /// Returns the multiplier that turns a member's value into its first limb, before rounding.
    pub(crate) fn multiplier(self, weight: u32) -> f64 {
        f64::from(weight) * power_of_two(-i32::from(self.first))
    }

    /// Returns the value of one unit of the first limb's sum.
    pub(crate) fn unit(self) -> f64 {
        power_of_two(self.first.into())
    }

    /// Returns the limbs of a number, the first limb first.
    pub(crate) fn split(self, number: Number) -> impl Iterator<Item = i32> {
        let Number { mut mantissa, exponent } = number;
        (0..i32::from(self.limbs.get())).map(move |limb| {
            let coarser = i32::from(self.first) - limb * i32::from(self.step) - exponent;
            let whole = match coarser {
                ..=0 => mantissa.checked_shl(coarser.unsigned_abs()).unwrap_or_default(),
                _ => shifted_right(mantissa, coarser.unsigned_abs()),
            };
            mantissa -= match coarser {
                ..=0 => mantissa,
                _ => whole.checked_shl(coarser.unsigned_abs()).unwrap_or_default(),
            };
            whole as i32
        })
    }

    /// Writes the limbs of the sum of several numbers to `out`, the first limb first.
    pub(crate) fn split_sum(self, numbers: impl Iterator<Item = Number>, out: &mut [i32]) {
        self.with_digits(|sums| {
            for number in numbers {
                sums.iter_mut().zip(self.split(number)).for_each(|(sum, limb)| *sum += i64::from(limb));
            }
            // As in `split`, the magnitude of each limb but the first is at most half a unit of the limb before it.
            let mut carry = 0;
            for (at, sum) in sums.iter_mut().enumerate().rev() {
                *sum += carry;
                if at > 0 {
                    carry = (*sum + (1 << self.step >> 1)) >> self.step;
                    *sum -= carry << self.step;
                }
            }
            out.iter_mut().zip(sums).for_each(|(to, limb)| *to = *limb as i32);
        });
    }

    /// Calls `work` with one zero for each limb.
    fn with_digits<R>(self, work: impl FnOnce(&mut [i64]) -> R) -> R {
        // This runs for each element, and most have few limbs. To clear an array for all possible limbs would take
        // most of the time.
        const FEW: usize = 4;
        match self.limbs() {
            limbs @ ..=FEW => work([0; FEW].get_mut(..limbs).unwrap_or_default()),
            limbs => work([0; u8::MAX as usize].get_mut(..limbs).unwrap_or_default()),
        }
    }

    /// Computes the number that the sums of all limbs represent. `sums` has the first limb first.
    pub(crate) fn join(self, sums: impl DoubleEndedIterator<Item = i32> + Clone) -> Number {
        self.with_digits(|digits| {
            // All digits except the leading digit are made non-negative. Then digits that are too small to matter can
            // be left out.
            let (mut carry, mut at) = (0, digits.len());
            for sum in sums.rev() {
                let digit = i64::from(sum) + carry;
                at = at.saturating_sub(1);
                carry = digit >> self.step;
                if let Some(to) = digits.get_mut(at) {
                    *to = if at == 0 { digit } else { digit - (carry << self.step) };
                }
            }
            self.number(digits)
        })
    }

    /// Computes the number that these digits represent. All but the first are not negative.
    fn number(self, digits: &[i64]) -> Number {
        let (leading, others) = digits.split_first().unwrap_or((&0, &[]));
        let (mut mantissa, mut exponent) = (i128::from(*leading), i32::from(self.first));
        let mut others = others.iter();
        while mantissa.unsigned_abs() >> 90 == 0
            && let Some(digit) = others.next()
        {
            mantissa = (mantissa << self.step) + i128::from(*digit);
            exponent -= i32::from(self.step);
        }
        if others.any(|digit| *digit != 0) {
            // The remaining digits are worth less than one unit. One more bit records that they are not zero.
            (mantissa, exponent) = ((mantissa << 1) + 1, exponent - 1);
        }
        Number { mantissa, exponent }
    }
}

/// The number mantissa · 2^exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    mantissa: i128,
    exponent: i32,
}

impl Number {
    /// Returns an integer times a weight.
    pub(crate) fn integer(value: i64, weight: u32) -> Self {
        Self { mantissa: i128::from(value) * i128::from(weight), exponent: 0 }
    }

    /// Returns the sum of integers times their factors. Up to 2^31 terms fit.
    pub(crate) fn sum_of_integers(terms: impl Iterator<Item = (i64, u32)>) -> Self {
        let products = terms.map(|(value, factor)| i128::from(value) * i128::from(factor));
        Self { mantissa: products.sum(), exponent: 0 }
    }

    /// Returns a float times a weight; 0 if the float is not finite.
    pub(crate) fn float(value: f64, weight: u32) -> Self {
        if !value.is_finite() {
            return Self::integer(0, 0);
        }
        let (bits, fraction) = (value.to_bits(), value.to_bits() & ((1 << 52) - 1));
        let (mantissa, exponent) = match (bits >> 52 & 0x7ff) as i32 {
            0 => (fraction, -1074),
            biased => (fraction | 1 << 52, biased - 1075),
        };
        let mantissa = i128::from(mantissa) * i128::from(weight);
        Self { mantissa: if value < 0.0 { -mantissa } else { mantissa }, exponent }
    }

    /// Returns the nearest f64 (ties to even).
    pub(crate) fn to_f64(self) -> f64 {
        self.rounded(53, -1074)
    }

    /// Returns the nearest f32 (ties to even).
    pub(crate) fn to_f32(self) -> f32 {
        // The number has at most the bits of an f32, so the conversion is exact, except that the number may be too
        // large.
        self.rounded(24, -149) as f32
    }

    /// Returns the number as an i64; `None` if it does not fit.
    pub(crate) fn to_i64(self) -> Option<i64> {
        // The last limb of integers has the unit 1.
        (self.exponent == 0).then(|| i64::try_from(self.mantissa).ok()).flatten()
    }

    /// Returns the nearest number of `bits` bits that is a multiple of 2^`lowest`.
    fn rounded(self, bits: i32, lowest: i32) -> f64 {
        let magnitude = self.mantissa.unsigned_abs();
        let len = (u128::BITS - magnitude.leading_zeros()).cast_signed();
        let left_out = (len - bits).max(lowest - self.exponent).max(0).cast_unsigned();
        // The number is at most 2^53, so the conversion is exact.
        let whole = shifted_right(magnitude.cast_signed(), left_out) as f64;
        let exponent = self.exponent + left_out.cast_signed();
        // Two steps, because the power alone may be out of f64's range. Both are exact.
        let magnitude = whole * power_of_two(exponent / 2) * power_of_two(exponent - exponent / 2);
        if self.mantissa < 0 { -magnitude } else { magnitude }
    }
}

/// Returns number / 2^`by`, rounded to the nearest integer (ties to even).
fn shifted_right(number: i128, by: u32) -> i128 {
    if by >= i128::BITS {
        return 0;
    }
    if by == 0 {
        return number;
    }
    let (whole, half) = (number >> by, 1_i128 << (by - 1));
    let rest = number & (half | (half - 1));
    let is_up = rest > half || (rest == half && whole & 1 == 1);
    whole + i128::from(is_up)
}

/// Returns `value` times `multiplier`, rounded to the nearest integer.
/// The magnitude of the product must be at most 2^31.
#[inline(always)]
pub(crate) fn quantise(value: f32, multiplier: f64) -> i32 {
    quantise_wide(value.into(), multiplier)
}

/// Converts a value as [`quantise`] does.
#[inline(always)]
pub(crate) fn quantise_wide(value: f64, multiplier: f64) -> i32 {
    let rounded = value * multiplier + ROUNDER;
    (rounded.to_bits() as u32).cast_signed()
}

/// Returns the binary logarithm of a number, rounded up; 0 for 0.
fn log2_rounded_up(number: u32) -> i32 {
    (u32::BITS - number.saturating_sub(1).leading_zeros()).cast_signed()
}

/// Returns 2^`power`, saturated to f64's normal range. Units of f32 are within 2^±200.
fn power_of_two(power: i32) -> f64 {
    const BIAS: i32 = 1023;
    let biased = (power + BIAS).clamp(1, 2 * BIAS);
    f64::from_bits(u64::from(biased.cast_unsigned()) << 52)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;
    use tributary_wire::Rank;

    use super::*;
    use crate::numbers::bound::Bound;

    /// Returns the lanes that members with these bounds and weights agree on.
    fn agreed(element_type: ElementType, bounds: impl IntoIterator<Item = (Bound, u32)>) -> Lanes {
        let lanes = bounds.into_iter().filter(|(_, weight)| *weight > 0);
        lanes.fold(Lanes::default(), |agreed, (bound, weight)| {
            let lanes = bound.lanes(element_type, Rank::new(0), weight);
            Lanes {
                top: agreed.top.max(lanes.top),
                fine: agreed.fine.max(lanes.fine),
                floor: agreed.floor.max(lanes.floor),
            }
        })
    }

    /// Returns the scale of a block with one element.
    /// `members` has the value and the weight of each member.
    fn scale_of(element_type: ElementType, members: &[(f32, u32)]) -> Option<Scale> {
        let bounds = members.iter().map(|(x, w)| (Bound::of_floats(element_type, &[*x]), *w));
        let weight = members.iter().map(|member| member.1).sum();
        Scale::new(
            element_type,
            agreed(element_type, bounds),
            Total { weight, contributors: members.len() as u32 },
        )
    }

    /// Returns the sums of all limbs. Each must fit into 32 bits.
    fn sums(scale: Scale, members: &[(f32, u32)]) -> Vec<i32> {
        let mut sums = vec![0_i64; scale.limbs()];
        for (x, w) in members {
            let product = f64::from(*x) * f64::from(*w);
            let limbs = scale.split(Number::float(product, 1));
            sums.iter_mut().zip(limbs).for_each(|(sum, limb)| *sum += i64::from(limb));
        }
        sums.into_iter().map(|sum| i32::try_from(sum).expect("a sum left 32 bits")).collect()
    }

    #[test]
    fn the_largest_values_fill_the_range_but_do_not_leave_it() {
        let just_below_one = 1.0 - f32::EPSILON / 2.0;
        for weights in
            [vec![1], vec![1; 8], vec![1; 5], vec![300, 0, 77], vec![1 << 30], vec![1 << 29; 2], vec![1; 256]]
        {
            let members: Vec<_> = weights.iter().map(|w| (just_below_one, *w)).collect();
            let scale = scale_of(ElementType::F32, &members).unwrap();
            let sum = sums(scale, &members)[0];
            assert!(sum > 1 << (SUM_BITS - 3), "{weights:?}: {sum}");
            for (x, w) in members {
                let fast = quantise(x, scale.multiplier(w));
                assert_eq!(Some(fast), scale.split(Number::float(f64::from(x) * f64::from(w), 1)).next());
            }
        }
    }

    fn member() -> impl Strategy<Value = (f32, u32)> {
        let value =
            prop_oneof![any::<f32>(), Just(f32::MAX), Just(1e-45_f32), (0u32..3).prop_map(f32::from_bits)];
        (value.prop_filter("finite", |x| x.is_finite()), prop_oneof![Just(1), 0u32..1000])
    }

    proptest! {
        #[test]
        fn packed_limbs_are_added_up_as_single_ones(
            values in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 130), 1..70), bits in 1..8,
        ) {
            // The smallest value needs this number of bits more than one integer has.
            let members: Vec<(f32, u32)> = values.iter().map(|_| (1.0, 1)).collect();
            let one = scale_of(ElementType::F32, &members).unwrap();
            let least = 2f32.powi(i32::from(one.first) + 11 - bits);
            let bounds = values.iter().map(|_| (Bound::of_floats(ElementType::F32, &[1.0, least, 0.0]), 1));
            let total = Total { weight: values.len() as u32, contributors: values.len() as u32 };
            let scale = Scale::new(ElementType::F32, agreed(ElementType::F32, bounds), total).unwrap();
            let limb = |member: &Vec<f32>, number: usize, at: usize| {
                scale.split(Number::float(member[at].into(), 1)).nth(number).unwrap()
            };
            let mut sums = vec![0_i64; scale.further_lanes(130)];
            for member in &values {
                let lanes = scale.pack(130, |number, at| limb(member, number, at));
                sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += i64::from(lane));
            }
            let sums: Vec<i32> = sums.into_iter().map(|sum| i32::try_from(sum).expect("a sum left 32 bits")).collect();
            for number in 1..scale.limbs() {
                for at in 0..130 {
                    let expected: i32 = values.iter().map(|member| limb(member, number, at)).sum();
                    prop_assert_eq!(scale.unpack(&sums, 130, number, at), expected);
                }
            }
            prop_assert_eq!(scale.further_lanes(130) < 130, bits + log2_rounded_up(total.contributors) < MOST_FIELD_BITS);
        }

        #[test]
        fn any_lanes_have_a_scale_that_numbers_can_be_split_by(
            [top, fine, floor] in any::<[u32; 3]>(), weight in 1..=MAX_TOTAL_WEIGHT, contributors in any::<u32>(),
            double in any::<f64>(), sums in prop::collection::vec(any::<i32>(), 255),
        ) {
            for element_type in [ElementType::F32, ElementType::F32Exact, ElementType::F64, ElementType::I32, ElementType::I64] {
                let total = Total { weight, contributors };
                let Some(scale) = Scale::new(element_type, Lanes { top, fine, floor }, total) else { continue };
                prop_assert_eq!(scale.split(Number::float(double, weight)).count(), scale.limbs());
                let limb = |number: usize, at: usize| sums[(number + at) % sums.len()];
                let lanes = scale.pack(9, limb);
                prop_assert_eq!(lanes.len(), scale.further_lanes(9));
                (1..scale.limbs()).for_each(|number| _ = black_box(scale.unpack(&lanes, 9, number, 8)));
                let number = scale.join(sums.iter().copied().take(scale.limbs()));
                black_box((number.to_f64(), number.to_f32(), number.to_i64()));
            }
        }

        #[test]
        fn rounding_is_to_nearest_even(value in -1.0f32..1.0, power in 0i32..30, number in any::<i64>(), by in 0u32..62) {
            let multiplier = 2f64.powi(power);
            let expected = (f64::from(value) * multiplier).round_ties_even();
            prop_assert_eq!(f64::from(quantise(value, multiplier)), expected);
            let number = number >> 11;
            let expected = (number as f64 / 2f64.powi(by as i32)).round_ties_even();
            prop_assert_eq!(shifted_right(number.into(), by) as f64, expected);
        }

        #[test]
        fn one_member_gets_its_floats_back(value in any::<f32>(), double in any::<f64>()) {
            prop_assume!(value.is_finite() && double.is_finite());
            prop_assert_eq!(Number::float(value.into(), 1).to_f32(), value);
            prop_assert_eq!(Number::float(double, 1).to_f64(), double);
            prop_assert_eq!(Number::float(double, 1).to_f32(), double as f32);
        }

        #[test]
        fn sums_of_f32_keep_twelve_bits_of_each_element(members in prop::collection::vec(member(), 1..20), squeeze in 0i32..200) {
            let members: Vec<_> = members.iter().map(|&(x, w)| (x * 2f32.powi(-squeeze), w)).collect();
            let magnitude: f64 = members.iter().map(|&(x, w)| f64::from(x).abs() * f64::from(w)).sum();
            prop_assume!(magnitude < f32::MAX.into());
            let exact: f64 = members.iter().map(|&(x, w)| f64::from(x) * f64::from(w)).sum();
            for (element_type, bits) in [(ElementType::F32, 12), (ElementType::F32Exact, 24)] {
                let sum = scale_of(element_type, &members)
                    .map_or(0.0, |scale| scale.join(sums(scale, &members).into_iter()).to_f32());
                // The reference sum in f64 is rounded, too.
                let allowed = magnitude * (2f64.powi(-bits) + 2f64.powi(-48)) + 2f64.powi(-150);
                prop_assert!((f64::from(sum) - exact).abs() <= allowed, "{sum} for {exact}, {allowed} allowed");
            }
        }

        #[test]
        fn sums_of_integers_are_exact(members in prop::collection::vec((any::<i64>(), 0_u32..1000), 1..20), shift in 0..64) {
            let members: Vec<(i64, u32)> = members.into_iter().map(|(x, w)| (x >> shift, w)).collect();
            let bounds = members.iter().map(|(x, w)| (Bound::of_magnitude(x.unsigned_abs()), *w));
            let (lanes, weight) = (agreed(ElementType::I64, bounds), members.iter().map(|member| member.1).sum());
            let exact: i128 = members.iter().map(|(x, w)| i128::from(*x) * i128::from(*w)).sum();
            let total = Total { weight, contributors: members.len() as u32 };
            let Some(scale) = Scale::new(ElementType::I64, lanes, total) else {
                prop_assert_eq!(exact, 0);
                return Ok(());
            };
            let mut sums = vec![0_i64; scale.limbs()];
            for (x, w) in members {
                sums.iter_mut().zip(scale.split(Number::integer(x, w))).for_each(|(sum, limb)| *sum += i64::from(limb));
            }
            let sums = sums.into_iter().map(|sum| i32::try_from(sum).expect("a sum left 32 bits"));
            prop_assert_eq!(scale.join(sums.collect::<Vec<_>>().into_iter()).to_i64(), i64::try_from(exact).ok());
        }
    }
}
