//! Waits between connection attempts.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(1);

/// Doubling waits, each shortened a little at random.
/// The random part keeps hosts that have lost the same controller from reconnecting at the same moment.
#[derive(Debug, Clone)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Returns the next wait, and doubles the one after it.
    fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(MOST);
        wait.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Waits for the next backoff time.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    /// Starts again with the shortest wait, after an attempt has succeeded.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_second_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let mut waits = || (0..10).map(|_| backoff.next()).collect::<Vec<_>>();
        let expected = [50, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000].map(Duration::from_millis);
        for (wait, most) in waits().into_iter().zip(expected) {
            assert!((most / 2..=most).contains(&wait), "{wait:?} of {most:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
