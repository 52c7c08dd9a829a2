//! The parts of a process's elements that the stripes of a worker reduce.

use std::io;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tributary_protocol::{Collective, StripedReduced, Sums, stripe_ranges};
use tributary_wire::SliceWidth;

use super::account::Account;
use super::results::{copy, keep};
use super::segment::{ElementRange, Segment};
use crate::worker::WorkerAgent;

/// Divides the elements of a collective among the stripes of the agent.
/// There is one part if one stripe reduces all elements.
pub(super) fn divide(
    agent: &WorkerAgent,
    place: ElementRange,
    collective: &Collective,
) -> Vec<(ElementRange, Collective)> {
    // The worker refuses a reduce-scatter whose parts are not all of the elements, but not each part of it.
    let is_whole = collective.owned().is_none_or(|owned| owned == place.count());
    let stripes = if is_whole { agent.stripes } else { 1 };
    let ranges = stripe_ranges(stripes, &place.tensor(), agent.width);
    if ranges.len() < 2 {
        return vec![(place, collective.clone())];
    }
    ranges.into_iter().map(|range| (place.within(&range), collective.within(&range))).collect()
}

/// Returns the bytes of memory that the agent needs to reduce all parts in slices of this width.
pub(super) fn memory_to_reduce(parts: &[(ElementRange, Collective)], width: SliceWidth) -> u64 {
    parts.iter().map(|(place, _)| place.memory_to_reduce(width)).fold(0, u64::saturating_add)
}

/// Returns the number of elements of each part.
pub(super) fn counts(parts: &[(ElementRange, Collective)]) -> Vec<usize> {
    parts.iter().map(|(place, _)| place.count()).collect()
}

/// Writes the sums of all stripes to `place`.
///
/// # Errors
/// As for [`Segment::write`].
pub(super) async fn write(
    segment: &Arc<Segment>,
    place: ElementRange,
    sums: Vec<Arc<Sums>>,
) -> io::Result<()> {
    let mut end = 0;
    let write = |sums: Arc<Sums>| {
        let begin = end;
        end += sums.len();
        let (segment, part) = (Arc::clone(segment), place.within(&(begin..end)));
        copy(part, move || segment.write(part, &sums))
    };
    try_join_all(sums.into_iter().map(write)).await.map(drop)
}

/// Keeps the vectors of sums for later all-reduces, except those that another task still uses.
pub(super) fn keep_all(account: &Account, sums: Vec<Arc<Sums>>) {
    sums.into_iter().filter_map(Arc::into_inner).for_each(|sums| keep(account, sums));
}

/// Returns the sums of all stripes, in order.
pub(super) fn sums_of(reduced: StripedReduced) -> Vec<Arc<Sums>> {
    let StripedReduced { reduced, further } = reduced;
    std::iter::once(reduced.sums).chain(further).map(Arc::new).collect()
}
