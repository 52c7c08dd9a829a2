//! The sum of a slice's values, each times its coefficient.
//! This loop takes most of the time of making a tag.

#[cfg(target_arch = "x86_64")]
mod avx2;

use tributary_wire::ValuesView;

use super::field::Field;

/// One coefficient for each value of a slice.
#[derive(Clone)]
pub(super) struct Multipliers {
    /// Each coefficient c as c or c − P: the number with the smaller magnitude.
    coefficients: Box<[i64]>,
    /// The coefficients for wide vectors, if the processor has them.
    #[cfg(target_arch = "x86_64")]
    vectors: Option<avx2::VectorMultipliers>,
}

impl Multipliers {
    /// Prepares to multiply by `coefficients`, which are numbers of the field.
    pub(super) fn new(field: Field, coefficients: &[u64]) -> Self {
        let coefficients: Box<_> =
            coefficients.iter().map(|number| nearest_to_zero(field, *number)).collect();
        Self {
            #[cfg(target_arch = "x86_64")]
            vectors: avx2::VectorMultipliers::new(field.digit_bits(), &coefficients),
            coefficients,
        }
    }

    /// Returns Σ coefficient · value, not reduced. For each value, its magnitude grows by at most 2^92.
    pub(super) fn of_numbers(&self, values: &[i32]) -> i128 {
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = &self.vectors {
            let (sum, done) = vectors.of_numbers(values);
            return sum + self.one_by_one(done, values.iter().copied());
        }
        self.one_by_one(0, values.iter().copied())
    }

    /// Computes the sum like [`of_numbers`](Self::of_numbers), of received big-endian values.
    pub(super) fn of_view(&self, values: ValuesView<'_>) -> i128 {
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = &self.vectors {
            let (sum, done) = vectors.of_view(values);
            return sum + self.one_by_one(done, values.iter());
        }
        self.one_by_one(0, values.iter())
    }

    /// Computes the sum one value at a time, without the first `first` values.
    fn one_by_one(&self, first: usize, values: impl Iterator<Item = i32>) -> i128 {
        let products = self.coefficients.iter().zip(values).skip(first);
        products.map(|(coefficient, value)| i128::from(*coefficient) * i128::from(value)).sum()
    }
}

/// Returns the number if it is small, or else the number minus the prime.
/// The threshold is half of the power of two above the prime, plus 2^(k − 1), where k is the number of
/// bits of a digit. So both digits can be chosen above −2^(k − 1) and at most 2^(k − 1).
fn nearest_to_zero(field: Field, number: u64) -> i64 {
    let bits = field.digit_bits();
    let most = (1 << (2 * bits - 1)) + (1 << (bits - 1));
    // The number and the prime are below 2^58, so the casts keep their values.
    if number <= most { number.cast_signed() } else { number.cast_signed() - field.prime().cast_signed() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_wire::SliceWidth;

    use super::*;

    fn expected(field: Field, coefficients: &[u64], numbers: &[i32]) -> u64 {
        let products = coefficients.iter().zip(numbers).map(|(a, b)| i128::from(*a) * i128::from(*b));
        field.reduce(products.sum())
    }

    /// Returns the sums by all implementations:
    /// from numbers, from received bytes, and without wide vectors.
    fn sums(multipliers: &Multipliers, numbers: &[i32]) -> [i128; 3] {
        let bytes = tributary_wire::values::to_bytes(numbers);
        [
            multipliers.of_numbers(numbers),
            multipliers.of_view(ValuesView::new(&bytes)),
            multipliers.one_by_one(0, numbers.iter().copied()),
        ]
    }

    fn fields() -> impl Strategy<Value = Field> {
        (1..=15_u32).prop_map(|doublings| Field::new(1 << doublings))
    }

    /// Makes slices of any width, also with lengths that are not multiples of a vector.
    fn coefficients_and_numbers() -> impl Strategy<Value = (Vec<u64>, Vec<i32>)> {
        let widths: Vec<_> = SliceWidth::all().map(SliceWidth::values).chain([0, 1, 45]).collect();
        prop::sample::select(widths).prop_flat_map(|values| {
            (prop::collection::vec(any::<u64>(), values), prop::collection::vec(any::<i32>(), values))
        })
    }

    proptest! {
        #[test]
        fn products_are_added_up_as_one_by_one(field in fields(), (coefficients, numbers) in coefficients_and_numbers()) {
            let coefficients: Vec<_> = coefficients.iter().map(|c| field.reduce(i128::from(*c))).collect();
            let multipliers = Multipliers::new(field, &coefficients);
            let expected = expected(field, &coefficients, &numbers);
            for sum in sums(&multipliers, &numbers) {
                prop_assert_eq!(field.reduce(sum), expected);
            }
        }
    }

    /// Tests the largest products of either sign, and coefficients whose digits have a carry.
    #[test]
    fn the_largest_of_all_have_room() {
        let values = SliceWidth::WIDEST.values();
        for field in (1..=15).map(|doublings| Field::new(1 << doublings)) {
            let (half, digit) = (1 << (2 * field.digit_bits() - 1), 1 << (field.digit_bits() - 1));
            let edges = [0, half - digit, half, half + digit, field.prime() - 1];
            for coefficient in edges.into_iter().flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]) {
                let coefficient = coefficient % field.prime();
                let multipliers = Multipliers::new(field, &vec![coefficient; values]);
                for number in [i32::MIN, i32::MAX] {
                    let numbers = vec![number; values];
                    let [of_numbers, of_view, one_by_one] = sums(&multipliers, &numbers);
                    assert_eq!((of_numbers, of_view), (one_by_one, one_by_one), "{coefficient} {number}");
                    let expected = expected(field, &vec![coefficient; values], &numbers);
                    assert_eq!(field.reduce(one_by_one), expected);
                }
            }
        }
    }
}
