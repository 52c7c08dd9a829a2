//! The pace at which results come.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// The number of spans that are kept.
const SPANS: usize = 8;
/// The number of shortest spans that are averaged.
/// Most other spans contain a wait for a member's loss. If a worker waited longer because of them, it would lose more
/// time.
const COUNT_OF_SPANS: usize = 2;

/// The time from one result to the next.
///
/// It is measured over spans, not from one result to the next, because a queue that passes joined packets at once
/// delivers results in groups, without time between the results of a group. A span has as many results as were in
/// flight when it began. So the position in a group at which a span begins does not matter, unless groups are larger
/// than the number of slices in flight.
#[derive(Debug, Clone, Default)]
pub(super) struct Spacing {
    mean: Duration,
    /// The durations of the last spans, each divided by its number of results.
    spans: VecDeque<Duration>,
    /// The time of the result at which the present span begins; `None` in a pause.
    begin: Option<Time>,
    /// The number of results that the present span needs. `results` is the number that it has.
    goal: u32,
    results: u32,
}

impl Spacing {
    /// Ends the present span without a measurement, because no result was awaited or the awaited results
    /// did not come.
    pub(super) fn pause(&mut self) {
        self.begin = None;
    }

    /// Records a result. `in_flight` is the number of slices in flight, including the slice of this result.
    pub(super) fn result(&mut self, now: Time, in_flight: u64) {
        let goal = u32::try_from(in_flight).unwrap_or(u32::MAX).max(1);
        let Some(begin) = self.begin else { return self.begin(now, goal) };
        self.results += 1;
        let spacing = (now - begin) / self.results;
        if !self.is_known() {
            // An early estimate is needed, because the first round trips, through empty queues, are far too short.
            self.mean = spacing;
        }
        if self.results >= self.goal {
            if self.spans.len() == SPANS {
                self.spans.pop_front();
            }
            self.spans.push_back(spacing);
            self.mean = self.mean_of_shortest();
            self.begin(now, goal);
        }
    }

    fn begin(&mut self, now: Time, goal: u32) {
        self.begin = Some(now);
        self.goal = goal;
        self.results = 0;
    }

    /// Returns true if a span has been measured.
    pub(super) fn is_known(&self) -> bool {
        !self.spans.is_empty()
    }

    /// Returns the time that `results` results take; zero before the first span.
    pub(super) fn of(&self, results: u64) -> Duration {
        self.mean.saturating_mul(u32::try_from(results).unwrap_or(u32::MAX))
    }

    fn mean_of_shortest(&self) -> Duration {
        let mut spans = [Duration::MAX; SPANS];
        for (place, span) in spans.iter_mut().zip(&self.spans) {
            *place = *span;
        }
        spans.sort_unstable();
        let count = (self.spans.len() * COUNT_OF_SPANS / SPANS).max(1);
        spans.iter().take(count).sum::<Duration>() / count as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Makes a spacing after `groups` groups of results, one in each `period`, with `in_flight` slices in
    /// flight.
    fn after_groups(groups: u32, size: u32, period: Duration, in_flight: u64) -> Spacing {
        let mut spacing = Spacing::default();
        for group in 1..=groups {
            (0..size).for_each(|_| spacing.result(Time::ZERO + period * group, in_flight));
        }
        spacing
    }

    #[test]
    fn is_known_from_the_second_result_on() {
        assert_eq!(after_groups(1, 1, MS, 16).of(16), Duration::ZERO);
        for results in 2..40 {
            assert_eq!(after_groups(results, 1, MS, 16).of(16), 16 * MS);
        }
    }

    #[test]
    fn a_pause_is_no_pace() {
        let mut spacing = after_groups(17, 1, MS, 16);
        for round in 1..=20 {
            spacing.pause();
            let start = Time::ZERO + 1000 * MS * round;
            (1..=17).for_each(|result| spacing.result(start + MS * result, 16));
        }
        assert_eq!(spacing.of(16), 16 * MS);
    }

    #[test]
    fn outages_do_not_count_while_some_spans_have_none() {
        let mut spacing = after_groups(1 + 2 * 16, 1, MS, 16);
        let mut now = Time::ZERO + MS * 33;
        for _ in 0..6 {
            now = now + 5000 * MS;
            (0..16).for_each(|result| spacing.result(now + MS * result, 16));
            now = now + 15 * MS;
        }
        assert_eq!(spacing.of(16), 16 * MS);
    }

    proptest! {
        /// Results may come in any groups that are not larger than the number of slices in flight.
        #[test]
        fn groups_do_not_count_as_a_faster_pace(size in 1u32..64, windows in 1u64..8) {
            let in_flight = u64::from(size) * windows;
            let spacing = after_groups(40 * windows as u32, size, 10 * MS, in_flight + 1);
            let true_pace = 10 * MS * windows as u32;
            let measured = spacing.of(in_flight);
            prop_assert!(measured >= true_pace.mul_f64(0.6), "{measured:?} for {true_pace:?}");
            prop_assert!(measured <= true_pace.mul_f64(1.7), "{measured:?} for {true_pace:?}");
        }
    }
}
