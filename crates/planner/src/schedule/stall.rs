//! Stalls during a profile.

use std::time::Duration;

use super::cluster::Cluster;

/// A gap longer than this many median gaps is at first taken for a stall.
pub const MAX_GAP: u32 = 3;

/// A gap in a profile that is much longer than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The last gradient before the gap, by its index in the model.
    pub after: usize,
    /// The first gradient after it.
    pub before: usize,
    /// Its length.
    pub gap: Duration,
    /// The median length of all gaps; of an even number of gaps the lower of the middle two, so that one of
    /// two gaps can be long.
    pub median: Duration,
}

impl Stall {
    /// The longest gap between the clusters of a pass, if it is longer than [`MAX_GAP`] median gaps.
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

    /// Returns true if this is the same gap, measured again: then the model computes, and did not stall.
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
