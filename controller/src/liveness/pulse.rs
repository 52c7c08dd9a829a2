//! Whether this controller itself has stood still, or was cut off from everyone: stopped, without a processor for long,
//! or without its network.

use std::time::Duration;

use tokio::time::Instant;

/// Without a beat for so long it has. Beats come every [`PROBE_INTERVAL`](super::PROBE_INTERVAL).
const STANDSTILL: Duration = Duration::from_secs(1);

/// A time in which this controller could not hear anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standstill {
    pub(crate) from: Instant,
    /// The time of the question, while it lasts.
    pub(crate) to: Instant,
}

/// Tells a standstill of the controller from the silence of others, who cannot be heard meanwhile and have given their
/// connections up when it is over.
#[derive(Debug)]
pub(crate) struct Pulse {
    last: Instant,
    standstill: Option<Standstill>,
}

impl Pulse {
    /// Of a controller that starts.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, standstill: None }
    }

    /// The controller is at work, and hears somebody, or there is nobody to be heard. `Some`: a standstill is over.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<Standstill> {
        let over = (!self.is_steady(now)).then_some(Standstill { from: self.last, to: now });
        self.standstill = over.or(self.standstill);
        self.last = now;
        over
    }

    /// It does not stand still now.
    pub(crate) fn is_steady(&self, now: Instant) -> bool {
        now.duration_since(self.last) < STANDSTILL
    }

    /// The last standstill. Whoever asks may be the first one at work after it.
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
        let mut pulse = Pulse::new(start);
        for beat in [100, 200, 900] {
            assert_eq!(pulse.beat(at(beat)), None);
            assert_eq!(pulse.standstill(at(beat + 99)), None);
        }
        assert_eq!(pulse.standstill(at(5000)), standstill(900, 5000), "known before the first beat");
        assert_eq!(pulse.beat(at(5001)), standstill(900, 5001));
        assert_eq!(pulse.beat(at(5100)), None);
        assert_eq!(pulse.standstill(at(5200)), standstill(900, 5001));
        pulse.beat(at(9000));
        assert_eq!(pulse.standstill(at(9001)), standstill(5100, 9000));
    }
}
