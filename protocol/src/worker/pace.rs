//! How many slices to have in flight: the window is the most, not the least.

use std::time::Duration;

/// The least number of slices in flight, and the one to begin with.
const FLOOR: f64 = 16.0;
/// A round trip that is never too long, however short the shortest was.
const SHORT_ENOUGH: Duration = Duration::from_millis(5);
/// What one round trip that is too long takes off the limit, or one that is short adds.
const STEP: f64 = 0.25;

/// Grows while round trips are short and shrinks while they are long, as Vegas and LEDBAT do. Losses say nothing
/// here: with tens of links behind one result, random ones are more frequent than full queues, and whoever
/// slowed down for them would stand still. A queue that fills, a member that falls behind, a core that is
/// shared: all show in the round trip before anything is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    window: f64,
    limit: f64,
    shortest: Option<Duration>,
    /// No round trip was too long yet: the limit doubles with every one.
    starting: bool,
}

impl Pace {
    pub(crate) fn new(window: u32) -> Self {
        let window = f64::from(window);
        Self { window, limit: FLOOR.min(window), shortest: None, starting: true }
    }

    /// The way has changed: what was short on the old one may be impossible on the new one.
    pub(crate) fn restart(&mut self) {
        self.shortest = None;
        self.starting = true;
    }

    /// Slices that may be in flight.
    pub(crate) fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// A round trip was measured; `in_use` says whether the limit held anything back.
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
