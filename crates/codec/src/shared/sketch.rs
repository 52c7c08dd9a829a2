//! The distribution of a worker's gradient, as integers that can be summed.

use rand::Rng;

use crate::casq::{SAMPLE, sample};
use crate::error::EncodeError;
use crate::finite;
use crate::kmeans::Point;

/// The number of bits of an f32 that select its lane:
/// the sign, the exponent and the two highest mantissa bits.
/// So the values in a lane differ by a quarter at most, for any scale of the gradient.
const KEPT_BITS: u32 = 11;
const DROPPED_BITS: u32 = 32 - KEPT_BITS;
/// The number of lanes for each sign.
const MAGNITUDES: usize = 1 << (KEPT_BITS - 1);
/// The first lane of each sign that has no finite values.
const INFINITE: usize = 0xFF << 2;

/// A histogram of a sample of a gradient; the sum of all workers' histograms describes all gradients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    counts: Vec<i32>,
}

impl Sketch {
    /// The number of lanes of every sketch: 8 KiB, 8 slices of an all-reduce.
    pub const LANES: usize = 1 << KEPT_BITS;

    /// Makes the sketch of a gradient from a sample of up to 1,000 values.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`] if the gradient has a NaN or an infinity; [`EncodeError::TooLong`] if it is too long.
    pub(super) fn of(gradient: &[f32], random: &mut impl Rng) -> Result<Self, EncodeError> {
        finite::check(gradient)?;
        let mut counts = vec![0; Self::LANES];
        for value in sample(gradient, SAMPLE, random) {
            counts[(value.to_bits() >> DROPPED_BITS) as usize] += 1;
        }
        Ok(Self { counts })
    }

    /// Returns the contribution of a worker whose gradient is not finite, so that it has no sketch.
    /// It makes every sum invalid. So all workers detect the problem, and none waits for the gradient.
    pub fn refusal() -> Self {
        let mut counts = vec![0; Self::LANES];
        counts[INFINITE] = 1;
        Self { counts }
    }

    /// Makes a sketch from the received counts of a sketch, or of a sum of sketches.
    ///
    /// # Errors
    /// [`EncodeError::EmptySketch`] if the number of counts is not [`LANES`](Self::LANES) or a count is negative;
    /// [`EncodeError::NotFiniteSomewhere`] if a [`refusal`](Self::refusal) is in the sum.
    pub fn from_lanes(counts: Vec<i32>) -> Result<Self, EncodeError> {
        let finite = |lanes: &[i32]| lanes[INFINITE..].iter().all(|count| *count == 0);
        if counts.len() != Self::LANES || counts.iter().any(|count| *count < 0) {
            return Err(EncodeError::EmptySketch);
        }
        if !counts.chunks(MAGNITUDES).all(finite) {
            return Err(EncodeError::NotFiniteSomewhere);
        }
        Ok(Self { counts })
    }

    /// Returns the counts, which an all-reduce sums lane by lane.
    pub fn lanes(&self) -> &[i32] {
        &self.counts
    }

    /// Adds another worker's sketch.
    pub fn add(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*other);
        }
    }

    /// Returns the values in ascending order. The middle of a lane stands for all of its values.
    pub(super) fn points(&self) -> Vec<Point> {
        let (positive, negative) = self.counts.split_at(MAGNITUDES);
        let magnitude = |lane: usize| {
            let middle = ((lane as u32) << DROPPED_BITS) | 1 << (DROPPED_BITS - 1);
            f64::from(f32::from_bits(middle))
        };
        // Values in the lowest lane of each sign are 0 or nearly 0.
        let below = negative.iter().enumerate().skip(1).rev().map(|(lane, count)| (-magnitude(lane), *count));
        let zero = [(0.0, positive[0].saturating_add(negative[0]))];
        let above = positive.iter().enumerate().skip(1).map(|(lane, count)| (magnitude(lane), *count));
        let all = below.chain(zero).chain(above);
        all.filter(|(_, count)| *count > 0)
            .map(|(value, count)| Point { value, weight: count.into() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn points_are_near_the_values_and_in_order() {
        let gradient = [-1e30, -2.5, -1e-30, -0.0, 0.0, 3e-9, 1.0, 1.1, f32::MAX];
        let sketch = Sketch::of(&gradient, &mut ChaCha8Rng::seed_from_u64(0)).unwrap();
        let points = sketch.points();
        assert!(points.windows(2).all(|pair| pair[0].value < pair[1].value));
        assert_eq!(points.iter().map(|point| point.weight).sum::<f64>(), 9.0);
        for value in gradient {
            let near =
                |point: &&Point| (point.value - f64::from(value)).abs() <= f64::from(value).abs() / 8.0;
            assert!(points.iter().any(|point| near(&point)), "{value}");
        }
        assert_eq!(Sketch::from_lanes(sketch.lanes().to_vec()), Ok(sketch));
    }

    #[test]
    fn what_is_no_sketch_is_refused() {
        for lanes in [vec![], vec![1; 5], vec![-1; Sketch::LANES]] {
            assert_eq!(Sketch::from_lanes(lanes), Err(EncodeError::EmptySketch));
        }
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut infinite = vec![0; Sketch::LANES];
            infinite[(value.to_bits() >> DROPPED_BITS) as usize] = 1;
            assert_eq!(Sketch::from_lanes(infinite), Err(EncodeError::NotFiniteSomewhere));
        }
        let mut sum = Sketch::of(&[1.0, 2.0], &mut ChaCha8Rng::seed_from_u64(0)).unwrap();
        sum.add(&Sketch::refusal());
        assert_eq!(Sketch::from_lanes(sum.counts), Err(EncodeError::NotFiniteSomewhere));
    }
}
