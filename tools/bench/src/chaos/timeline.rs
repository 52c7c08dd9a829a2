//! The times at which each member received the sum of each all-reduce, and the gaps in between.

use std::time::Duration;

use super::event::Moment;

/// An all-reduce whose sum a member has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Completed {
    at: Moment,
    /// True if all members contributed to the sum.
    full: bool,
}

/// The all-reduces since the last [`restart`](Timeline::restart), and the last one before the restart.
#[derive(Debug)]
pub(super) struct Timeline {
    /// For each rank, its sums ordered by time.
    ranks: Vec<Vec<Completed>>,
}

impl Timeline {
    /// Makes an empty timeline for this number of ranks.
    pub(super) fn new(ranks: usize) -> Self {
        Self { ranks: vec![Vec::new(); ranks] }
    }

    /// Notes that a rank has received a sum. `full` is true if all members contributed to the sum.
    pub(super) fn note(&mut self, rank: usize, at: Moment, full: bool) {
        if let Some(completed) = self.ranks.get_mut(rank) {
            completed.push(Completed { at, full });
        }
    }

    /// Removes all sums except the last one of each rank.
    pub(super) fn restart(&mut self) {
        for completed in &mut self.ranks {
            let last = completed.last().copied();
            *completed = last.into_iter().collect();
        }
    }

    /// Returns all gaps between two consecutive sums of a rank.
    pub(super) fn gaps(&self) -> impl Iterator<Item = Duration> {
        self.ranks.iter().flat_map(|completed| completed.windows(2)).map(|pair| pair[1].at.since(pair[0].at))
    }

    /// Returns the rank's longest gap between two consecutive sums.
    ///
    /// Only gaps that ended after `from` and began before `until` count. A gap that is still open lasts until
    /// `until`. A rank that never had a sum has one open gap.
    pub(super) fn longest_gap(&self, rank: usize, from: Moment, until: Moment) -> Duration {
        let all = self.ranks.get(rank).map_or(&[][..], Vec::as_slice);
        let moments: Vec<_> = all.iter().map(|completed| completed.at).collect();
        let (first, last) =
            (moments.first().copied().unwrap_or(from), moments.last().copied().unwrap_or(from));
        let open = [(first.min(from), first), (last, until)];
        let gaps = moments.windows(2).map(|pair| (pair[0], pair[1])).chain(open);
        let within = gaps.filter(|(begin, end)| *end > from && *begin < until);
        within.map(|(begin, end)| end.since(begin)).max().unwrap_or_default()
    }

    /// Returns the time at which the rank received its first sum after `moment`.
    /// With `full`, only sums over all members count.
    pub(super) fn first_after(&self, rank: usize, moment: Moment, full: bool) -> Option<Moment> {
        let mut later = self.ranks.get(rank)?.iter().filter(|completed| completed.at > moment);
        later.find(|completed| completed.full || !full).map(|completed| completed.at)
    }

    /// Returns the ranks that received no sum over all members after `moment`.
    pub(super) fn not_back(&self, moment: Moment) -> Vec<usize> {
        (0..self.ranks.len()).filter(|rank| self.first_after(*rank, moment, true).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Moment = Moment::of_millis;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Makes a timeline in which rank 0 received sums at these times, in milliseconds.
    fn timeline(at: &[u64]) -> Timeline {
        let mut timeline = Timeline::new(2);
        at.iter().for_each(|at| timeline.note(0, AT(*at), true));
        timeline
    }

    #[test]
    fn a_pause_is_the_longest_gap_that_touches_the_disturbance() {
        let timeline = timeline(&[0, 500, 510, 520, 800, 810, 1500]);
        assert_eq!(timeline.longest_gap(0, AT(515), AT(810)), MS(280));
        assert_eq!(timeline.longest_gap(0, AT(505), AT(520)), MS(10));
        assert_eq!(timeline.longest_gap(0, AT(515), AT(811)), MS(690), "it had begun");
        assert_eq!(timeline.longest_gap(0, AT(499), AT(510)), MS(500), "it was not over");
        assert_eq!(timeline.longest_gap(0, AT(1500), AT(4000)), MS(2500), "it is not over");
        assert_eq!(timeline.longest_gap(1, AT(100), AT(400)), MS(300), "it never had a sum");
        assert_eq!(timeline.longest_gap(7, AT(100), AT(400)), MS(300), "there is no such rank");
    }

    #[test]
    fn the_last_sum_before_a_restart_is_where_the_next_gap_begins() {
        let mut timeline = timeline(&[100, 200]);
        assert_eq!(timeline.gaps().collect::<Vec<_>>(), [MS(100)]);
        timeline.restart();
        assert_eq!(timeline.gaps().count(), 0);
        timeline.note(0, AT(700), true);
        assert_eq!(timeline.longest_gap(0, AT(250), AT(700)), MS(500));
    }

    #[test]
    fn a_member_is_back_when_it_has_a_sum_over_all() {
        let mut timeline = timeline(&[100]);
        timeline.note(1, AT(150), true);
        timeline.note(1, AT(250), false);
        timeline.note(0, AT(300), true);
        assert_eq!(timeline.first_after(1, AT(200), false), Some(AT(250)));
        assert_eq!(timeline.first_after(1, AT(200), true), None);
        assert_eq!(timeline.not_back(AT(200)), [1]);
        timeline.note(1, AT(400), true);
        assert!(timeline.not_back(AT(200)).is_empty());
    }
}
