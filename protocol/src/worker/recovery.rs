//! When to believe that a slice, or its result, was lost.

use std::collections::VecDeque;
use std::time::Duration;

use super::slots::Flight;
use crate::config::Timers;
use crate::rtt::RoundTrip;
use crate::time::Time;

/// Two signs of a loss. *Gaps*: all packets of a job take the same ways, so when results of slices that
/// were sent later have come, an older slice was probably lost. It costs about a round trip. *Silence*: when
/// nothing at all has come for a timeout. A slow member looks the same, so only the oldest slices are asked for,
/// and ever less often.
#[derive(Debug)]
pub(crate) struct Recovery {
    timers: Timers,
    round_trip: RoundTrip,
    next_transmission: u64,
    /// The newest transmission that is known to have been answered.
    newest_answered: u64,
    /// Transmissions that a gap may still uncover, oldest first: number and position.
    transmissions: VecDeque<(u64, u64)>,
    /// Since when there is silence: the last result, timeout, or first slice after a pause.
    silent_since: Time,
    last_timeout: Option<Time>,
    /// Timeouts since the last result.
    backoff: u32,
    /// Slices that the next timeout asks for.
    asks: u32,
    /// A slice that was sent again has got its result since the last timeout.
    asking_helps: bool,
}

impl Recovery {
    pub(crate) fn new(timers: Timers) -> Self {
        Self {
            timers,
            round_trip: RoundTrip::default(),
            next_transmission: 1,
            newest_answered: 0,
            transmissions: VecDeque::new(),
            silent_since: Time::ZERO,
            last_timeout: None,
            backoff: 0,
            asks: timers.asks,
            asking_helps: false,
        }
    }

    /// A slice goes out; `alone` when nothing else is awaited. Returns the transmission's number.
    pub(crate) fn sent(&mut self, now: Time, position: u64, alone: bool) -> u64 {
        if alone {
            self.silent_since = now;
        }
        let number = self.next_transmission;
        self.next_transmission += 1;
        self.transmissions.push_back((number, position));
        number
    }

    /// A result has come for a slice in `flight`.
    pub(crate) fn answered(&mut self, now: Time, flight: &Flight) {
        self.silent_since = now;
        self.backoff = 0;
        if flight.attempts > 1 {
            // Nobody knows which of the transmissions it answers: neither a round trip nor a gap follows.
            self.asking_helps = true;
            return;
        }
        self.asks = self.timers.asks;
        self.newest_answered = self.newest_answered.max(flight.transmission);
        // What was out when a timeout fired has waited for a slow member, or was queued behind a stall.
        if self.last_timeout.is_none_or(|timeout| flight.sent > timeout) {
            self.round_trip.sample(now - flight.sent);
        }
    }

    /// The next transmission (number and position) that a gap gives up for lost, if the slice is still
    /// waiting for it.
    pub(crate) fn next_gap(&mut self) -> Option<(u64, u64)> {
        let &(number, _) = self.transmissions.front()?;
        let passed = number + u64::from(self.timers.gap) <= self.newest_answered;
        if passed { self.transmissions.pop_front() } else { None }
    }

    /// When silence will have lasted too long.
    pub(crate) fn deadline(&self) -> Time {
        let doubled = self.timeout().saturating_mul(1 << self.backoff.min(16));
        self.silent_since + doubled.min(self.timers.max_timeout)
    }

    /// Silence has lasted too long: how many slices to ask for.
    pub(crate) fn timed_out(&mut self, now: Time) -> u32 {
        self.silent_since = now;
        self.last_timeout = Some(now);
        self.backoff += 1;
        self.asks = if self.asking_helps { self.asks.saturating_mul(2) } else { self.timers.asks };
        self.asking_helps = false;
        self.asks
    }

    /// Everything that is out was sent under a job id that is no more.
    pub(crate) fn restart(&mut self, now: Time) {
        self.transmissions.clear();
        self.silent_since = now;
        self.backoff = 0;
        self.asks = self.timers.asks;
        self.asking_helps = false;
    }

    pub(crate) fn smoothed_round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// The retransmission timeout before back-off.
    pub(crate) fn timeout(&self) -> Duration {
        self.round_trip.timeout(&self.timers)
    }
}
