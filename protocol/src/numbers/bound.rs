//! What MAX slices carry: for each SUM slice, how large one member's values are. Unsigned 31-bit numbers,
//! of which the fabric finds the largest.
//!
//! Floats: 0 for a slice of zeros; else [`BIAS`] + e, e being the smallest exponent with |x| < 2^e for
//! every x; else, for NaN and infinities, [`NOT_FINITE`] | rank, which is above every exponent, so that MAX
//! itself carries the news to every member.
//!
//! Integers: the largest magnitude itself, [`TOO_LARGE`] if it does not fit. Times the total weight it
//! bounds the sum. That is more cautious than need be (large values of opposite sign are refused
//! though they would cancel out) but an overflow inside the fabric wraps silently and cannot be
//! told from a right sum afterwards, and the exact answer would need twice the bits on every link.

use tributary_wire::Rank;

use super::vectors;

/// Keeps the exponents of floats positive; those of f64 would fit as well.
const BIAS: i32 = 1024;
/// Floats: with a rank in the low bits, that rank's slice holds NaN or an infinity.
pub(crate) const NOT_FINITE: u32 = 0x4000_0000;
/// Integers: a magnitude that leaves no room for a sum.
pub(crate) const TOO_LARGE: u32 = 0x7fff_ffff;

/// Exponents that an f32 can need: of the least subnormal and of the largest number.
const EXPONENTS: std::ops::RangeInclusive<i32> = -148..=128;

const F32_INFINITY: u32 = 0x7f80_0000;
const F32_MANTISSA_BITS: u32 = 23;

/// The bound of `rank`'s floats.
pub(crate) fn of_floats(values: &[f32], rank: Rank) -> u32 {
    let largest = vectors::largest_magnitude(values);
    if largest >= F32_INFINITY {
        return NOT_FINITE | u32::from(rank.get());
    }
    if largest == 0 {
        return 0;
    }
    let biased = (largest >> F32_MANTISSA_BITS).cast_signed();
    let exponent = match biased {
        0 => (u32::BITS - largest.leading_zeros()).cast_signed() - 149,
        _ => biased - 126,
    };
    (BIAS + exponent).cast_unsigned()
}

/// The bound of integers.
pub(crate) fn of_integers(values: &[i32]) -> u32 {
    vectors::largest_integer(values).min(TOO_LARGE)
}

/// The rank whose slice is not finite, if `bound` says so.
pub(crate) fn not_finite(bound: u32) -> Option<Rank> {
    // A rank is 16 bits.
    (bound & NOT_FINITE != 0).then_some(Rank::new(bound as u16))
}

/// The exponent e that a float bound stands for; `None` for a slice of zeros.
pub(crate) fn exponent(bound: u32) -> Option<i32> {
    (bound != 0).then_some(bound.cast_signed() - BIAS)
}

/// Whether some member can have sent this float bound.
pub(crate) fn is_plausible(bound: u32) -> bool {
    match bound {
        0 => true,
        _ if bound & NOT_FINITE != 0 => bound & !NOT_FINITE < u32::from(Rank::ALL.get()),
        _ => EXPONENTS.contains(&(bound.cast_signed() - BIAS)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RANK: Rank = Rank::new(0x1234);

    fn of(value: f32) -> u32 {
        of_floats(&[0.0, value], RANK)
    }

    #[test]
    fn powers_of_two_need_the_next_exponent() {
        assert_eq!(exponent(of(1.0)), Some(1));
        assert_eq!(exponent(of(-1.0)), Some(1));
        assert_eq!(exponent(of(0.999_999_9)), Some(0));
        assert_eq!(exponent(of(f32::MAX)), Some(128));
        assert_eq!(exponent(of(f32::MIN_POSITIVE)), Some(-125));
        assert_eq!(exponent(of(f32::from_bits(1))), Some(-148));
    }

    #[test]
    fn zeros_and_infinities_have_their_own() {
        assert_eq!(of(-0.0), 0);
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(of(bad), 0x4000_1234);
            assert_eq!(not_finite(of(bad)), Some(RANK));
        }
        assert_eq!(not_finite(of(f32::MAX)), None);
    }

    #[test]
    fn integers_saturate() {
        assert_eq!(of_integers(&[3, -7]), 7);
        assert_eq!(of_integers(&[i32::MIN]), TOO_LARGE);
        assert_eq!(of_integers(&[]), 0);
    }

    proptest! {
        #[test]
        fn an_exponent_is_the_smallest_that_bounds(value in any::<f32>()) {
            prop_assume!(value.is_finite() && value != 0.0);
            let bound = of(value);
            prop_assert!(is_plausible(bound));
            let e = exponent(bound).unwrap();
            let magnitude = f64::from(value).abs();
            prop_assert!(magnitude < 2f64.powi(e) && magnitude >= 2f64.powi(e - 1));
        }
    }
}
