//! One direction of a link, with a queue, a rate, a delay and losses.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tributary_protocol::Time;

use crate::scenario::Link;

/// The traffic of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Carried {
    /// Number of sent packets, including the lost packets.
    pub packets: u64,
    /// Bytes of the sent packets, as whole frames.
    pub bytes: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Packets that found the queue full and were dropped.
    pub dropped: u64,
}

/// One direction of a link, with its state.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    link: Link,
    /// The departure time of each packet that is queued or being sent.
    departures: VecDeque<Time>,
    /// The time at which the link will have sent all accepted packets, at its rate.
    sent_by: Time,
    pub(crate) carried: Carried,
}

impl LinkDirection {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, departures: VecDeque::new(), sent_by: Time::ZERO, carried: Carried::default() }
    }

    /// Sends a packet. Returns its arrival time, or `None` if it is dropped or lost.
    pub(crate) fn send(&mut self, now: Time, bytes: u64, rng: &mut ChaCha8Rng) -> Option<Time> {
        while self.departures.front().is_some_and(|&departure| departure <= now) {
            self.departures.pop_front();
        }
        // The packet that is being sent does not count as queued.
        if self.departures.len() > self.link.queue {
            self.carried.dropped += 1;
            return None;
        }
        self.sent_by = self.sent_by.max(now) + self.time_of(bytes);
        let departure = self.departure(now);
        self.departures.push_back(departure);
        self.carried.packets += 1;
        self.carried.bytes += bytes;
        if self.link.loss > 0.0 && rng.random_bool(self.link.loss.min(1.0)) {
            self.carried.lost += 1;
            return None;
        }
        Some(departure + self.link.delay)
    }

    /// Returns the departure time of a packet that is sent now.
    ///
    /// A full token bucket lets the packet pass; an empty bucket first fills for a burst.
    fn departure(&self, now: Time) -> Time {
        let burst = self.time_of(self.link.burst);
        let wait = (self.sent_by - now).saturating_sub(burst);
        match u64::try_from(burst.as_nanos()) {
            Ok(0) | Err(_) => now + wait,
            Ok(_) if wait.is_zero() => now,
            Ok(burst) => {
                let since_start = (now + wait - Time::ZERO).as_nanos() as u64;
                Time::ZERO + Duration::from_nanos(since_start.next_multiple_of(burst))
            }
        }
    }

    fn time_of(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.link.rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_full_queue_drops_and_an_emptied_one_does_not() {
        let link = Link { rate: 8_000_000, delay: Duration::from_micros(7), burst: 0, queue: 2, loss: 0.0 };
        let (mut line, mut rng) = (LinkDirection::new(link), ChaCha8Rng::seed_from_u64(0));
        let micros = |us: u64| Time::from_nanos(us * 1000);
        // Sending 100 bytes takes 100 µs.
        assert_eq!(line.send(micros(0), 100, &mut rng), Some(micros(107)));
        assert_eq!(line.send(micros(0), 100, &mut rng), Some(micros(207)));
        assert_eq!(line.send(micros(0), 100, &mut rng), Some(micros(307)));
        assert_eq!(line.send(micros(99), 100, &mut rng), None);
        assert_eq!(line.send(micros(100), 100, &mut rng), Some(micros(407)));
        assert_eq!(line.send(micros(1000), 100, &mut rng), Some(micros(1107)));
        assert_eq!(line.carried, Carried { packets: 5, bytes: 500, lost: 0, dropped: 1 });
    }
}
