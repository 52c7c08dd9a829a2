//! The control of the number of slices in flight, and of the number of slices that leave together.
//!
//! The window is the upper limit of the slices in flight.

use std::time::Duration;

/// The smallest limit of slices in flight. It is also the initial limit.
const FLOOR: f64 = 16.0;
/// A round trip up to this duration never counts as too long, even if the shortest round trip was much
/// shorter.
const SHORT_ENOUGH: Duration = Duration::from_millis(5);
/// The number of slices by which a long round trip reduces the limit, and by which a short one
/// increases it.
const STEP: f64 = 0.25;
/// The time for which slices wait so that they can leave together:
/// a group crosses the network in this time.
/// It is longer than the millisecond of data that TCP gives its interface to segment (TSO autosizing). It is also
/// longer than the data that a port joins into one frame, if the token bucket of its link has a burst of a millisecond.
/// In measurements of values from 0.75 to 6 ms, this value took the least time.
const TOGETHER: Duration = Duration::from_micros(1500);
/// The minimum number of groups in flight, so that the network stays busy while one group waits to be
/// complete.
const GROUPS: u64 = 4;

/// The limit of slices in flight, controlled by round trips.
///
/// It grows while round trips are short and shrinks while they are long, as in Vegas and LEDBAT. Losses are not a
/// signal here: with tens of links behind one result, random losses are more frequent than full queues, and a worker
/// that slowed down for them would stop. A growing queue, a slow member and a shared core all show in the round trip
/// before a packet is dropped.
///
/// Each result makes room for one slice. If the slice left at once, a bottleneck's frames, which come out of it one by
/// one, would stay apart permanently, and each would cost a timer, an interrupt and a wake-up on every link. So slices
/// wait until the limit has room for as many as cross the network in [`TOGETHER`]. Slices that leave together, and
/// their results, stay together on their way through queues and switches that take joined frames.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    window: f64,
    limit: f64,
    shortest: Option<Duration>,
    /// True until a round trip is too long. Until then, the limit doubles with every round trip.
    starting: bool,
    /// True while a group of slices is leaving. There was room for all of it.
    leaving: bool,
}

impl Pace {
    pub(crate) fn new(window: u32) -> Self {
        let window = f64::from(window);
        Self { window, limit: FLOOR.min(window), shortest: None, starting: true, leaving: false }
    }

    /// Forgets the shortest round trip, because the paths have changed and the new ones may be longer.
    pub(crate) fn restart(&mut self) {
        self.shortest = None;
        self.starting = true;
    }

    /// Returns the number of slices that may be in flight.
    pub(crate) fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// Returns true if a new slice may leave, with `in_flight` slices in flight and this mean round trip.
    pub(crate) fn admits(&mut self, in_flight: u64, round_trip: Option<Duration>) -> bool {
        let goes_on = self.leaving && in_flight < self.limit();
        self.leaving = goes_on || !self.is_full(in_flight, round_trip);
        self.leaving
    }

    /// Returns true if the limit leaves no room for a group of slices.
    pub(crate) fn is_full(&self, in_flight: u64, round_trip: Option<Duration>) -> bool {
        in_flight + self.together(round_trip) > self.limit()
    }

    /// Records that no slice is ready to leave: the next slices are a group of their own.
    pub(crate) fn pause(&mut self) {
        self.leaving = false;
    }

    /// Returns the number of slices that leave together.
    /// By Little's law, it is the number of slices whose results come within [`TOGETHER`]. By the same law, a part of
    /// the slices in flight waits in queues. A group larger than that part would leave the links idle.
    fn together(&self, round_trip: Option<Duration>) -> u64 {
        let (Some(round_trip), Some(shortest)) = (round_trip, self.shortest) else { return 1 };
        let share = |part: Duration| {
            part.as_secs_f64() / round_trip.max(part).max(Duration::from_nanos(1)).as_secs_f64()
        };
        let (answered, queued) = (self.limit * share(TOGETHER), self.limit * (1.0 - share(shortest)));
        (answered.min(queued) as u64).clamp(1, (self.limit() / GROUPS).max(1))
    }

    /// Adapts the limit to a measured round trip. `in_use` is true if the limit delayed slices.
    pub(crate) fn sample(&mut self, round_trip: Duration, in_use: bool) {
        let shortest = self.shortest.map_or(round_trip, |shortest| shortest.min(round_trip));
        self.shortest = Some(shortest);
        if round_trip > (shortest * 2).max(SHORT_ENOUGH) {
            self.starting = false;
            self.limit -= STEP;
        } else if in_use {
            self.limit += if self.starting { 1.0 } else { STEP };
        }
        self.limit = self.limit.clamp(FLOOR.min(self.window), self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the number of slices that leave together when `answered` results arrive while the limit of
    /// slices is in flight.
    fn leave(pace: &mut Pace, answered: u64, round_trip: Option<Duration>) -> u64 {
        let mut in_flight = pace.limit() - answered;
        let from = in_flight;
        while pace.admits(in_flight, round_trip) {
            in_flight += 1;
        }
        in_flight - from
    }

    #[test]
    fn slices_of_a_short_time_leave_together() {
        let mut pace = Pace::new(64);
        (0..100).for_each(|_| pace.sample(MS, true));
        // 64 slices in 24 ms are 4 slices in 1.5 ms.
        assert_eq!(
            [1, 2, 3, 4, 5].map(|answered| leave(&mut pace, answered, Some(24 * MS))),
            [0, 0, 0, 4, 5]
        );
        // On a fast path there are at least four groups. On a slow path a slice does not wait.
        assert_eq!([15, 16].map(|answered| leave(&mut pace, answered, Some(2 * MS))), [0, 16]);
        assert_eq!(leave(&mut pace, 1, Some(100 * MS)), 1);
        // The same holds before the first measurement.
        assert_eq!(leave(&mut pace, 1, None), 1);
    }

    #[test]
    fn where_nothing_queues_no_slice_waits() {
        let mut pace = Pace::new(64);
        (0..100).for_each(|_| pace.sample(4 * MS, true));
        assert_eq!(leave(&mut pace, 1, Some(4 * MS)), 1);
        // A fifth of the slices is in queues.
        assert_eq!([11, 12].map(|answered| leave(&mut pace, answered, Some(5 * MS))), [0, 12]);
    }

    #[test]
    fn a_group_that_ran_out_of_slices_is_over() {
        let mut pace = Pace::new(64);
        (0..100).for_each(|_| pace.sample(MS, true));
        assert!(pace.admits(40, Some(24 * MS)) && pace.admits(62, Some(24 * MS)));
        pace.pause();
        assert!(!pace.admits(62, Some(24 * MS)));
    }

    #[test]
    fn grows_to_the_window_while_round_trips_are_short() {
        let mut pace = Pace::new(64);
        assert_eq!(pace.limit(), 16);
        (0..10).for_each(|_| pace.sample(MS, true));
        assert_eq!(pace.limit(), 26);
        (0..100).for_each(|_| pace.sample(MS, true));
        assert_eq!(pace.limit(), 64);
    }

    #[test]
    fn shrinks_to_the_floor_while_they_are_long_and_recovers() {
        let mut pace = Pace::new(64);
        (0..20).for_each(|_| pace.sample(4 * MS, true));
        (0..400).for_each(|_| pace.sample(20 * MS, true));
        assert_eq!(pace.limit(), 16);
        (0..8).for_each(|_| pace.sample(4 * MS, true));
        assert_eq!(pace.limit(), 18);
    }

    #[test]
    fn does_not_grow_when_nothing_is_held_back() {
        let mut pace = Pace::new(64);
        (0..100).for_each(|_| pace.sample(MS, false));
        assert_eq!(pace.limit(), 16);
    }

    #[test]
    fn a_new_way_may_be_longer_than_the_old_one() {
        let mut pace = Pace::new(64);
        pace.sample(MS, true);
        pace.restart();
        (0..40).for_each(|_| pace.sample(20 * MS, true));
        assert_eq!(pace.limit(), 57);
    }

    #[test]
    fn never_leaves_a_small_window() {
        let mut pace = Pace::new(2);
        pace.sample(MS, true);
        assert_eq!(pace.limit(), 2);
    }
}
