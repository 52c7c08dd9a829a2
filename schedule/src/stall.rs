//! What has held up a profile.

use std::time::Duration;

use crate::cluster::Cluster;

/// A gap that is so many times as long as the median one is taken for a stall, at first.
pub const MAX_GAP: u32 = 3;

/// A gap in a profile that is much longer than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The last gradient before it, by its place in the model.
    pub after: usize,
    /// The first one behind it.
    pub before: usize,
    /// Its length.
    pub gap: Duration,
    /// The median length of all gaps; of an even number of them the lower one in the middle, so that one of two can be long.
    pub median: Duration,
}

impl Stall {
    /// The longest gap between the clusters of a pass, if it is longer than [`MAX_GAP`] median ones.
    pub(crate) fn find(clusters: &[Cluster]) -> Option<Self> {
        let gap = |pair: &[Cluster]| {
            let [one, next] = pair else { return None };
            Some((next.start - one.end, *one.gradients.last()?, *next.gradients.first()?))
        };
        let mut gaps: Vec<_> = clusters.windows(2).filter_map(gap).collect();
        gaps.sort_unstable();
        let (median, ..) = *gaps.get(gaps.len().checked_sub(1)? / 2)?;
        let (gap, after, before) = *gaps.last()?;
        (gap > median * MAX_GAP).then_some(Self { after, before, gap, median })
    }

    /// Whether that is the same gap, measured once more: the model computes there, and nothing held it up.
    pub(crate) fn is_again(&self, earlier: &Self) -> bool {
        let (short, long) = (self.gap.min(earlier.gap), self.gap.max(earlier.gap));
        (self.after, self.before) == (earlier.after, earlier.before) && long < short * 2
    }
}

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { after, before, gap, median } = self;
        write!(
            f,
            "between gradients {after} and {before} nothing came for {gap:.1?}, and the median gap is {median:.1?}"
        )
    }
}
