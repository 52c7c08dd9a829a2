//! The retransmission timeout, from measured round trips.

use std::time::Duration;

use crate::config::Timers;

/// Smoothed round trip and its variation, after RFC 6298 section 2.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    estimate: Option<Estimate>,
}

#[derive(Debug, Clone, Copy)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

impl RoundTrip {
    /// Takes in one measurement. The caller leaves out those that a retransmission (Karn's rule) or the wait for
    /// a slow member has blurred.
    pub(crate) fn sample(&mut self, sample: Duration) {
        self.estimate = Some(match self.estimate {
            None => Estimate { smoothed: sample, variation: sample / 2 },
            Some(Estimate { smoothed, variation }) => Estimate {
                variation: (variation * 3 + smoothed.abs_diff(sample)) / 4,
                smoothed: (smoothed * 7 + sample) / 8,
            },
        });
    }

    /// The smoothed round trip, once there was a measurement.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.smoothed)
    }

    /// How long to wait for a result before asking again.
    pub(crate) fn timeout(&self, timers: &Timers) -> Duration {
        let timeout = match self.estimate {
            None => timers.initial_timeout,
            Some(estimate) => estimate.smoothed + estimate.variation * 4,
        };
        timeout.max(timers.min_timeout).min(timers.max_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn timers() -> Timers {
        Timers { initial_timeout: 70 * MS, min_timeout: 2 * MS, max_timeout: 300 * MS, ..Timers::default() }
    }

    #[test]
    fn starts_with_the_initial_timeout() {
        assert_eq!(RoundTrip::default().timeout(&timers()), 70 * MS);
    }

    #[test]
    fn steady_round_trips_bring_the_timeout_close_to_them() {
        let mut rtt = RoundTrip::default();
        for _ in 0..100 {
            rtt.sample(20 * MS);
        }
        assert_eq!(rtt.smoothed(), Some(20 * MS));
        assert!(rtt.timeout(&timers()) < 21 * MS);
    }

    #[test]
    fn varying_round_trips_keep_it_away() {
        let mut rtt = RoundTrip::default();
        for i in 0..100 {
            rtt.sample(if i % 2 == 0 { 10 * MS } else { 30 * MS });
        }
        assert!(rtt.timeout(&timers()) > 45 * MS);
    }

    #[test]
    fn stays_within_its_limits() {
        let mut rtt = RoundTrip::default();
        for _ in 0..100 {
            rtt.sample(MS / 100);
        }
        assert_eq!(rtt.timeout(&timers()), 2 * MS);
        rtt.sample(Duration::from_secs(9));
        assert_eq!(rtt.timeout(&timers()), 300 * MS);
    }
}
