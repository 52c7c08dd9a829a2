//! The time for which no packet has hit an entry.

use std::time::{Duration, Instant};

/// The idle timer of an entry.
#[derive(Debug, Clone)]
pub(crate) struct Idle {
    /// The timeout; zero if the switch does not notify the controller.
    timeout: Duration,
    last_hit: Instant,
    /// Time of the last notification of the controller.
    told: Option<Instant>,
}

impl Default for Idle {
    fn default() -> Self {
        Self { timeout: Duration::ZERO, last_hit: Instant::now(), told: None }
    }
}

impl Idle {
    /// Records that a packet has hit the entry.
    #[inline]
    pub(crate) fn hit(&mut self) {
        self.last_hit = Instant::now();
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sets the timeout, and starts the clock again.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        *self = Self { timeout, ..Self::default() };
    }

    pub(crate) fn since_last_hit(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_hit)
    }

    /// Returns true if the switch must notify the controller now.
    /// The next notification is due after another timeout.
    pub(crate) fn expires(&mut self, now: Instant) -> bool {
        let since = self.told.map_or(self.last_hit, |told| told.max(self.last_hit));
        let expired = !self.timeout.is_zero() && now.saturating_duration_since(since) >= self.timeout;
        if expired {
            self.told = Some(now);
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_entry_is_told_once_a_timeout() {
        let mut idle = Idle::default();
        let (start, second) = (idle.last_hit, Duration::from_secs(1));
        assert!(!idle.expires(start + 1000 * second));
        idle.set_timeout(2 * second);
        let start = idle.last_hit.max(start);
        assert!(!idle.expires(start + second) && idle.expires(start + 2 * second));
        assert!(!idle.expires(start + 3 * second) && idle.expires(start + 4 * second));
        assert_eq!(idle.since_last_hit(start + 4 * second), 4 * second);
    }
}
