//! The retransmission timeout, from measured round trips.

use std::time::Duration;

use crate::config::Timers;

/// The number of measurements in a round. Only the shortest measurement of a round is used.
/// Most other measurements contain a wait for a member that requested a lost result again. If the timeout grew with
/// these waits, it would make them longer.
const ROUND: u32 = 8;

/// Smoothed round trip and its variation, after RFC 6298 section 2.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    estimate: Option<Estimate>,
    /// The shortest measurement of the present round, and the number of measurements in the round.
    round: Option<(Duration, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

impl RoundTrip {
    /// Records one measurement of the round trip.
    /// The caller must omit measurements that are wrong because of a retransmission (Karn's rule) or of the wait for a
    /// slow member.
    pub(crate) fn sample(&mut self, sample: Duration) {
        let (shortest, count) = self.round.unwrap_or((sample, 0));
        let shortest = shortest.min(sample);
        match self.estimate {
            None => self.estimate = Some(Estimate { smoothed: sample, variation: sample / 2 }),
            Some(_) if count + 1 < ROUND => self.round = Some((shortest, count + 1)),
            Some(Estimate { smoothed, variation }) => {
                self.round = None;
                self.estimate = Some(Estimate {
                    variation: (variation * 3 + smoothed.abs_diff(shortest)) / 4,
                    smoothed: (smoothed * 7 + shortest) / 8,
                });
            }
        }
    }

    /// Returns the smoothed round trip; `None` before the first measurement.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.smoothed)
    }

    /// Returns the time for which a worker waits for a result before it sends a retransmit request.
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

    /// Records whole rounds of equal measurements.
    fn rounds(rtt: &mut RoundTrip, each: impl IntoIterator<Item = Duration>) {
        for sample in each {
            (0..ROUND).for_each(|_| rtt.sample(sample));
        }
    }

    #[test]
    fn steady_round_trips_bring_the_timeout_close_to_them() {
        let mut rtt = RoundTrip::default();
        rounds(&mut rtt, [20 * MS; 50]);
        assert_eq!(rtt.smoothed(), Some(20 * MS));
        assert!(rtt.timeout(&timers()) < 21 * MS);
    }

    #[test]
    fn varying_round_trips_keep_it_away() {
        let mut rtt = RoundTrip::default();
        rtt.sample(20 * MS);
        rounds(&mut rtt, [10 * MS, 30 * MS].repeat(25));
        assert!(rtt.timeout(&timers()) > 45 * MS);
    }

    #[test]
    fn waits_for_members_that_ask_again_do_not_count() {
        let mut rtt = RoundTrip::default();
        for i in 0..400 {
            rtt.sample(if i % 4 == 0 { 10 * MS } else { 40 * MS });
        }
        assert!(rtt.timeout(&timers()) < 12 * MS);
    }

    #[test]
    fn stays_within_its_limits() {
        let mut rtt = RoundTrip::default();
        rounds(&mut rtt, [MS / 100; 50]);
        assert_eq!(rtt.timeout(&timers()), 2 * MS);
        rounds(&mut rtt, [Duration::from_secs(9); 2]);
        assert_eq!(rtt.timeout(&timers()), 300 * MS);
    }
}
