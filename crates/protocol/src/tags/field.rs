//! The arithmetic of tags: numbers modulo a prime, in two digits that switches can add.

use tributary_wire::Tag;

/// The maximum number of members of a job. With more members, the prime would be below 2^32.
pub(crate) const MOST_MEMBERS: usize = (1 << 15) - 1;

/// The smallest number of bits of a digit, for a job with [`MOST_MEMBERS`] members.
const FEWEST_BITS: u32 = 17;

/// The largest number of bits of a digit.
/// With two digits of this size, a forgery is practically impossible.
/// Jobs with few members have room for two more bits. But a tag would then take a fifth longer to make, because the
/// [products](super::products) would have to be added in shorter runs.
const MOST_BITS: u32 = 29;

/// For each digit size k from [`FEWEST_BITS`] to [`MOST_BITS`], the distance from 2^(2k) to the largest
/// prime below it.
const DISTANCES: [u64; (MOST_BITS - FEWEST_BITS + 1) as usize] =
    [41, 5, 45, 87, 11, 17, 21, 59, 27, 47, 33, 5, 27];

/// The integers modulo P, the largest prime whose remainders fit into two digits of k bits.
/// k is chosen so that, over the tags of all members, the sum of each digit stays below 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    digit_bits: u32,
    prime: u64,
    /// The distance from the prime to the next power of two.
    distance: u64,
}

impl Field {
    /// Makes the field for a job with this number of members, at most [`MOST_MEMBERS`].
    pub(super) fn new(members: usize) -> Self {
        let doublings = members.clamp(1, MOST_MEMBERS).next_power_of_two().trailing_zeros();
        let digit_bits = (u32::BITS - doublings).min(MOST_BITS);
        let distance = DISTANCES.get((digit_bits - FEWEST_BITS) as usize).copied().unwrap_or_default();
        Self { digit_bits, prime: ((1u128 << (2 * digit_bits)) - u128::from(distance)) as u64, distance }
    }

    pub(super) fn prime(self) -> u64 {
        self.prime
    }

    /// Returns the number of bits of a digit, at most [`MOST_BITS`].
    pub(super) fn digit_bits(self) -> u32 {
        self.digit_bits
    }

    /// Returns the remainder of a number modulo the prime.
    /// It computes `rem_euclid` several times as fast, because the power of two just above the prime has the remainder
    /// `distance`.
    pub(super) fn reduce(self, number: i128) -> u64 {
        let (bits, prime) = (2 * self.digit_bits, u128::from(self.prime));
        // For a negative number n, −1 − n is reduced, which is not negative.
        let mut left = (number ^ (number >> 127)).cast_unsigned();
        while left >> bits > 0 {
            left = (left >> bits) * u128::from(self.distance) + (left & ((1 << bits) - 1));
        }
        let left = (if left >= prime { left - prime } else { left }) as u64;
        if number < 0 { self.prime - 1 - left } else { left }
    }

    /// Splits a number into two digits.
    pub(super) fn split(self, number: u64) -> Tag {
        let digit = |shift: u32| (number >> shift) & ((1 << self.digit_bits) - 1);
        Tag { high: digit(self.digit_bits) as u32, low: digit(0) as u32 }
    }

    /// Returns the number that two digits, or two sums of digits, represent; it is not reduced.
    pub(super) fn join(self, tag: Tag) -> i128 {
        (i128::from(tag.high) << self.digit_bits) + i128::from(tag.low)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Miller and Rabin's test with the first twelve primes, which is exact below 2^64.
    fn is_prime(n: u64) -> bool {
        let power = |base: u64, mut exponent: u64| {
            let times = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(n)) as u64;
            let (mut power, mut square) = (1, base);
            while exponent > 0 {
                power = if exponent & 1 == 1 { times(power, square) } else { power };
                (square, exponent) = (times(square, square), exponent >> 1);
            }
            power
        };
        let twos = (n - 1).trailing_zeros();
        [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37].iter().all(|&base| {
            let mut x = power(base, (n - 1) >> twos);
            let mut passes = x == 1 || x == n - 1;
            for _ in 1..twos {
                x = (u128::from(x) * u128::from(x) % u128::from(n)) as u64;
                passes |= x == n - 1;
            }
            passes
        })
    }

    #[test]
    fn each_modulus_is_the_largest_prime_that_its_digits_can_hold() {
        for doublings in 1..=15 {
            let members = MOST_MEMBERS.min(1 << doublings);
            let Field { digit_bits, prime, .. } = Field::new(members);
            assert!(members as u64 * ((1 << digit_bits) - 1) < 1 << 32, "{members} members' digits wrap");
            assert!(prime > u64::from(u32::MAX), "a value could change by {prime} unnoticed");
            let most = u64::MAX >> (64 - 2 * digit_bits);
            assert!(is_prime(prime), "{prime} is none");
            assert!(
                (prime + 1..=most).filter(|n| n % 2 == 1).all(|n| !is_prime(n)),
                "{prime} is not the largest"
            );
        }
        assert_eq!(Field::new(9), Field::new(16));
        assert_ne!(Field::new(8), Field::new(9));
        assert_eq!(Field::new(0), Field::new(8));
    }

    proptest! {
        #[test]
        fn digits_that_are_added_up_stand_for_the_sum(members in 1..200usize, numbers in prop::array::uniform32(any::<u64>())) {
            let field = Field::new(members);
            let (mut sum, mut digits) = (0_i128, Tag::default());
            for number in numbers.iter().cycle().take(members) {
                let number = field.reduce(i128::from(*number));
                let Tag { high, low } = field.split(number);
                // The additions panic if a digit overflows.
                digits = Tag { high: digits.high + high, low: digits.low + low };
                sum += i128::from(number);
            }
            prop_assert_eq!(field.join(digits), sum);
        }

        #[test]
        fn what_is_left_of_a_number_is_the_remainder(members in 1..40_000usize, number in any::<i128>(), shift in 0..128) {
            let (field, number) = (Field::new(members), number >> shift);
            prop_assert_eq!(i128::from(field.reduce(number)), number.rem_euclid(field.prime.into()));
        }
    }
}
