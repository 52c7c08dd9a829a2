//! The detection of lost slices and lost results.
//!
//! There are two signs. *Gaps*: all packets of a job take the same paths. So if results of later slices have come, an
//! older slice is missing. *Silence*: no result has come for some time. Neither is proof. A member that must itself
//! request a result is late with one slice, and a slow member is late with all slices. So the worker waits before it
//! sends missing slices again. After silence, it sends few retransmit requests, for the oldest slices, and at growing
//! intervals.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use tributary_wire::constants::MAX_HOPS;
use tributary_wire::{Rank, Seq};

use super::retransmit_requests::{MOST_SPURIOUS, RetransmitRequests};
use super::slots::Flight;
use super::spacing::Spacing;
use crate::config::Timers;
use crate::rtt::RoundTrip;
use crate::time::Time;

/// The number of round trips for which a missing slice waits while there is other work.
/// A member that has lost a result needs two round trips to get it, and a third for the slot's next slice. The other
/// members must not request that slice meanwhile.
const PATIENCE: f64 = 3.0;
/// The number of round trips over which the members' retransmit requests for one slice are spread.
/// In most cases one member's packet was lost on its way up, and only that member's retransmission helps. The later the
/// other members send requests, the fewer of these requests are wasted.
const SPREAD: f64 = 4.0;
/// The number of round trips for which a missing slice waits when the worker has no other work.
const IMPATIENCE: f64 = 1.5;
/// The number of round trips of silence before the first retransmit request, which is for one slice.
const SILENCE: u32 = 2;
/// The maximum number of links that a slice and its result pass.
/// Each link delays them by their transmission time.
const LINKS: u64 = 2 * MAX_HOPS as u64;
/// The fraction of each later silence over which the members' retransmit requests are spread.
/// Members that wait for one slice are silent since the same instant. If all of them sent their requests at one instant
/// again, a short queue on the way could drop the requests of the same members each time, including the only request
/// that helps.
const JITTER: f64 = 0.25;

/// The kinds of transmissions.
/// If no packet is lost, the results of one kind arrive in the order of the transmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The first transmission of a slice to which all members contribute.
    First,
    /// The transmission of a slice that the root of a broadcast sends, in all members.
    Relayed,
    /// A retransmission.
    Repeat,
}

/// One transmission of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transmission {
    /// The number of this transmission among all transmissions of the worker.
    pub(crate) number: u64,
    /// The position of the slice.
    pub(crate) position: u64,
}

/// A slice that later results have overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OvertakenSlice {
    /// The time at which the worker sends it again.
    due: Time,
    sent: Time,
    transmission: Transmission,
}

impl OvertakenSlice {
    /// Makes the slice due earlier: after the wait that applies when the worker has no other work.
    fn hurried(self, round_trip: Duration) -> Self {
        Self { due: self.due.min(self.sent + round_trip.mul_f64(IMPATIENCE)), ..self }
    }
}

/// The detector of losses, from the times of packets and results.
#[derive(Debug, Clone)]
pub(crate) struct Recovery {
    rank: Rank,
    timers: Timers,
    round_trip: RoundTrip,
    transmitted: u64,
    /// First transmissions that a gap may still reveal as missing, oldest first; `repeats` has the
    /// retransmissions.
    /// A result does not show which transmission of its slice it answers. So results of retransmitted slices reveal
    /// gaps only among other retransmissions.
    /// The results of relayed slices do not wait for all members, so they overtake others.
    firsts: VecDeque<Transmission>,
    relayed: VecDeque<Transmission>,
    repeats: VecDeque<Transmission>,
    /// The number of the newest first transmission that was answered.
    /// `newest_relayed` is for relayed slices, and `newest_repeat` for retransmissions.
    newest_first: u64,
    newest_relayed: u64,
    newest_repeat: u64,
    /// The missing slices, ordered by the times at which they are sent again.
    missing: BinaryHeap<Reverse<OvertakenSlice>>,
    /// The start of the present silence: the last result, timeout, or first slice after a pause.
    silent_since: Time,
    last_timeout: Option<Time>,
    spacing: Spacing,
    /// The number of timeouts since the last result.
    /// `asked` is the number of slices that the last of them requested.
    /// Both are zero after a result.
    backoff: u32,
    asked: u32,
    /// The number of requested results that have arrived since the last timeout.
    brought: u32,
    requests: RetransmitRequests,
    /// The number of timeouts since the last result that came without a request.
    streak: u32,
    /// This worker's place, from 0 to 1, in the order in which members send requests in the present
    /// silence.
    place: f64,
}

impl Recovery {
    pub(crate) fn new(rank: Rank, timers: Timers) -> Self {
        Self {
            rank,
            timers,
            round_trip: RoundTrip::default(),
            transmitted: 0,
            firsts: VecDeque::new(),
            relayed: VecDeque::new(),
            repeats: VecDeque::new(),
            newest_first: 0,
            newest_relayed: 0,
            newest_repeat: 0,
            missing: BinaryHeap::new(),
            silent_since: Time::ZERO,
            last_timeout: None,
            spacing: Spacing::default(),
            backoff: 0,
            asked: 0,
            brought: 0,
            requests: RetransmitRequests::default(),
            streak: 0,
            place: 0.0,
        }
    }

    /// Records a transmission of the slice at `position`, and returns the transmission's number.
    /// `alone` is true if no other result is awaited.
    pub(crate) fn sent(&mut self, now: Time, position: u64, sending: Sending, alone: bool) -> u64 {
        if alone {
            self.silent_since = now;
            self.spacing.pause();
        }
        self.transmitted += 1;
        let number = self.transmitted;
        let queue = match sending {
            Sending::First => &mut self.firsts,
            Sending::Relayed => &mut self.relayed,
            Sending::Repeat => &mut self.repeats,
        };
        queue.push_back(Transmission { number, position });
        number
    }

    /// Records the result of a slice in `flight`, one of `in_flight` slices.
    /// Returns the round trip, if the result measures one. `is_relayed` is true for a relayed slice.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        flight: &Flight,
        is_relayed: bool,
        in_flight: u64,
    ) -> Option<Duration> {
        self.silent_since = now;
        self.backoff = 0;
        self.asked = 0;
        self.spacing.result(now, in_flight);
        let round_trip = now - flight.sent;
        if flight.attempts > 1 {
            self.brought += 1;
            self.requests.answered();
            // A result that comes earlier than this answers an earlier transmission, not the last one.
            if self.round_trip.smoothed().is_some_and(|smoothed| round_trip >= smoothed / 2) {
                self.newest_repeat = self.newest_repeat.max(flight.transmission);
            }
            return None;
        }
        self.streak = 0;
        let newest = if is_relayed { &mut self.newest_relayed } else { &mut self.newest_first };
        *newest = flight.transmission.max(*newest);
        if !flight.is_ours {
            self.requests.came_unasked();
            return None;
        }
        // A slice that was in flight when a timeout fired has waited for a slow member or behind a stall.
        if self.last_timeout.is_some_and(|timeout| flight.sent <= timeout) {
            return None;
        }
        self.requests.came_unasked();
        self.round_trip.sample(round_trip);
        Some(round_trip)
    }

    /// Returns the next transmission that later results have overtaken.
    /// Its slice is missing, unless it has a result or was sent again.
    pub(crate) fn next_overtaken(&mut self) -> Option<Transmission> {
        let gap = u64::from(self.timers.gap);
        let overtaken = |queue: &mut VecDeque<Transmission>, newest: u64| {
            queue.pop_front_if(|transmission| transmission.number + gap <= newest)
        };
        overtaken(&mut self.firsts, self.newest_first)
            .or_else(|| overtaken(&mut self.relayed, self.newest_relayed))
            .or_else(|| {
                overtaken(
                    &mut self.repeats,
                    self.newest_first.max(self.newest_relayed).max(self.newest_repeat),
                )
            })
    }

    /// Records that the slice `seq` at `position` is missing.
    /// It becomes [due](Self::next_due) after a wait.
    /// `busy` is true if the worker has other work meanwhile, so that the wait can be longer.
    pub(crate) fn miss(&mut self, flight: &Flight, position: u64, seq: Seq, busy: bool) {
        let round_trip = self.round_trip.smoothed().unwrap_or(self.timers.initial_timeout);
        let patience =
            if busy { PATIENCE + SPREAD * lot(self.rank, seq.0, flight.attempts) } else { IMPATIENCE };
        let due = flight.sent + round_trip.mul_f64(patience).min(self.timers.max_timeout);
        let transmission = Transmission { number: flight.transmission, position };
        self.missing.push(Reverse(OvertakenSlice { due, sent: flight.sent, transmission }));
    }

    /// Makes missing slices due earlier, because the worker has no other work left.
    pub(crate) fn hurry(&mut self) {
        let Some(round_trip) = self.round_trip.smoothed() else { return };
        let missing = std::mem::take(&mut self.missing);
        self.missing =
            missing.into_iter().map(|Reverse(missing)| Reverse(missing.hurried(round_trip))).collect();
    }

    /// Returns the next missing slice whose wait is over.
    pub(crate) fn next_due(&mut self, now: Time) -> Option<Transmission> {
        let &Reverse(OvertakenSlice { due, transmission, .. }) = self.missing.peek()?;
        if due > now {
            return None;
        }
        self.missing.pop();
        Some(transmission)
    }

    /// Returns the time at which the wait of the next missing slice ends.
    pub(crate) fn next_due_at(&self) -> Option<Time> {
        self.missing.peek().map(|Reverse(missing)| missing.due)
    }

    /// Returns the time at which silence will have lasted too long, with `in_flight` slices in flight.
    /// The first request is for one slice only, so it may come early; then comes the retransmission timeout, which
    /// doubles, each time less this worker's part of the jitter.
    ///
    /// Neither comes before the slices in flight can have been answered at the pace of the results (Little's law). The
    /// measured round trip may be shorter than that: one frame crosses a shaped link at once, and many do not. Without
    /// this rule, each slice would be requested before its result can have come, no result would measure a round trip,
    /// and the requests would fill the queues. The same would happen if all `members`, which are silent together,
    /// repeated requests before their last requests can have been answered. But under heavy loss, results also come
    /// slowly because requests do. If requests are needed, no queue can hold their answers. So a longer silence than
    /// usual needs signs of a queue: requests that were not needed, or slow links in the job's plan.
    pub(crate) fn deadline(&self, in_flight: u64, members: u32) -> Time {
        let wait = match (self.backoff.checked_sub(1), self.round_trip.smoothed()) {
            (None, Some(round_trip)) => (round_trip * SILENCE).max(self.timers.early).min(self.timeout()),
            (None, None) => self.timeout(),
            (Some(doublings), _) => self.timeout().saturating_mul(1 << doublings.min(16)),
        };
        let wait = wait.min(self.timers.max_silence.max(self.timeout()));
        let most = self.timers.max_silence * (1 + self.requests.spurious());
        let wait = wait.max(self.spacing_of(in_flight, members).min(most));
        let wait =
            wait.max(self.carried(in_flight, members).min(self.timers.max_silence * (1 + MOST_SPURIOUS)));
        let jitter = if self.backoff == 0 { 0.0 } else { JITTER * self.place };
        self.silent_since + wait.mul_f64(1.0 - jitter)
    }

    /// Returns the time that the slowest link takes for all slices on their way, and one slice for its
    /// whole path.
    fn carried(&self, in_flight: u64, members: u32) -> Duration {
        if self.requests.are_needed() {
            return Duration::ZERO;
        }
        let asked = u64::from(self.asked).saturating_mul(members.into());
        let slices = in_flight.saturating_add(asked).saturating_add(LINKS);
        self.timers.slice_time.saturating_mul(u32::try_from(slices).unwrap_or(u32::MAX))
    }

    /// Returns the time that the results on their way take, at the measured pace.
    fn spacing_of(&self, in_flight: u64, members: u32) -> Duration {
        let asked = u64::from(self.asked).saturating_mul(members.into());
        match (self.requests.are_needed(), self.spacing.is_known()) {
            (false, _) => self.spacing.of(in_flight.saturating_add(asked)),
            (true, true) => self.spacing.of(in_flight),
            (true, false) => Duration::ZERO,
        }
    }

    /// Records that silence has lasted too long, and returns the number of slices to request.
    /// The number is 1 at first. It doubles each time while only requested results come, up to a limit that the network
    /// can carry.
    pub(crate) fn timed_out(&mut self, now: Time, members: u32) -> u32 {
        self.silent_since = now;
        self.last_timeout = Some(now);
        self.requests.asked();
        let asks = 1u32.checked_shl(self.streak).unwrap_or(u32::MAX).min(self.affordable(members));
        self.asked = asks;
        self.brought = 0;
        if self.requests.are_needed() || self.requests.spurious() == 0 && self.spacing.is_known() {
            // The slice waits for the answer to a request, and not in a queue. So this span does not show the pace.
            self.spacing.pause();
        }
        self.streak += 1;
        self.backoff += 1;
        self.place = lot(self.rank, self.transmitted as u32, self.backoff);
        asks
    }

    /// Records a duplicate result that was sent to this worker alone: a request was not needed.
    pub(crate) fn answered_again(&mut self) {
        self.requests.answered_again();
    }

    /// Returns the number of slices that each member can request.
    /// If requests are needed, it is several for each slice that the last timeout brought. Otherwise, while no result
    /// measures a round trip, it is 1. If requests were spurious, it is the number that crosses the network at the pace
    /// of all members' results within the longest usual silence.
    fn affordable(&self, members: u32) -> u32 {
        if self.requests.are_needed() {
            return self.timers.asks.saturating_mul(self.brought.max(1));
        }
        if self.round_trip.smoothed().is_none() {
            return 1;
        }
        if self.requests.spurious() == 0 {
            return self.timers.asks;
        }
        let each = self.spacing.of(members.into()).as_nanos();
        let affordable = self.timers.max_silence.as_nanos().checked_div(each).unwrap_or(u128::MAX);
        u32::try_from(affordable).unwrap_or(u32::MAX).max(1).min(self.timers.asks)
    }

    /// Resets the detector, because all slices in flight were sent under an obsolete job id.
    pub(crate) fn restart(&mut self, now: Time) {
        self.firsts.clear();
        self.relayed.clear();
        self.repeats.clear();
        self.missing.clear();
        self.silent_since = now;
        self.spacing.pause();
        self.backoff = 0;
        self.asked = 0;
        self.requests = RetransmitRequests::default();
        self.streak = 0;
    }

    /// Sets the time for which one slice occupies the slowest link, because the tree has changed.
    pub(crate) fn set_slice_time(&mut self, slice_time: Duration) {
        self.timers.slice_time = slice_time;
    }

    pub(crate) fn smoothed_round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// Returns the retransmission timeout without back-off.
    pub(crate) fn timeout(&self) -> Duration {
        self.round_trip.timeout(&self.timers)
    }
}

/// Fraction bits of the golden ratio.
/// The number is odd, and its bits have no pattern that counters could repeat.
const GOLDEN: u32 = 0x9e37_79b9;
/// Fraction bits of √2. The number is odd, too.
const ROOT: u32 = 0x6a09_e667;

/// Mixes every bit of `word` into the whole result. Each step can be inverted, so no two words collide.
fn mix(word: u32) -> u32 {
    let word = (word ^ word >> 16).wrapping_mul(GOLDEN);
    let word = (word ^ word >> 15).wrapping_mul(ROOT);
    word ^ word >> 16
}

/// Returns a pseudo-random number from 0 to 1 for a rank, a subject and an attempt.
/// It is the worker's place in the order in which members send requests about `subject`.
fn lot(rank: Rank, subject: u32, attempt: u32) -> f64 {
    let words = [rank.get().into(), subject, attempt];
    let lot = words.into_iter().fold(mix(4), |state, word| mix(state.wrapping_mul(GOLDEN) ^ word));
    f64::from(lot) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Time {
        Time::ZERO + MS * ms
    }

    fn timers() -> Timers {
        Timers {
            initial_timeout: 50 * MS,
            min_timeout: 10 * MS,
            max_timeout: 100 * MS,
            max_silence: 100 * MS,
            early: 3 * MS,
            asks: 4,
            gap: 2,
            slice_time: Duration::ZERO,
        }
    }

    fn recovery(rank: u16) -> Recovery {
        Recovery::new(Rank::new(rank), timers())
    }

    fn flight(sent: Time, transmission: u64, attempts: u32) -> Flight {
        Flight { transmission, attempts, ..Flight::new(sent, 0) }
    }

    #[test]
    fn later_results_uncover_earlier_slices() {
        let mut recovery = recovery(0);
        for position in 0..4 {
            recovery.sent(at(0), position, Sending::First, position == 0);
        }
        recovery.answered(at(2), &flight(at(0), 2, 1), false, 1);
        assert_eq!(recovery.next_overtaken(), None);
        recovery.answered(at(2), &flight(at(0), 3, 1), false, 1);
        assert_eq!(recovery.next_overtaken(), Some(Transmission { number: 1, position: 0 }));
        assert_eq!(recovery.next_overtaken(), None);
    }

    #[test]
    fn results_of_retransmissions_uncover_only_retransmissions() {
        let mut recovery = recovery(0);
        recovery.sent(at(0), 0, Sending::First, true);
        recovery.answered(at(2), &flight(at(0), 1, 1), false, 1);
        recovery.sent(at(2), 1, Sending::First, true);
        for position in 2..5 {
            recovery.sent(at(3), position, Sending::Repeat, false);
        }
        recovery.answered(at(5), &flight(at(3), 5, 2), false, 1);
        assert_eq!(recovery.next_overtaken(), Some(Transmission { number: 3, position: 2 }));
        assert_eq!(recovery.next_overtaken(), None);
    }

    #[test]
    fn silence_is_asked_into_ever_less_often() {
        let mut recovery = recovery(0);
        recovery.sent(at(0), 0, Sending::First, true);
        assert_eq!(recovery.deadline(1, 1), at(50));
        recovery.answered(at(2), &flight(at(0), 1, 1), false, 1);
        assert_eq!(recovery.deadline(1, 1), at(6));
        let mut now = recovery.deadline(1, 1);
        for (asks, most) in [(1, 10), (2, 20), (4, 40), (4, 80), (4, 100), (4, 100)] {
            assert_eq!(recovery.timed_out(now, 1), asks);
            let wait = recovery.deadline(1, 1) - now;
            assert!(wait <= MS * most && wait >= (MS * most).mul_f64(1.0 - JITTER), "{wait:?} of {most} ms");
            now = recovery.deadline(1, 1);
        }
    }

    #[test]
    fn nothing_is_asked_for_before_the_slowest_link_can_have_carried_what_is_in_flight() {
        let mut recovery = recovery(0);
        recovery.set_slice_time(MS);
        recovery.sent(at(0), 0, Sending::First, true);
        let least = |in_flight: u64, asked: u64| MS * u32::try_from(in_flight + asked + LINKS).unwrap();
        assert_eq!(recovery.deadline(64, 8), Time::ZERO + least(64, 0));
        let now = recovery.deadline(64, 8);
        recovery.timed_out(now, 8);
        let wait = recovery.deadline(64, 8) - now;
        assert!(wait >= least(64, 8).mul_f64(1.0 - JITTER), "{wait:?}: each of the members may have asked");
        // A wrong plan must not silence a member for long.
        recovery.set_slice_time(Duration::MAX);
        let wait = recovery.deadline(64, 8) - now;
        assert!(wait <= timers().max_silence * (1 + MOST_SPURIOUS), "{wait:?}");
        // A requested result that comes was lost before, and does not wait in a queue.
        (0..20).for_each(|_| recovery.requests.answered());
        assert!(recovery.deadline(64, 8) - now <= timers().max_silence);
    }

    #[test]
    fn members_that_are_silent_since_one_instant_do_not_ask_at_one_instant() {
        let mut members: Vec<Recovery> = (0..16).map(recovery).collect();
        let firsts: Vec<usize> = (0..8)
            .map(|_| {
                for member in &mut members {
                    member.timed_out(at(0), 1);
                }
                let deadlines: BTreeMap<Time, usize> =
                    members.iter().map(|member| member.deadline(1, 1)).zip(0..).collect();
                assert_eq!(deadlines.len(), members.len());
                *deadlines.first_key_value().unwrap().1
            })
            .collect();
        assert!(firsts.iter().any(|first| *first != firsts[0]), "{firsts:?}");
    }

    #[test]
    fn nothing_is_asked_for_that_cannot_be_there_at_the_pace_of_the_results() {
        let mut recovery = recovery(0);
        recovery.sent(at(0), 0, Sending::First, true);
        recovery.answered(at(2), &flight(at(0), 1, 1), false, 1);
        assert_eq!(recovery.deadline(16, 1), at(6));
        // From now on, 16 slices are in flight, and a result comes every 5 ms.
        for result in 1..=16 {
            recovery.answered(at(2 + 5 * result), &flight(at(5 * result), 2, 1), false, 16);
        }
        let now = at(2 + 5 * 16);
        assert_eq!(recovery.deadline(16, 1), now + 80 * MS);
        assert_eq!(recovery.deadline(0, 1), now + 4 * MS);
    }

    #[test]
    fn the_requests_of_all_members_are_given_time_if_they_were_not_needed() {
        let mut recovery = recovery(0);
        recovery.sent(at(0), 0, Sending::First, true);
        // A result comes every 5 ms. In 100 ms, 20 retransmit requests are answered: two for each of 8 members.
        for result in 0..=16 {
            recovery.answered(at(2 + 5 * result), &flight(at(5 * result), 2, 1), false, 16);
        }
        let mut now = recovery.deadline(16, 8);
        for (asks, most) in [(1, 100), (2, 160), (2, 160)] {
            assert_eq!(recovery.timed_out(now, 8), asks);
            let wait = recovery.deadline(16, 8) - now;
            assert!(wait <= MS * most && wait >= (MS * most).mul_f64(1.0 - JITTER), "{wait:?} of {most} ms");
            now = recovery.deadline(16, 8);
            (0..3).for_each(|_| recovery.answered_again());
        }
    }

    #[test]
    fn one_slice_is_asked_for_while_no_result_has_come() {
        let mut recovery = recovery(0);
        recovery.sent(at(0), 0, Sending::First, true);
        for timeout in 1..10 {
            assert_eq!(recovery.timed_out(at(50 * timeout), 8), 1);
        }
    }

    #[test]
    fn a_wait_for_a_slow_member_is_no_round_trip() {
        let mut recovery = recovery(0);
        recovery.sent(at(0), 0, Sending::First, true);
        recovery.sent(at(0), 1, Sending::First, false);
        recovery.timed_out(at(50), 1);
        assert_eq!(recovery.answered(at(400), &flight(at(0), 2, 1), false, 1), None);
        assert_eq!(recovery.timeout(), 50 * MS);
    }
}
