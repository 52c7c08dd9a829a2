//! Samples of gradients, from which clusters and their shares of the buckets are computed.

use rand::{Rng, RngExt};

use crate::kmeans::{Cluster, Point};

/// The maximum number of values in a sample for clusters.
/// It is the number in the paper's restatement, and quick to cluster.
pub(crate) const SAMPLE: usize = 1000;
/// The number of bins of the histogram for a cluster's entropy.
const BINS: usize = 32;

/// Returns at most `most` values of `gradient`, drawn at random.
/// A gradient of at most `most` values is returned whole.
pub(crate) fn sample(gradient: &[f32], most: usize, random: &mut impl Rng) -> Vec<f32> {
    if gradient.len() <= most {
        return gradient.to_vec();
    }
    // Values are drawn with replacement. Hardly any value of a much longer gradient is drawn twice.
    (0..most).map(|_| gradient[random.random_range(0..gradient.len())]).collect()
}

/// A sample, as sorted distinct values.
pub(crate) struct Sample {
    /// Each distinct value, and the number of times that it occurs.
    pub(crate) points: Vec<Point>,
}

impl Sample {
    pub(crate) fn new(mut values: Vec<f32>) -> Self {
        values.sort_unstable_by(f32::total_cmp);
        let mut points: Vec<Point> = Vec::with_capacity(values.len());
        for value in values {
            match points.last_mut() {
                // 0 and −0 count as one value.
                Some(last) if last.value == f64::from(value) => last.weight += 1.0,
                _ => points.push(Point { value: value.into(), weight: 1.0 }),
            }
        }
        Self { points }
    }

    /// Returns each cluster's share of the buckets:
    /// the product of its density, the magnitude of its centre, and its entropy.
    /// The density is the fraction of all `values` that are the cluster's `members`. Each factor is divided by its sum
    /// over the clusters, so that the factors are comparable. The sum of the shares need not be 1, and all may be 0.
    pub(crate) fn shares(&self, clusters: &[Cluster], members: &[u32], values: usize) -> Vec<f64> {
        let density = members.iter().map(|members| f64::from(*members) / values.max(1) as f64).collect();
        let centre = clusters.iter().map(|cluster| cluster.centre.abs()).collect();
        let entropy = clusters.iter().map(|cluster| entropy(&self.points[cluster.points.clone()])).collect();
        let [density, centre, entropy] = [density, centre, entropy].map(standardised);
        density.iter().zip(&centre).zip(&entropy).map(|((d, c), e)| d * c * e).collect()
    }
}

/// Divides features by their sum. If the sum is 0, all clusters get equal features.
fn standardised(features: Vec<f64>) -> Vec<f64> {
    let sum: f64 = features.iter().sum();
    let even = 1.0 / features.len().max(1) as f64;
    features.into_iter().map(|feature| if sum > 0.0 { feature / sum } else { even }).collect()
}

/// Returns the entropy, in bits, of a histogram of `points` with bins of equal width.
fn entropy(points: &[Point]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let per_unit = BINS as f64 / (last.value - first.value);
    let mut bins = [0.0; BINS];
    for point in points {
        // A single distinct value has no width to divide by. Its entropy is 0.
        let bin = if per_unit.is_finite() { (point.value - first.value) * per_unit } else { 0.0 };
        bins[(bin as usize).min(BINS - 1)] += point.weight;
    }
    let total: f64 = bins.iter().sum();
    let part = |weight: &f64| if *weight > 0.0 { -(weight / total) * (weight / total).log2() } else { 0.0 };
    bins.iter().map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmeans::kmeans;

    #[test]
    fn evenly_spread_values_have_five_bits_of_entropy_in_32_bins() {
        let even: Vec<Point> = (0..3200).map(|at| Point { value: at.into(), weight: 1.0 }).collect();
        assert!((entropy(&even) - 5.0).abs() < 1e-3);
        assert_eq!(entropy(&[Point { value: 3.0, weight: 9.0 }]), 0.0);
        assert_eq!(entropy(&[]), 0.0);
    }

    #[test]
    fn a_share_is_density_times_centre_times_entropy() {
        // Two clusters of 10 values each: the second has twice the magnitude of the centre, and the same entropy.
        let near = (0..10).map(|at| 95.0 + at as f32);
        let values: Vec<f32> =
            near.clone().map(|value| -value).chain(near.map(|value| value + 99.5)).collect();
        let sample = Sample::new(values);
        let clusters = kmeans(&sample.points, 2);
        let shares = sample.shares(&clusters, &[10, 10], 20);
        assert!((shares[1] / shares[0] - 2.0).abs() < 1e-6, "{shares:?}");
        assert!((shares[0] - 0.5 * (1.0 / 3.0) * 0.5).abs() < 1e-6, "{shares:?}");
    }
}
