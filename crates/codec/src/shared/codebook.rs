//! Four levels shared by all workers, on a grid of integers.

use half::bf16;

use super::sketch::Sketch;
use crate::casq::Nearest;
use crate::error::{DecodeError, EncodeError};
use crate::kmeans::{Cluster, kmeans};

/// The maximum number of levels.
pub(super) const CLUSTERS: usize = 4;
/// The highest level. It has 4 bits.
const TOP: u8 = 15;
/// The maximum number of steps between the lowest level and 0.
/// With 13 bits for the number of steps and 8 bits for the step, the value of a level is exact in f32. So is the sum of
/// several levels, in any order.
const MOST_ZERO: i32 = 1 << 12;
/// The numbers of intervals, in quarters, into which the range of the centres is divided:
/// 7.5 to 15 intervals.
/// Coarser grids are not tried, because each of them is a subset of one of these.
const TRIED: std::ops::RangeInclusive<u32> = 2 * TOP as u32..=4 * TOP as u32;

/// The values of the indexes in the codes of all workers.
/// Index i has the value (level i − zero) · step.
///
/// The step is exact in bf16. So all values are exact in f32, and so are sums of some thousand values. The addition of
/// decoded gradients gives the same bits in any order, and the same bits as the addition of levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Codebook {
    step: f32,
    zero: i32,
    levels: Vec<u8>,
}

impl Codebook {
    /// Derives the codebook from the sum of all workers' sketches.
    /// It uses only exactly rounded operations, so that every machine computes the same codebook.
    ///
    /// # Errors
    /// [`EncodeError::EmptySketch`] if the sum contains no values.
    pub fn from_sketch(sum: &Sketch) -> Result<Self, EncodeError> {
        let clusters = kmeans(&sum.points(), CLUSTERS);
        Self::snapped(&clusters).ok_or(EncodeError::EmptySketch)
    }

    /// Returns the grid that fits the clusters' centres best:
    /// rounding the centres to it adds the least squared error.
    fn snapped(clusters: &[Cluster]) -> Option<Self> {
        let (first, last) = (clusters.first()?.centre, clusters.last()?.centre);
        let largest = first.abs().max(last.abs());
        // The step may be rounded down, which must not move the zero beyond its limit.
        let finest = (largest / f64::from(MOST_ZERO - 16)).max(f64::from(f32::MIN_POSITIVE));
        let steps = TRIED.map(|quarters| ((last - first) * 4.0 / f64::from(quarters)).max(finest));
        let on_grid = |step: f64| {
            let step = bf16::from_f64(step).to_f64();
            let error = |cluster: &Cluster| {
                let off = cluster.centre - (cluster.centre / step).round() * step;
                cluster.weight * off * off
            };
            let fits = (last / step).round() - (first / step).round() <= f64::from(TOP);
            fits.then(|| (step, clusters.iter().map(error).sum::<f64>()))
        };
        let (step, _) = steps.filter_map(on_grid).min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let zero = -(first / step).round();
        let mut levels: Vec<u8> =
            clusters.iter().map(|cluster| ((cluster.centre / step).round() + zero) as u8).collect();
        levels.dedup();
        Some(Self { step: step as f32, zero: zero as i32, levels })
    }

    /// Makes a codebook from received fields, after checking them.
    pub(super) fn from_parts(step: f32, zero: i32, levels: &[u8]) -> Result<Self, DecodeError> {
        let wrong = |field, value: String, rule| Err(DecodeError::Field { field, value, rule });
        if step < f32::MIN_POSITIVE || bf16::from_f32(step).to_f32() != step {
            return wrong("the step", step.to_string(), "it has to be positive, with 8 significant bits");
        }
        if zero.checked_abs().is_none_or(|zero| zero > MOST_ZERO) {
            return wrong("the zero", zero.to_string(), "-4096 to 4096 is possible");
        }
        let ascending = levels.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || levels.first() != Some(&0) || levels.last().is_some_and(|level| *level > TOP) {
            return wrong("the levels", format!("{levels:?}"), "they have to ascend from 0 to 15 at most");
        }
        let codebook = Self { step, zero, levels: levels.to_vec() };
        if codebook.values().iter().any(|value| !value.is_finite()) {
            return wrong("the step", step.to_string(), "what the levels stand for has to be finite");
        }
        Ok(codebook)
    }

    /// Returns the distance of neighbouring integers of the grid.
    pub fn step(&self) -> f32 {
        self.step
    }

    /// Returns the integer whose value is 0. It need not be a level.
    pub fn zero(&self) -> i32 {
        self.zero
    }

    /// Returns the levels, which are the integers in use, ascending from 0.
    pub fn levels(&self) -> &[u8] {
        &self.levels
    }

    /// Returns the value of each index.
    pub fn values(&self) -> Vec<f32> {
        self.levels.iter().map(|level| self.sum(i64::from(*level), 1)).collect()
    }

    /// Returns the largest possible sum of the levels of `workers` workers.
    pub(super) fn most(&self, workers: u32) -> u64 {
        u64::from(workers) * self.levels.last().copied().map_or(0, u64::from)
    }

    /// Returns the value of `levels`, which is the sum of the levels of `workers` workers.
    #[inline]
    pub(super) fn sum(&self, levels: i64, workers: u32) -> f32 {
        ((levels - i64::from(workers) * i64::from(self.zero)) as f64 * f64::from(self.step)) as f32
    }

    pub(super) fn nearest(&self) -> Nearest {
        let centre = |level: &u8| f64::from(i32::from(*level) - self.zero) * f64::from(self.step);
        Nearest::new(&self.levels.iter().map(centre).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn clusters(mut centres: Vec<f64>) -> Vec<Cluster> {
        centres.sort_by(f64::total_cmp);
        centres.into_iter().map(|centre| Cluster { points: 0..1, centre, weight: 1.0 }).collect()
    }

    proptest! {
        #[test]
        fn levels_lie_on_a_grid_near_the_centres(
            centres in vec(-1.0f64..1.0, 1..=4), offset in prop::sample::select(vec![0.0, 3.0, -500.0]),
            scale in -100i32..100,
        ) {
            let scale = 2f64.powi(scale);
            let centres: Vec<f64> = centres.iter().map(|centre| (centre + offset) * scale).collect();
            let clusters = clusters(centres.clone());
            let codebook = Codebook::snapped(&clusters).unwrap();
            let same = Codebook::from_parts(codebook.step, codebook.zero, &codebook.levels);
            prop_assert_eq!(same.as_ref(), Ok(&codebook));
            // The largest error is half a step of the coarsest grid that is tried, or of the finest grid that is
            // allowed.
            let spread = clusters[clusters.len() - 1].centre - clusters[0].centre;
            let most = (spread / 15.0).max((offset.abs() + 1.0) * scale / 4000.0);
            for centre in centres {
                let off = codebook.values().into_iter().map(|value| (f64::from(value) - centre).abs());
                prop_assert!(off.fold(f64::INFINITY, f64::min) <= most, "{codebook:?} for {clusters:?}");
            }
        }
    }

    #[test]
    fn zeros_stay_zeros() {
        let codebook = Codebook::snapped(&clusters(vec![-3.1, 0.0, 0.9, 7.7])).unwrap();
        assert!(codebook.values().contains(&0.0), "{codebook:?}");
        assert_eq!(Codebook::snapped(&clusters(vec![0.0])).unwrap().values(), [0.0]);
    }

    #[test]
    fn the_largest_floats_do_not_overflow_the_grid() {
        let most = f64::from(f32::MAX);
        let codebook = Codebook::snapped(&clusters(vec![-most, 0.0, most / 2.0, most * 0.9])).unwrap();
        assert_eq!(codebook.levels.len(), 4);
    }
}
