//! The controller's clock, and the offsets between it and the clocks of hosts.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of a host's last messages that are kept. More than one, so that a delayed message does not
/// count.
const KEPT: usize = 8;

/// Returns the controller's time in milliseconds since 1970.
pub(crate) fn unix_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a duration to milliseconds, the unit of the API's messages.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The offset of a host's clock from the controller's, estimated from the times that the host reports.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClockOffset(VecDeque<i64>);

impl ClockOffset {
    /// Notes that a message arrived at `own`. The host sent it at `theirs` by its own clock. Both times are
    /// in milliseconds.
    pub(crate) fn note(&mut self, theirs: u64, own: u64) {
        let signed = |time| i64::try_from(time).unwrap_or(i64::MAX);
        self.0.push_back(signed(theirs).saturating_sub(signed(own)));
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// Returns the milliseconds that the host's clock is ahead of the controller's; 0 before the first
    /// message.
    /// It uses the message with the shortest delay, because a delay makes the host's clock look late.
    pub(crate) fn ahead(&self) -> i64 {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_were_held_up_do_not_count_and_old_ones_are_forgotten() {
        let mut offset = ClockOffset::default();
        assert_eq!(offset.ahead(), 0);
        for (theirs, own) in [(1_000, 1_900), (2_000, 2_003), (3_000, 9_000)] {
            offset.note(theirs, own);
        }
        assert_eq!(offset.ahead(), -3);
        for _ in 0..KEPT {
            offset.note(70_000, 10_000);
        }
        assert_eq!(offset.ahead(), 60_000);
        // The host's clock is set back. The estimate forgets earlier messages after `KEPT` messages.
        for _ in 0..KEPT {
            offset.note(u64::MAX, u64::MAX);
        }
        assert_eq!(offset.ahead(), 0);
    }
}
