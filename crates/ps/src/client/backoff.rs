//! Waits between attempts.

use std::time::Duration;

use rand::RngExt;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Waits that double, up to two seconds. Each wait is shortened at random, to at least a half, so that
/// workers that have lost the same server do not all reconnect at once.
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST }
    }

    pub(super) fn wait(&mut self) -> Duration {
        let wait = self.next.mul_f64(rand::rng().random_range(0.5..=1.0));
        self.next = (self.next * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_bounded() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..20).map(|_| backoff.wait()).collect();
        assert!(waits[0] <= FIRST && waits[0] >= FIRST / 2);
        assert!(waits[10..].iter().all(|wait| *wait <= LONGEST && *wait >= LONGEST / 2));
    }
}
