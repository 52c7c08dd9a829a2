//! The products of eight values and their coefficients at a time, with AVX2.
//!
//! AVX2 multiplies the signed lower halves of four 64-bit lanes. A coefficient has up to 58 bits, so it is stored in
//! two digits of k bits, like the [field's](super::Field) tags. The digits are signed: above −2^(k − 1), and at most
//! 2^(k − 1). The product of a value and a digit is at least −2^(k + 30) and below 2^(k + 30), so a lane can hold a sum
//! of 2^(33 − k) products. Then each half of a lane is added to a separate sum, which has room for all products of a
//! slice.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_and_si256, _mm256_extract_epi64, _mm256_mul_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi8, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64,
};

use tributary_wire::ValuesView;

/// The number of values in a vector.
const AT_ONCE: usize = 8;

/// The mask of the lower half of a lane.
const LOWER: i64 = u32::MAX as i64;

/// One coefficient for each value, in vectors. They exist only on processors with AVX2.
#[derive(Clone)]
pub(super) struct VectorMultipliers {
    eights: Box<[Eight]>,
    digit_bits: u32,
}

/// The digits of eight coefficients.
#[derive(Clone)]
#[repr(align(32))]
struct Eight {
    low: [i32; AT_ONCE],
    high: [i32; AT_ONCE],
}

impl Eight {
    fn new(coefficients: &[i64; AT_ONCE], digit_bits: u32) -> Self {
        let low = |coefficient: i64| {
            let (whole, half) = (1 << digit_bits, 1 << (digit_bits - 1));
            let low = coefficient & (whole - 1);
            if low > half { low - whole } else { low }
        };
        Self {
            low: coefficients.map(|coefficient| low(coefficient) as i32),
            high: coefficients.map(|coefficient| ((coefficient - low(coefficient)) >> digit_bits) as i32),
        }
    }
}

/// Eight values in the lower halves of lanes: the values at even places, and the values at odd places.
type EvenOddLanes = (__m256i, __m256i);

impl VectorMultipliers {
    /// Makes the vectors of `coefficients`; `None` if the processor does not have AVX2.
    /// The coefficients must fit into the digits described above. Coefficients after the last complete group of eight
    /// are left out.
    pub(super) fn new(digit_bits: u32, coefficients: &[i64]) -> Option<Self> {
        let eights = coefficients.as_chunks().0.iter().map(|eight| Eight::new(eight, digit_bits));
        is_x86_feature_detected!("avx2").then(|| Self { eights: eights.collect(), digit_bits })
    }

    /// Returns the sum of products, and the number of values in it.
    #[allow(unsafe_code)]
    pub(super) fn of_numbers(&self, values: &[i32]) -> (i128, usize) {
        // SAFETY: the processor has AVX2, because `new` makes multipliers only if it does.
        unsafe { self.sum_of_numbers(values.as_chunks().0) }
    }

    /// Computes the sum like [`of_numbers`](Self::of_numbers), of received big-endian values.
    #[allow(unsafe_code)]
    pub(super) fn of_view(&self, values: ValuesView<'_>) -> (i128, usize) {
        // SAFETY: as in `of_numbers`.
        unsafe { self.sum_of_view(values.bytes().as_chunks().0) }
    }

    #[target_feature(enable = "avx2")]
    fn sum_of_numbers(&self, values: &[[i32; AT_ONCE]]) -> (i128, usize) {
        self.sum(values, |values| {
            let values = vector(values);
            (values, _mm256_srli_epi64::<32>(values))
        })
    }

    #[target_feature(enable = "avx2")]
    fn sum_of_view(&self, values: &[[u8; AT_ONCE * size_of::<i32>()]]) -> (i128, usize) {
        // These shuffles also reverse the byte order of each value.
        #[rustfmt::skip]
        let (even, odd) = (
            _mm256_setr_epi8(
                3, 2, 1, 0, -1, -1, -1, -1, 11, 10, 9, 8, -1, -1, -1, -1,
                3, 2, 1, 0, -1, -1, -1, -1, 11, 10, 9, 8, -1, -1, -1, -1,
            ),
            _mm256_setr_epi8(
                7, 6, 5, 4, -1, -1, -1, -1, 15, 14, 13, 12, -1, -1, -1, -1,
                7, 6, 5, 4, -1, -1, -1, -1, 15, 14, 13, 12, -1, -1, -1, -1,
            ),
        );
        self.sum(values, |bytes| {
            let words = bytes.as_chunks().0;
            let words = std::array::from_fn(|at| words.get(at).copied().map_or(0, i32::from_ne_bytes));
            let values = vector(&words);
            (_mm256_shuffle_epi8(values, even), _mm256_shuffle_epi8(values, odd))
        })
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn sum<T>(&self, values: &[T], lanes: impl Fn(&T) -> EvenOddLanes) -> (i128, usize) {
        let room = 1 << (33 - self.digit_bits);
        let mut sums = [HalfSums::new(); 2];
        for (eights, values) in self.eights.chunks(room).zip(values.chunks(room)) {
            // Sums start in the middle of the unsigned range, so that positive and negative sums of products fit.
            let mut products = [[_mm256_set1_epi64x(i64::MIN); 2]; 2];
            for (eight, values) in eights.iter().zip(values) {
                let (even, odd) = lanes(values);
                for ([evens, odds], digits) in products.iter_mut().zip([&eight.low, &eight.high]) {
                    let digits = vector(digits);
                    *evens = _mm256_add_epi64(*evens, _mm256_mul_epi32(even, digits));
                    let digits = _mm256_srli_epi64::<32>(digits);
                    *odds = _mm256_add_epi64(*odds, _mm256_mul_epi32(odd, digits));
                }
            }
            for (sums, products) in sums.iter_mut().zip(products) {
                sums.add(products);
            }
        }
        let [low, high] = sums;
        let done = self.eights.len().min(values.len()) * AT_ONCE;
        (low.whole() + (high.whole() << self.digit_bits), done)
    }
}

/// Sums of products with one of the two digits, separately for the lower and the upper halves of lanes.
/// Each lane has the offset 2^63, so that it is not negative.
#[derive(Clone, Copy)]
struct HalfSums {
    lower: __m256i,
    upper: __m256i,
    /// The number of lanes that have been added.
    lanes: i128,
}

impl HalfSums {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new() -> Self {
        Self { lower: _mm256_setzero_si256(), upper: _mm256_setzero_si256(), lanes: 0 }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add(&mut self, products: [__m256i; 2]) {
        let lower = _mm256_set1_epi64x(LOWER);
        for products in products {
            self.lower = _mm256_add_epi64(self.lower, _mm256_and_si256(products, lower));
            self.upper = _mm256_add_epi64(self.upper, _mm256_srli_epi64::<32>(products));
            self.lanes += 4;
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn whole(self) -> i128 {
        i128::from(across(self.lower)) + (i128::from(across(self.upper)) << 32) - (self.lanes << 63)
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn vector(of: &[i32; AT_ONCE]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = *of;
    _mm256_setr_epi32(a, b, c, d, e, f, g, h)
}

/// Returns the sum of four lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn across(lanes: __m256i) -> i64 {
    _mm256_extract_epi64::<0>(lanes)
        + _mm256_extract_epi64::<1>(lanes)
        + _mm256_extract_epi64::<2>(lanes)
        + _mm256_extract_epi64::<3>(lanes)
}
