//! The sum of a slice's values, each times its coefficient: the loop that a tag's cost is made of.

#[cfg(target_arch = "x86_64")]
mod avx2;

use tributary_wire::ValuesView;

use super::field::Field;

/// One coefficient for each value of a slice.
#[derive(Clone)]
pub(super) struct Multipliers {
    /// Each coefficient c as c or c − P: the number with fewer bits.
    coefficients: Box<[i64]>,
    /// The same for wide vectors, where the processor has them.
    #[cfg(target_arch = "x86_64")]
    vectors: Option<avx2::Multipliers>,
}

impl Multipliers {
    /// Prepares to multiply by `coefficients`, which are numbers of the field.
    pub(super) fn new(field: Field, coefficients: &[u64]) -> Self {
        let coefficients: Box<_> =
            coefficients.iter().map(|number| nearest_to_zero(field, *number)).collect();
        Self {
            #[cfg(target_arch = "x86_64")]
            vectors: avx2::Multipliers::new(field.digit_bits(), &coefficients),
            coefficients,
        }
    }

    /// Σ coefficient · value, not reduced: its magnitude is at most that of 2^92 for each value.
    pub(super) fn of_numbers(&self, values: &[i32]) -> i128 {
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = &self.vectors {
            let (sum, done) = vectors.of_numbers(values);
            return sum + self.one_by_one(done, values.iter().copied());
        }
        self.one_by_one(0, values.iter().copied())
    }

    /// The same of values as they came.
    pub(super) fn of_view(&self, values: ValuesView<'_>) -> i128 {
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = &self.vectors {
            let (sum, done) = vectors.of_view(values);
            return sum + self.one_by_one(done, values.iter());
        }
        self.one_by_one(0, values.iter())
    }

    /// The same of the values after the first ones, one at a time.
    fn one_by_one(&self, first: usize, values: impl Iterator<Item = i32>) -> i128 {
        let products = self.coefficients.iter().zip(values).skip(first);
        products.map(|(coefficient, value)| i128::from(*coefficient) * i128::from(value)).sum()
    }
}

/// The number, or the number less the prime from half of the power of two above the
/// prime on; in fact half of a digit later, so that both digits can be chosen to be at most half of a digit's power of
/// two, and above minus that.
fn nearest_to_zero(field: Field, number: u64) -> i64 {
    let bits = field.digit_bits();
    let most = (1 << (2 * bits - 1)) + (1 << (bits - 1));
    // Both are below 2^58.
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

    /// All that there are: numbers, in both forms, and without wide vectors.
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

    /// Makes slices of any width, and of lengths that are not multiples of any vector.
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

    /// The largest products of either sign, and the coefficients where digits are carried.
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
