//! Whether this controller itself has stood still: stopped, or without a processor for long.

use std::time::Duration;

use tokio::time::Instant;

/// Without a beat for so long it has. Beats come every [`PROBE_INTERVAL`](super::PROBE_INTERVAL).
const STANDSTILL: Duration = Duration::from_secs(1);

/// Tells a standstill of the controller from the silence of others, who cannot be heard meanwhile and have given their
/// connections up when it is over.
#[derive(Debug)]
pub(crate) struct Pulse {
    last: Instant,
    woke: Option<Instant>,
}

impl Pulse {
    /// Of a controller that starts.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, woke: None }
    }

    /// The controller is at work.
    pub(crate) fn beat(&mut self, now: Instant) {
        self.woke = self.woke(now);
        self.last = now;
    }

    /// When the last standstill was over. Whoever asks may be the first one at work after it.
    pub(crate) fn woke(&self, now: Instant) -> Option<Instant> {
        if now.duration_since(self.last) >= STANDSTILL { Some(now) } else { self.woke }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_without_beats_is_a_standstill_of_its_own() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut pulse = Pulse::new(start);
        for beat in [100, 200, 900] {
            pulse.beat(at(beat));
            assert_eq!(pulse.woke(at(beat + 99)), None);
        }
        assert_eq!(pulse.woke(at(5000)), Some(at(5000)), "known before the first beat");
        pulse.beat(at(5001));
        pulse.beat(at(5100));
        assert_eq!(pulse.woke(at(5200)), Some(at(5001)));
        pulse.beat(at(9000));
        assert_eq!(pulse.woke(at(9001)), Some(at(9000)));
    }
}
