//! The worker's side of the protocol.

mod contribution;
mod events;
mod generations;
mod pace;
mod recovery;
mod retransmit_requests;
mod slots;
mod spacing;
mod state;
mod verdict;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tributary_wire::{Header, JobId, Kind, Operator, Rank, Totals, ValuesView};

use crate::config::{ConfigError, WorkerConfig, check_stripe, check_window};
use crate::error::{CollectiveError, Missing, StartError};
use crate::masks::{MaskedSlice, Masks};
use crate::numbers::fixed_point::MAX_TOTAL_WEIGHT;
use crate::numbers::{AllReduce, JointAllReduce, Reduced, Tensor};
use crate::operation::{Buffers, OperationEvent, OperationId, Operations, SliceRole};
use crate::time::Time;
use crate::vouch::{Vouchers, vouching_key};
use contribution::Contribution;
pub use events::{Outgoing, WorkerStats};
pub use generations::WorkerProgress;
use generations::{Gate, Generations};
use pace::Pace;
use recovery::{Recovery, Sending, Transmission};
use slots::{Flight, SlotState, Slots};
use verdict::Settled;

/// The first generation in which a relayed slice may have been finished.
/// Its root may have sent it long before this member awaits it, so all generations since the member was last idle count.
const RELAYED_SINCE: usize = 0;

/// One member of a job: it sends slices, verifies results, and sends retransmit requests.
///
/// The caller provides the clock and the network. It calls [`handle_result`](Self::handle_result) for each RESULT that
/// arrives, and [`handle_timeout`](Self::handle_timeout) at the instant that [`poll_timeout`](Self::poll_timeout)
/// returns. After each of these calls, and after each start of an operation, it sends the packets that
/// [`poll_transmit`](Self::poll_transmit) returns and takes the events that [`poll_event`](Self::poll_event) returns,
/// both until `None`.
#[derive(Debug, Clone)]
pub struct Worker {
    job: JobId,
    rank: Rank,
    generations: Generations,
    /// The masks of a confidential job; `None` in other jobs.
    masks: Option<Masks>,
    vouchers: Vouchers,
    gate: Gate,
    slots: Slots,
    operations: Operations<Contribution>,
    /// The operations that the caller has started, but that may not begin yet; `None` for an operation that
    /// other stripes run.
    waiting: VecDeque<Option<Waiting>>,
    /// The positions to send, oldest first. The worker skips a position if its slot has moved on.
    queue: BinaryHeap<Reverse<u64>>,
    /// The number of slices in [`SlotState::Sent`].
    in_flight: u64,
    /// The number of slices in [`SlotState::Awaited`].
    awaited: u64,
    /// The number of slices in [`SlotState::Sent`], [`SlotState::Awaited`] or [`SlotState::Missing`].
    unanswered: u64,
    recovery: Recovery,
    pace: Pace,
    events: VecDeque<OperationEvent>,
    stats: WorkerStats,
    /// The values of the packet that the caller polled last.
    values: Box<[i32]>,
    /// A buffer for a result whose masks are removed; empty in a job that is not confidential.
    revealed: Box<[u8]>,
}

impl Worker {
    /// Creates a member that has sent nothing yet.
    ///
    /// # Errors
    /// [`ConfigError`] if the window or the members are invalid.
    pub fn new(config: WorkerConfig) -> Result<Self, ConfigError> {
        let WorkerConfig {
            job,
            rank,
            members,
            secret,
            confidential,
            width,
            window,
            start,
            begun,
            timers,
            stripe,
        } = config;
        check_window(window)?;
        check_stripe(stripe, start)?;
        Ok(Self {
            job,
            rank,
            generations: Generations::new((&secret, width), job, rank, members)?,
            masks: confidential.then(|| Masks::new(&secret)),
            vouchers: Vouchers::new(&vouching_key(&secret)),
            gate: Gate::Open,
            slots: Slots::new((stripe, start), window),
            operations: Operations::new((stripe, start), begun, width, window),
            waiting: VecDeque::new(),
            queue: BinaryHeap::new(),
            in_flight: 0,
            awaited: 0,
            unanswered: 0,
            recovery: Recovery::new(rank, timers),
            pace: Pace::new(stripe.window(window)),
            events: VecDeque::new(),
            stats: WorkerStats::default(),
            values: vec![0; width.values()].into(),
            revealed: vec![0; if confidential { width.bytes() } else { 0 }].into(),
        })
    }

    /// Starts an all-reduce, or queues it behind the all-reduces under way.
    /// The worker sends its slices when the window allows it. An operation without elements is a barrier.
    ///
    /// # Errors
    /// [`StartError`] if the weight leaves no room for the other members' weights, or if the memory for the sums is not
    /// available.
    pub fn start_all_reduce(&mut self, operation: AllReduce) -> Result<OperationId, StartError> {
        self.start_joint(operation.into())
    }

    /// Starts an all-reduce as [`start_all_reduce`](Self::start_all_reduce) does, or a broadcast.
    /// The worker ignores bounds that were made for another type, another width, or another number of elements.
    ///
    /// Only the root of a broadcast sends words, and each link carries them once. All members receive the same words, or
    /// an error.
    ///
    /// # Errors
    /// As for [`start_all_reduce`](Self::start_all_reduce); [`StartError::Parts`] if the parts are not alike;
    /// [`StartError::Owners`] if the parts of a reduce-scatter are not all of the tensor;
    /// [`StartError::Broadcast`] if a broadcast is not one part of
    /// [`GradientData::I32`](crate::GradientData::I32) without a weight, or if the job's window is one slice.
    pub fn start_joint(&mut self, operation: JointAllReduce) -> Result<OperationId, StartError> {
        let members = self.generations.present().count();
        let most = MAX_TOTAL_WEIGHT / members;
        operation.check()?;
        let tensor = operation.tensor();
        let JointAllReduce { name, first, further, weight, bounds, is_withheld, collective } = operation;
        if weight > most {
            return Err(StartError::Weight { tensor: name, weight, members, most });
        }
        if collective.root().is_some() && self.slots.window() < 2 {
            return Err(StartError::Broadcast { tensor: name });
        }
        let buffers = self.operations.buffers_for(&tensor, (first, further), bounds)?;
        let id = OperationId(self.operations.begun() + self.waiting.len() as u64);
        self.waiting.push_back(Some(Waiting { tensor, weight, buffers, is_withheld, abandoned: false }));
        self.begin_waiting();
        Ok(id)
    }

    /// Abandons an operation, because its caller does not wait for it any more.
    /// It [fails](OperationEvent::Failed) here with an error that names the missing results, unless it has ended
    /// before. The job continues, and the worker finishes the operation in the background, so that the sequence numbers
    /// of all members stay equal. If the bounds of a slice were announced, the other members count on this member's
    /// contribution, so the worker still sends it. It withholds the rest of the contribution, including its weight, and
    /// the operation then [fails](CollectiveError::Withheld) on all other members.
    pub fn abandon(&mut self, operation: OperationId) {
        let error = if let Some(ahead) = operation.0.checked_sub(self.operations.begun()) {
            usize::try_from(ahead)
                .ok()
                .and_then(|at| self.waiting.get_mut(at)?.as_mut())
                .and_then(Waiting::abandon)
        } else {
            self.abandon_begun(operation)
        };
        self.events.extend(error.map(|error| OperationEvent::Failed { operation, error }));
    }

    fn abandon_begun(&mut self, operation: OperationId) -> Option<CollectiveError> {
        let (slots, operation) = (&self.slots, self.operations.get(operation)?);
        let (first, sent) = (operation.layout.first..operation.layout.known_end())
            .find_map(|position| Some((position, slots.attempts(position)?)))?;
        let error = operation.abandon(first, sent)?;
        operation.withhold_unless(|position| slots.attempts(position) != Some(0));
        Some(error)
    }

    /// Starts an operation that other stripes run, or queues it behind the operations under way.
    /// It has no slices and no event here.
    pub fn start_elsewhere(&mut self) -> OperationId {
        let id = OperationId(self.operations.begun() + self.waiting.len() as u64);
        self.waiting.push_back(None);
        self.begin_waiting();
        id
    }

    fn begin(&mut self, waiting: Option<Waiting>) {
        let Some(Waiting { tensor, weight, buffers, is_withheld, abandoned }) = waiting else {
            self.operations.begin_elsewhere(self.generations.present(), Contribution::new(0));
            return self.collect_ended();
        };
        let own = Contribution::new(weight);
        let operation = self.operations.begin(self.generations.present(), tensor, own, buffers);
        operation.contributes(self.rank, weight);
        operation.told = abandoned;
        if is_withheld {
            operation.withhold_unless(|_| false);
        }
        let max_slices = operation.layout.max_positions();
        self.make_ready(max_slices);
    }

    /// Processes a RESULT. `values` is `None` in an acknowledgement.
    /// A RESULT that the worker does not await, for another worker, or of another width, has no effect except on
    /// counters.
    pub fn handle_result(&mut self, now: Time, header: &Header, values: Option<ValuesView<'_>>) {
        let for_us = header.rank == self.rank || header.rank == Rank::ALL;
        let has_width = values.is_none_or(|values| values.len() == self.values.len());
        let fits = header.kind == Kind::Result && header.job == self.job && has_width;
        if !fits || !for_us || self.is_frozen() {
            self.stats.foreign += 1;
            return;
        }
        let awaited = self.slots.awaited(header.seq);
        let Some((position, flight)) = awaited else {
            self.stats.duplicates += 1;
            if header.rank == self.rank {
                self.recovery.answered_again();
            }
            return;
        };
        let settled = match values {
            Some(values) => self.judge((position, &flight), header, values),
            None => self.judge_acknowledgement((position, &flight), header),
        };
        let Some(Settled { job, totals, failure }) = settled else { return };
        self.events.extend(failure);
        let in_use = self.pace.is_full(self.in_flight, self.recovery.smoothed_round_trip());
        let is_relayed = header.operator == Operator::Relay;
        if let Some(sample) = self.recovery.answered(now, &flight, is_relayed, self.in_flight) {
            self.pace.sample(sample, in_use);
        }
        self.slots.keep(job, (header.seq, header.operator, totals), values);
        self.finish_slice(now, position);
        self.uncover_gaps();
        self.ask_for_missing(now);
    }

    /// Returns the next packet to send now, if there is one.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing<'_>> {
        if self.is_frozen() {
            return None;
        }
        let position = self.next_to_send()?;
        let slot = self.slots.at(position)?;
        let (seq, job, rank) = (self.operations.seq(position), self.job, self.rank);
        let (operation, members) = (self.operations.at(position)?, self.generations.present());
        let mut flight = match (slot.state, operation.layout.part(position)) {
            (SlotState::Lost(flight), _) => flight,
            (_, SliceRole::Relay(_)) => Flight::new(now, RELAYED_SINCE),
            _ => Flight::new(now, self.generations.number()),
        };
        let retransmit = flight.attempts > 0;
        let relayed_by = operation.relayed_by(position, members);
        let sending = match relayed_by {
            _ if retransmit => Sending::Repeat,
            Some(_) => Sending::Relayed,
            None => Sending::First,
        };
        let number = self.recovery.sent(now, position, sending, self.unanswered == 0);
        let is_probe = relayed_by.is_some_and(|root| root != rank);
        let (operator, totals, pads) = if is_probe {
            (Operator::Sum, Totals::default(), None)
        } else {
            let (operator, totals, pads) = operation.write(position, (members, rank), &mut self.values);
            (operator, totals, Some(pads))
        };
        let attempts = flight.attempts + 1;
        flight = Flight { sent: now, transmission: number, attempts, pads, ..flight };
        slot.state = SlotState::Sent(flight);
        self.in_flight += 1;
        self.unanswered += 1;
        if retransmit {
            self.stats.retransmitted += 1;
        } else {
            self.stats.sent += 1;
        }
        let is_masked = operator != Operator::Max && !is_probe;
        if let Some(masks) = self.masks.as_ref().filter(|_| is_masked) {
            let slice = MaskedSlice { job, operation: operation.id, seq };
            let behind = members.behind(rank).filter(|_| relayed_by.is_none());
            masks.hide(slice, rank, behind, &mut self.values);
        }
        let header = Header { kind: Kind::Gradient, operator, retransmit, job, rank, seq, totals };
        Some(Outgoing { header, values: (!is_probe).then_some(&self.values) })
    }

    /// Returns the time at which the caller must call [`handle_timeout`](Self::handle_timeout).
    /// Other calls may change this time. `None` while the worker awaits no result, or is [frozen](Self::freeze).
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.unanswered == 0 || self.is_frozen() {
            return None;
        }
        self.recovery.next_due_at().into_iter().chain([self.deadline()]).min()
    }

    /// Returns the time at which silence will have lasted too long.
    fn deadline(&self) -> Time {
        self.recovery.deadline(self.in_flight + self.awaited, self.generations.present().count())
    }

    /// Queues retransmit requests for overdue slices. An early call does no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.is_frozen() {
            return;
        }
        self.ask_for_missing(now);
        if self.unanswered == 0 || now < self.deadline() {
            return;
        }
        self.stats.timeouts += 1;
        let asks = self.recovery.timed_out(now, self.generations.present().count()) as usize;
        let mut oldest: Vec<u64> = self.slots.unanswered().collect();
        if asks < oldest.len() {
            oldest.select_nth_unstable(asks);
            oldest.truncate(asks);
        }
        for position in oldest {
            self.ask_again(position, |_| {});
        }
    }

    /// Returns the next event for the caller, if there is one.
    pub fn poll_event(&mut self) -> Option<OperationEvent> {
        self.events.pop_front()
    }

    /// Returns true if all operations that were started are done.
    pub fn is_idle(&self) -> bool {
        self.unfinished() == 0
    }

    /// Returns the number of operations that were started and are not done.
    /// It includes [abandoned](Self::abandon) operations. The worker holds the data of each, so the caller must limit
    /// their number.
    pub fn unfinished(&self) -> usize {
        self.operations.len() + self.waiting.len()
    }

    /// Returns the number of operations since the job's start that are done.
    pub fn done(&self) -> u64 {
        self.operations.begun() - self.operations.len() as u64
    }

    /// Returns true if an operation that is not done was [abandoned](Self::abandon), and has not failed.
    /// Other members may start it later, and finish it with the values that this member contributed. A failed operation
    /// does not count, because all members have started it, so it will soon be done.
    pub fn has_given_up(&self) -> bool {
        self.operations.has_given_up() || self.waiting.iter().flatten().any(|waiting| waiting.abandoned)
    }

    /// Returns the worker's counters.
    pub fn stats(&self) -> WorkerStats {
        let round_trip = self.recovery.smoothed_round_trip();
        WorkerStats { round_trip, timeout: self.recovery.timeout(), ..self.stats }
    }

    /// Makes each of the `positions` ready to be sent if its slot is idle and has reached the position.
    fn make_ready(&mut self, positions: impl IntoIterator<Item = u64>) {
        for position in positions {
            if let Some(slot) = self.slots.at(position)
                && matches!(slot.state, SlotState::Idle)
            {
                slot.state = SlotState::Ready;
                self.queue.push(Reverse(position));
            }
        }
    }

    /// Begins the slices at `positions` that idle slots have reached. Their content must be known.
    /// This member sends them, or awaits them from the root of a broadcast.
    fn begin_slices(&mut self, now: Time, positions: impl IntoIterator<Item = u64>) {
        for position in positions {
            let Some(operation) = self.operations.at(position) else { continue };
            let root = operation.relayed_by(position, self.generations.present());
            if root.is_none_or(|root| root == self.rank) {
                self.make_ready([position]);
            } else if let Some(slot) = self.slots.at(position)
                && matches!(slot.state, SlotState::Idle)
            {
                let transmission = self.recovery.sent(now, position, Sending::Relayed, self.unanswered == 0);
                let flight = Flight::new(now, RELAYED_SINCE);
                slot.state =
                    SlotState::Awaited(Flight { transmission, attempts: 1, is_ours: false, ..flight });
                self.awaited += 1;
                self.unanswered += 1;
            }
        }
    }

    /// Returns the oldest slice that is ready to be sent, if it may leave now.
    fn next_to_send(&mut self) -> Option<u64> {
        while let Some(Reverse(position)) = self.queue.peek().copied() {
            let state = self.slots.at(position).map(|slot| slot.state);
            let may_leave = match state {
                Some(SlotState::Ready) => {
                    let window = self.slots.window();
                    let operation = self.operations.at(position);
                    let needed = operation.map_or(0, |one| one.layout.needs_results_before(position, window));
                    self.slots.has_all_before(needed)
                        && self.pace.admits(self.in_flight, self.recovery.smoothed_round_trip())
                }
                // Other members may wait for this slice, so it does not wait for further slices that leave with it.
                Some(SlotState::Lost(_)) => self.in_flight < self.pace.limit(),
                _ => {
                    self.queue.pop();
                    continue;
                }
            };
            return may_leave.then(|| self.queue.pop()).flatten().map(|Reverse(position)| position);
        }
        self.pace.pause();
        None
    }

    /// Queues the slice at `position` for retransmission, if its result is awaited and it is not queued
    /// already.
    /// `note` updates the record of the slice.
    fn ask_again(&mut self, position: u64, note: impl FnOnce(&mut Flight)) {
        let Some(slot) = self.slots.at(position) else { return };
        match &mut slot.state {
            SlotState::Sent(flight) | SlotState::Awaited(flight) | SlotState::Missing(flight) => note(flight),
            SlotState::Lost(flight) => return note(flight),
            SlotState::Idle | SlotState::Ready => return,
        }
        self.leave(position);
        if let Some(slot) = self.slots.at(position)
            && let SlotState::Sent(flight) | SlotState::Awaited(flight) | SlotState::Missing(flight) =
                slot.state
        {
            slot.state = SlotState::Lost(flight);
            self.queue.push(Reverse(position));
        }
    }

    /// Updates the counters before a slice leaves [`SlotState::Sent`], `Awaited` or `Missing`.
    fn leave(&mut self, position: u64) {
        match self.slots.at(position).map(|slot| slot.state) {
            Some(SlotState::Sent(_)) => {
                self.in_flight -= 1;
                self.unanswered -= 1;
            }
            Some(SlotState::Awaited(_)) => {
                self.awaited -= 1;
                self.unanswered -= 1;
            }
            Some(SlotState::Missing(_)) => self.unanswered -= 1,
            _ => {}
        }
    }

    /// Marks slices that later results have overtaken as missing.
    /// They do not count as in flight, so they do not delay other slices before it is clear if they are lost.
    fn uncover_gaps(&mut self) {
        while let Some(Transmission { number, position }) = self.recovery.next_overtaken() {
            let busy = self.is_busy();
            let seq = self.slots.seq(position);
            let Some(slot) = self.slots.at(position) else { continue };
            let (SlotState::Sent(flight) | SlotState::Awaited(flight)) = slot.state else { continue };
            if flight.transmission == number {
                let was_awaited = matches!(slot.state, SlotState::Awaited(_));
                let counter = if was_awaited { &mut self.awaited } else { &mut self.in_flight };
                *counter -= 1;
                slot.state = SlotState::Missing(flight);
                self.stats.gaps += 1;
                self.recovery.miss(&flight, position, seq, busy);
            }
        }
    }

    /// Returns true if the worker has enough other work, so that missing slices can wait.
    fn is_busy(&self) -> bool {
        !self.queue.is_empty() || self.in_flight * 2 > self.pace.limit()
    }

    fn ask_for_missing(&mut self, now: Time) {
        if !self.is_busy() {
            self.recovery.hurry();
        }
        while let Some(Transmission { number, position }) = self.recovery.next_due(now) {
            let state = self.slots.at(position).map(|slot| slot.state);
            if matches!(state, Some(SlotState::Missing(flight)) if flight.transmission == number) {
                self.ask_again(position, |_| {});
            }
        }
    }

    /// Records that the result of the slice at `position` is settled.
    /// Its slot moves to its next slice, and slices that waited for the result become ready.
    fn finish_slice(&mut self, now: Time, position: u64) {
        self.stats.results += 1;
        self.leave(position);
        let next = self.slots.advance(position);
        if let Some(operation) = self.operations.at(position) {
            let (known, rest) = (operation.layout.bounded_by(position), operation.layout.rest_positions());
            let has_agreed = matches!(operation.layout.part(position), SliceRole::Max(_));
            self.begin_slices(now, known);
            if has_agreed {
                self.make_ready(rest);
                self.begin_waiting();
            }
        }
        if self.operations.at(next).is_some_and(|operation| operation.is_known(next)) {
            self.begin_slices(now, [next]);
        }
        self.collect_ended();
    }

    /// Reports the operations that have ended.
    fn collect_ended(&mut self) {
        while let Some(event) = self.operations.pop_ended() {
            if let OperationEvent::Completed { reduced: Reduced { not_finite: Some(_), .. }, .. } = &event {
                self.stats.not_finite += 1;
            }
            self.events.push_back(event);
        }
        self.stop_at_boundary();
    }
}

/// An operation that the caller has started, but that may not begin yet.
#[derive(Debug, Clone)]
struct Waiting {
    tensor: Tensor,
    weight: u32,
    buffers: Buffers,
    is_withheld: bool,
    /// True if the caller has received an error, so that it will get no further event.
    abandoned: bool,
}

impl Waiting {
    /// Abandons the operation before it begins. Returns the error, unless it was abandoned before.
    /// The operation will still begin, like on the other members, but its contribution is withheld.
    fn abandon(&mut self) -> Option<CollectiveError> {
        self.is_withheld = true;
        let tensor = self.tensor.name.clone();
        let missing = Missing::NotBegun;
        let told = std::mem::replace(&mut self.abandoned, true);
        (!told).then_some(CollectiveError::Abandoned { tensor, missing })
    }
}
