//! Whether this controller itself has stood still or was cut off from everyone: it was stopped, had no processor for
//! long, or lost its network.

use std::time::Duration;

use tokio::time::Instant;

/// A standstill is this long without a beat. Beats come every [`PROBE_INTERVAL`](super::PROBE_INTERVAL).
const STANDSTILL: Duration = Duration::from_secs(1);

/// A time during which this controller could not hear anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standstill {
    pub(crate) from: Instant,
    /// While it lasts, the time at which it was asked for.
    pub(crate) to: Instant,
}

/// Distinguishes a standstill of the controller from the silence of others: during a standstill they cannot be heard,
/// and after it they have given up their connections.
#[derive(Debug)]
pub(crate) struct StandstillDetector {
    last: Instant,
    standstill: Option<Standstill>,
}

impl StandstillDetector {
    /// The detector of a controller that starts.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, standstill: None }
    }

    /// Notes that the controller is at work, and hears somebody or has nobody to hear. Returns the standstill that
    /// this ends, if any.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<Standstill> {
        let over = (!self.is_steady(now)).then_some(Standstill { from: self.last, to: now });
        self.standstill = over.or(self.standstill);
        self.last = now;
        over
    }

    /// Whether the controller is not standing still.
    pub(crate) fn is_steady(&self, now: Instant) -> bool {
        now.duration_since(self.last) < STANDSTILL
    }

    /// The last standstill, which may still last: the caller may be the first to run after it.
    pub(crate) fn standstill(&self, now: Instant) -> Option<Standstill> {
        match self.is_steady(now) {
            true => self.standstill,
            false => Some(Standstill { from: self.last, to: now }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_without_beats_is_a_standstill_of_its_own() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let standstill = |from, to| Some(Standstill { from: at(from), to: at(to) });
        let mut detector = StandstillDetector::new(start);
        for beat in [100, 200, 900] {
            assert_eq!(detector.beat(at(beat)), None);
            assert_eq!(detector.standstill(at(beat + 99)), None);
        }
        assert_eq!(detector.standstill(at(5000)), standstill(900, 5000), "known before the first beat");
        assert_eq!(detector.beat(at(5001)), standstill(900, 5001));
        assert_eq!(detector.beat(at(5100)), None);
        assert_eq!(detector.standstill(at(5200)), standstill(900, 5001));
        detector.beat(at(9000));
        assert_eq!(detector.standstill(at(9001)), standstill(5100, 9000));
    }
}
