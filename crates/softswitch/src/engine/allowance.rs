//! Limits the frames from each port that go to the controller.
//!
//! All ports share one connection to the controller. A flood from one port must not block the
//! frames of other ports.

use std::time::{Duration, Instant};

/// Maximum number of frames from a port to the controller per second, and in one burst.
/// Cables are probed ten times a second.
const A_SECOND: u32 = 100;
const EACH_TAKES: Duration = Duration::from_millis(1000 / A_SECOND as u64);

/// The number of frames that a port may still send to the controller.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowance {
    /// The time at which the full allowance is available again; `None` before the first frame.
    whole_at: Option<Instant>,
}

impl Allowance {
    /// Takes the allowance for one frame, if enough is left, and returns true if it was.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let whole_at = self.whole_at.map_or(now, |at| at.max(now)) + EACH_TAKES;
        let there_is = whole_at - now <= EACH_TAKES * A_SECOND;
        if there_is {
            self.whole_at = Some(whole_at);
        }
        there_is
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(allowance: &mut Allowance, now: Instant) -> u32 {
        (0..10 * A_SECOND).map(|_| u32::from(allowance.take(now))).sum()
    }

    #[test]
    fn a_flood_gets_a_seconds_worth_at_once_and_then_as_much_a_second() {
        let (mut allowance, start) = (Allowance::default(), Instant::now());
        assert_eq!(taken(&mut allowance, start), A_SECOND);
        assert_eq!(taken(&mut allowance, start + EACH_TAKES / 2), 0);
        assert_eq!(taken(&mut allowance, start + EACH_TAKES * 3), 3);
        assert_eq!(taken(&mut allowance, start + Duration::from_secs(3600)), A_SECOND);
    }

    #[test]
    fn who_sends_at_that_rate_loses_nothing() {
        let (mut allowance, start) = (Allowance::default(), Instant::now());
        assert!((0..1000).all(|n| allowance.take(start + EACH_TAKES * n)));
    }
}
