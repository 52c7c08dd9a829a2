//! Between floats and the integers that the fabric aggregates.
//!
//! With the agreed exponent e and the total weight W, a member of weight w sends
//! `round(w · x · 2^(30 − e − ceil(log2 W)))`. Each is at most w · 2^(30 − ceil(log2 W)) in magnitude, so
//! their sum is at most 2^30. Rounding comes after the multiplication by w: the sum of N members is then off
//! by at most N/2 units, where w · round(x · …) would be off by up to W/2, which is 2 decimal digits worse
//! for weights that are batch sizes of a few hundred.

/// The largest total weight: one bit of each member's scale is left.
pub(crate) const MAX_TOTAL_WEIGHT: u32 = 1 << 30;

/// Bits that the magnitude of a sum may fill.
const SUM_BITS: i32 = 30;

/// 1.5 · 2^52: adding it to a small f64 leaves that number, rounded to the nearest integer (ties to even), in
/// the low bits. Unlike `round_ties_even` it compiles to vector instructions on every x86-64.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// How one slice's values become integers: the same on every member.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Binary logarithm of what values are multiplied by.
    power: i32,
}

impl Scale {
    /// For values below 2^`exponent` and a total weight of 1 to [`MAX_TOTAL_WEIGHT`].
    pub(crate) fn new(exponent: i32, total_weight: u32) -> Self {
        let weight_bits = u32::BITS - total_weight.saturating_sub(1).leading_zeros();
        Self { power: SUM_BITS - exponent - weight_bits.cast_signed() }
    }

    /// A member's multiplier: value to (unrounded) integer.
    pub(crate) fn multiplier(self, weight: u32) -> f64 {
        f64::from(weight) * power_of_two(self.power)
    }

    /// What one unit of the integers' sum is worth.
    pub(crate) fn unit(self) -> f64 {
        power_of_two(-self.power)
    }
}

/// `value` times `multiplier`, rounded to the nearest integer. The product must be within 2^31.
#[inline(always)]
pub(crate) fn quantise(value: f32, multiplier: f64) -> i32 {
    let rounded = f64::from(value) * multiplier + ROUNDER;
    (rounded.to_bits() as u32).cast_signed()
}

/// 2^`power`. Scales of f32 slices lie within ±180, well inside f64's normal range, to which it saturates.
fn power_of_two(power: i32) -> f64 {
    const BIAS: i32 = 1023;
    let biased = (power + BIAS).clamp(1, 2 * BIAS);
    f64::from_bits(u64::from(biased.cast_unsigned()) << 52)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_wire::Rank;

    use super::*;
    use crate::numbers::bound;

    #[test]
    fn powers_of_two() {
        for power in [-180, -1, 0, 1, 30, 178] {
            assert_eq!(power_of_two(power), 2f64.powi(power));
        }
    }

    #[test]
    fn the_largest_values_fill_the_range_but_do_not_leave_it() {
        let just_below_one = 1.0 - f32::EPSILON / 2.0;
        for weights in [vec![1], vec![1; 8], vec![1; 5], vec![300, 0, 77], vec![1 << 30], vec![1 << 29; 2]] {
            let total = weights.iter().sum();
            let scale = Scale::new(0, total);
            let sum: i64 =
                weights.iter().map(|&w| i64::from(quantise(just_below_one, scale.multiplier(w)))).sum();
            assert!(sum <= 1 << SUM_BITS && sum > 1 << (SUM_BITS - 2), "{weights:?}: {sum}");
        }
    }

    fn member() -> impl Strategy<Value = (f32, u32)> {
        (any::<f32>().prop_filter("finite", |x| x.is_finite()), 0u32..1000)
    }

    proptest! {
        #[test]
        fn rounding_is_to_nearest_even(value in -1.0f32..1.0, power in 0i32..30) {
            let multiplier = 2f64.powi(power);
            let expected = (f64::from(value) * multiplier).round_ties_even();
            prop_assert_eq!(f64::from(quantise(value, multiplier)), expected);
        }

        #[test]
        fn a_sum_is_within_half_a_unit_per_member(
            members in prop::collection::vec(member(), 1..20), squeeze in 0i32..200,
        ) {
            // Bring the members' magnitudes closer together: random bits differ by dozens of decades.
            let members: Vec<_> = members.iter().map(|&(x, w)| (x * 2f32.powi(-squeeze), w)).collect();
            let total: u32 = members.iter().map(|m| m.1).sum();
            let values: Vec<f32> = members.iter().map(|m| m.0).collect();
            let largest = bound::of_floats(&values, Rank::new(0));
            prop_assume!(total > 0 && largest != 0);
            let scale = Scale::new(bound::exponent(largest).unwrap(), total);
            let integers: Vec<i32> = members.iter().map(|&(x, w)| quantise(x, scale.multiplier(w))).collect();
            let forward = integers.iter().try_fold(0i32, |sum, &i| sum.checked_add(i)).expect("no overflow");
            let backward = integers.iter().rev().fold(0i32, |sum, &i| sum.wrapping_add(i));
            prop_assert_eq!(forward, backward);
            let exact: f64 = members.iter().map(|&(x, w)| f64::from(x) * f64::from(w)).sum();
            let unit = 1.0 / power_of_two(scale.power);
            let allowed = unit * (members.len() as f64 / 2.0) + exact.abs() * 2e-7;
            let sum = f64::from(forward) * unit;
            prop_assert!((sum - exact).abs() <= allowed, "{sum} for {exact}, {allowed} allowed");
            prop_assert_eq!(scale.unit().to_bits(), unit.to_bits());
        }
    }
}
