//! An exact solver of k-means in one dimension.
//!
//! In one dimension, clusters are intervals, so dynamic programming finds the optimal clusters (Wang and Song,
//! "Ckmeans.1d.dp", The R Journal 3/2, 2011). Lloyd's iteration may stop at other clusters, and needs starting points.
//! If the end of the interval that is divided moves to the right, the best cut moves to the right, too. A
//! divide-and-conquer algorithm uses this: it takes K · n · log n steps for n points.

use std::ops::Range;

/// A value, and its weight: the number of times that it occurs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) value: f64,
    pub(crate) weight: f64,
}

/// A cluster: an interval of successive points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cluster {
    /// The indexes of the points.
    pub(crate) points: Range<usize>,
    /// The weighted mean of the points.
    pub(crate) centre: f64,
    /// The sum of the weights of the points.
    pub(crate) weight: f64,
}

/// Splits `points` into at most `k` clusters with the least weighted sum of squared distances from
/// their centres.
/// `points` must be in ascending order and have positive weights. If there are fewer points than `k`, each becomes a
/// cluster.
pub(crate) fn kmeans(points: &[Point], k: usize) -> Vec<Cluster> {
    let sums = Sums::new(points);
    let k = k.min(points.len());
    if k == 0 {
        return Vec::new();
    }
    // `costs` has the cost of the best clusters of the first i points; `starts` has the best start of each further
    // cluster.
    let mut costs: Vec<f64> = (0..=points.len()).map(|end| sums.cost(0..end)).collect();
    let mut starts = Vec::with_capacity(k - 1);
    for clusters in 2..=k {
        let mut layer = Layer {
            sums: &sums,
            before: &costs,
            costs: vec![0.0; costs.len()],
            starts: vec![0; costs.len()],
        };
        // No cluster is empty. The last layer, with all `k` clusters, only needs the cost of clustering all points.
        let first = if clusters == k { points.len() } else { clusters };
        layer.solve(first..points.len() + 1, clusters - 1..points.len());
        let Layer { costs: next, starts: start, .. } = layer;
        starts.push(start);
        costs = next;
    }
    let mut clusters = Vec::with_capacity(k);
    let mut end = points.len();
    for start in starts.iter().rev().map(Some).chain([None]) {
        let start = start.map_or(0, |starts| starts[end]);
        if start < end {
            clusters.push(sums.cluster(start..end));
        }
        end = start;
    }
    clusters.reverse();
    clusters
}

/// Prefix sums. The sum over an interval is the difference of two of them.
struct Sums {
    /// For each i, the sums of weights, weighted values and weighted squares of the first i points.
    first: Vec<[f64; 3]>,
    /// The mean of all values.
    /// Sums are of values relative to it, so that differences of sums lose little precision.
    origin: f64,
}

impl Sums {
    fn new(points: &[Point]) -> Self {
        let (weight, sum) = points
            .iter()
            .fold((0.0, 0.0), |(w, s), point| (w + point.weight, s + point.weight * point.value));
        let origin = if weight > 0.0 { sum / weight } else { 0.0 };
        let mut first = Vec::with_capacity(points.len() + 1);
        let mut total = [0.0; 3];
        first.push(total);
        for point in points {
            let value = point.value - origin;
            let weighted = point.weight * value;
            total = [total[0] + point.weight, total[1] + weighted, total[2] + weighted * value];
            first.push(total);
        }
        Self { first, origin }
    }

    fn over(&self, points: Range<usize>) -> [f64; 3] {
        let (start, end) = (self.first[points.start], self.first[points.end]);
        [end[0] - start[0], end[1] - start[1], end[2] - start[2]]
    }

    /// Returns the weighted sum of the points' squared distances from their centre.
    fn cost(&self, points: Range<usize>) -> f64 {
        let [weight, sum, squares] = self.over(points);
        if weight > 0.0 { (squares - sum * sum / weight).max(0.0) } else { 0.0 }
    }

    fn cluster(&self, points: Range<usize>) -> Cluster {
        let [weight, sum, _] = self.over(points.clone());
        Cluster { points, centre: self.origin + sum / weight, weight }
    }
}

/// One step of the dynamic programming:
/// from the best costs with some clusters to the costs with one more.
struct Layer<'a> {
    sums: &'a Sums,
    /// The best costs with one cluster fewer.
    before: &'a [f64],
    costs: Vec<f64>,
    starts: Vec<usize>,
}

impl Layer<'_> {
    /// Finds the best start of the last cluster for each of `ends`.
    /// The caller knows that it is in `starts`.
    fn solve(&mut self, ends: Range<usize>, starts: Range<usize>) {
        if ends.is_empty() {
            return;
        }
        let end = ends.start + ends.len() / 2;
        let (mut best, mut least) = (starts.start, f64::INFINITY);
        for start in starts.start..starts.end.min(end) {
            let cost = self.before[start] + self.sums.cost(start..end);
            if cost < least {
                (best, least) = (start, cost);
            }
        }
        self.costs[end] = least;
        self.starts[end] = best;
        self.solve(ends.start..end, starts.start..best + 1);
        self.solve(end + 1..ends.end, best..starts.end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn points(values: &[i32]) -> Vec<Point> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let weight = |value: i32| values.iter().filter(|other| **other == value).count() as f64;
        sorted.iter().map(|&value| Point { value: value.into(), weight: weight(value) }).collect()
    }

    fn cost(points: &[Point]) -> f64 {
        Sums::new(points).cost(0..points.len())
    }

    /// Returns the least cost over all possible cuts.
    fn brute_force(points: &[Point], k: usize) -> f64 {
        if k == 1 {
            return cost(points);
        }
        let cuts = (0..=points.len()).map(|cut| cost(&points[..cut]) + brute_force(&points[cut..], k - 1));
        cuts.fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn no_other_clusters_cost_less(values in vec(-50i32..50, 1..14), k in 1usize..5) {
            let points = points(&values);
            let clusters = kmeans(&points, k);
            prop_assert_eq!(clusters.len(), k.min(points.len()));
            let mut end = 0;
            for cluster in &clusters {
                prop_assert_eq!(cluster.points.start, end);
                end = cluster.points.end;
            }
            prop_assert_eq!(end, points.len());
            let ours: f64 = clusters.iter().map(|cluster| cost(&points[cluster.points.clone()])).sum();
            prop_assert!(ours <= brute_force(&points, k) + 1e-6, "{clusters:?}");
        }
    }

    #[test]
    fn centres_are_weighted_means() {
        let clusters = kmeans(&points(&[1, 1, 1, 5, 100, 102]), 2);
        let found: Vec<_> = clusters.iter().map(|cluster| (cluster.centre, cluster.weight)).collect();
        assert_eq!(found, [(2.0, 4.0), (101.0, 2.0)]);
        assert_eq!(kmeans(&[], 4), []);
    }
}
