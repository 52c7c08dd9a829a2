//! Detects that this process itself stood still or had no network: it was stopped, had no processor
//! for a long time, or lost its connections.

use std::time::Duration;

use tokio::time::Instant;

/// A period in which this process could not receive messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standstill {
    /// The time of the last tick before the standstill.
    pub from: Instant,
    /// The end of the standstill; if it still lasts, the time of the request.
    pub to: Instant,
}

/// Distinguishes a standstill of this process from the silence of its peers. During a standstill, the
/// process receives nothing, and afterwards its peers have closed their connections.
#[derive(Debug)]
pub struct StandstillDetector {
    /// The shortest time without a tick that is a standstill.
    least: Duration,
    last: Instant,
    standstill: Option<Standstill>,
}

impl StandstillDetector {
    /// Creates the detector of a process that starts. A time of `least` without a [`tick`](Self::tick) is
    /// a standstill.
    pub fn new(least: Duration, now: Instant) -> Self {
        Self { least, last: now, standstill: None }
    }

    /// Notes that the process is running, and that it receives messages or expects none. Returns the
    /// standstill that this tick ends, if any.
    pub fn tick(&mut self, now: Instant) -> Option<Standstill> {
        let over = (!self.is_steady(now)).then_some(Standstill { from: self.last, to: now });
        self.standstill = over.or(self.standstill);
        self.last = now;
        over
    }

    /// Returns true if the process is not in a standstill.
    pub fn is_steady(&self, now: Instant) -> bool {
        now.duration_since(self.last) < self.least
    }

    /// Returns the last standstill. It may still last, because the caller may be the first code that runs
    /// after it.
    pub fn standstill(&self, now: Instant) -> Option<Standstill> {
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
        let mut detector = StandstillDetector::new(Duration::from_secs(1), start);
        for tick in [100, 200, 900] {
            assert_eq!(detector.tick(at(tick)), None);
            assert_eq!(detector.standstill(at(tick + 99)), None);
        }
        assert_eq!(detector.standstill(at(5000)), standstill(900, 5000), "known before the first tick");
        assert_eq!(detector.tick(at(5001)), standstill(900, 5001));
        assert_eq!(detector.tick(at(5100)), None);
        assert_eq!(detector.standstill(at(5200)), standstill(900, 5001));
        detector.tick(at(9000));
        assert_eq!(detector.standstill(at(9001)), standstill(5100, 9000));
    }
}
