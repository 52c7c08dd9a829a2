//! The detection of stalls in a profile.

use std::time::Duration;

use super::cluster::Cluster;

/// A gap longer than this number of median gaps counts as a stall at first.
pub const MAX_GAP: u32 = 3;

/// A gap in a profile that is much longer than the other gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The index, in the model, of the last gradient before the gap.
    pub after: usize,
    /// The index, in the model, of the first gradient after the gap.
    pub before: usize,
    /// The length of the gap.
    pub gap: Duration,
    /// The median length of all gaps.
    /// Of an even number of gaps, it is the lower of the middle two, so that one of two gaps can be a stall.
    pub median: Duration,
}

impl Stall {
    /// Returns the longest gap between the clusters of a pass, if it is longer than [`MAX_GAP`] median
    /// gaps.
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

    /// Returns true if `earlier` is a measurement of the same gap.
    /// Then the gap belongs to the model, and is not a stall.
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
            "between gradients {after} and {before} no gradient came for {gap:.1?}, while the median gap is \
             {median:.1?}"
        )
    }
}
