//! Hash buckets: their allocation to clusters, and the means that they stand for.

use std::ops::Range;

use rayon::prelude::*;

use super::MOST_CLUSTERS;
use super::cells::{Cells, of_buckets};
use super::nearest::Nearest;
use crate::pieces::{BLOCK, PIECE};
use crate::quantile::Sum;

/// The default maximum number of buckets of a code.
/// With this number, the sums of a part of the gradient easily fit into a core's caches. Their allocation also needs no
/// system call each time.
const MOST_BUCKETS: usize = 1 << 12;
/// The default number of values for each bucket.
/// The mean of a bucket has 32 bits, which is then a quarter of a bit for each value. A code of four clusters is 14
/// times smaller than f32.
const VALUES_PER_BUCKET: usize = 128;
/// The maximum number of parts of a gradient whose buckets are filled separately.
/// With more parts, the final addition of their tables would take a noticeable part of the time.
const MOST_PARTS: usize = 32;

/// The number of buckets of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buckets {
    /// One bucket for each 128 values, at most 4,096.
    #[default]
    InProportion,
    /// One bucket for each cluster, so that a value becomes its cluster's mean.
    /// This is clustering without hash buckets.
    OnePerCluster,
}

impl Buckets {
    pub(super) fn total(self, values: usize, clusters: usize) -> usize {
        match self {
            Self::InProportion => (values / VALUES_PER_BUCKET).clamp(clusters, MOST_BUCKETS),
            Self::OnePerCluster => clusters,
        }
    }
}

/// Returns the number of buckets of each cluster, in proportion to `shares`.
/// Each cluster gets at least one bucket, and at most one for each member. The sum is at most `total`; some buckets may
/// remain unused.
pub(super) fn allot(total: usize, shares: &[f64], members: &[u32]) -> Vec<u32> {
    let sum: f64 = shares.iter().sum();
    let spare = total.saturating_sub(shares.len()) as f64;
    let count = |(share, members): (&f64, &u32)| {
        let more = if sum > 0.0 { spare * share / sum } else { spare / shares.len() as f64 };
        // Rounded down, so that the sum does not exceed the total.
        (1 + more as u32).min((*members).max(1))
    };
    shares.iter().zip(members).map(count).collect()
}

/// Returns the first bucket of each cluster, and its number of buckets.
pub(super) fn starts(counts: &[u32]) -> [(u32, u32); MOST_CLUSTERS] {
    let mut table = [(0, 1); MOST_CLUSTERS];
    let mut start = 0;
    for (entry, count) in table.iter_mut().zip(counts) {
        *entry = (start, *count);
        start += count;
    }
    table
}

/// Returns the mean of each bucket, cluster by cluster; 0 for a bucket without values.
pub(super) fn means(gradient: &[f32], nearest: &Nearest, counts: &[u32]) -> Vec<f32> {
    let cells = Cells::new(nearest, counts);
    // The parts and the order of their addition do not depend on the number of cores. So the same gradient always gives
    // the same code.
    let part = gradient.len().max(1).div_ceil(MOST_PARTS).next_multiple_of(PIECE);
    let fill = |(part_number, values): (usize, &[f32])| cells.add_up(values, part_number * part);
    let parts: Vec<Vec<Sum>> = gradient.par_chunks(part).enumerate().map(fill).collect();
    let mean = |cells: Range<usize>| {
        let sums = cells.flat_map(|cell| parts.iter().map(move |part| part[cell]));
        let [sum, count] = sums.fold(Sum::default(), |total, sum| [total[0] + sum[0], total[1] + sum[1]]);
        if count > 0.0 { (sum / count) as f32 } else { 0.0 }
    };
    of_buckets(counts).into_par_iter().with_min_len(BLOCK).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    #[test]
    fn buckets_are_in_proportion_within_the_limits() {
        assert_eq!(allot(104, &[0.1, 0.2, 0.7], &[1000, 1000, 1000]), [11, 21, 71]);
        assert_eq!(allot(104, &[0.1, 0.2, 0.7], &[1000, 5, 0]), [11, 5, 1]);
        assert_eq!(allot(10, &[0.0, 0.0], &[100, 100]), [5, 5]);
        assert_eq!(allot(1, &[0.5, 0.5], &[3, 3]), [1, 1]);
        assert_eq!(allot(10, &[], &[]), []);
    }

    #[test]
    fn a_bucket_stands_for_the_mean_of_its_values() {
        let gradient: Vec<f32> =
            (0..10_000).map(|at| if at % 2 == 0 { 1.0 + at as f32 } else { -3.0 }).collect();
        let nearest = Nearest::new(&[-3.0, 1.0]);
        let means = means(&gradient, &nearest, &[1, 7]);
        assert_eq!(means[0], -3.0);
        for bucket in 0..7 {
            let members: Vec<f64> = (0..10_000_u32)
                .filter(|at| at % 2 == 0 && hash::bucket(*at, 7) == bucket)
                .map(|at| f64::from(gradient[at as usize]))
                .collect();
            let mean = members.iter().sum::<f64>() / members.len() as f64;
            assert!((f64::from(means[1 + bucket as usize]) - mean).abs() < 1e-2);
        }
    }
}
