//! The aggregation server's side of the protocol.

mod reader;
mod slot;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tributary_wire::constants::MAX_CHILDREN;
use tributary_wire::{
    Downlink, Header, Hop, JobId, Kind, Operator, Rank, Seq, SliceWidth, Totals, ValuesView,
};

use crate::config::{ConfigError, ServerConfig, check_fan_in, check_members, check_window};
use crate::error::StartError;
use crate::masks::Masks;
use crate::numbers::Tensor;
use crate::operation::{OperationEvent, OperationId};
use crate::stripe::Stripe;
use crate::takeover::FinishedSlice;
use crate::time::Time;
use crate::vouch::Vouchers;
use reader::Reader;
use slot::{Answer, Answers, ContributionEffect, ServerSlot, index_of};

/// The assumed round trip before the first measurement.
const INITIAL_ROUND_TRIP: Duration = Duration::from_millis(1);
/// The maximum time for which the server assumes that an answer is still on its way.
/// The server normally assumes twice the shortest round trip. If the window is wide, even the shortest measurement
/// contains a worker's wait for its turn to send, so the assumption needs a limit.
const LONGEST_WAY: Duration = Duration::from_millis(5);

/// The receivers of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recipient {
    /// Every member. The network multicasts the result.
    All,
    /// One member. The result travels along the hop stack for this member.
    Rank(Rank),
}

/// A RESULT that the caller must send. The caller adds the addresses and the hop stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultOut<'a> {
    /// The receivers of the packet.
    pub to: Recipient,
    /// The header of the packet.
    pub header: Header,
    /// The values of the packet; `None` in an acknowledgement, which shows only that the slice is finished.
    pub values: Option<&'a [i32]>,
}

/// Counters of a server since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerStats {
    /// GRADIENT packets that arrived, including rejected packets.
    pub received: u64,
    /// Contributions that were aggregated.
    pub contributions: u64,
    /// Slices that are complete.
    pub completed: u64,
    /// Packets of a child whose contribution an unfinished slice already contains.
    pub duplicates: u64,
    /// PROBE packets for slices that are not finished.
    pub early_probes: u64,
    /// Packets for slices so old that no member can need their results.
    pub stale: u64,
    /// Packets of another job or generation or from an unknown child, and packets with a wrong fan-in,
    /// sequence number or width.
    pub rejected: u64,
    /// Results sent for the first time, to all members.
    pub results: u64,
    /// Results sent again, to one member.
    pub answers: u64,
    /// Results sent again to all members, because several members requested them.
    pub answers_to_all: u64,
    /// Packets dropped because the server does not know yet to which operation their slices will belong.
    /// Workers send them again.
    pub put_off: u64,
    /// Retransmit requests that the server did not answer, because an answer was already on its way.
    pub suppressed: u64,
    /// The shortest measured time from a result to the first packet of the next slice in its slot; `None`
    /// before a measurement.
    pub round_trip: Option<Duration>,
}

impl ServerStats {
    /// Returns the counters of the servers of two stripes together, and the shorter round trip.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            received: self.received + other.received,
            contributions: self.contributions + other.contributions,
            completed: self.completed + other.completed,
            duplicates: self.duplicates + other.duplicates,
            early_probes: self.early_probes + other.early_probes,
            stale: self.stale + other.stale,
            rejected: self.rejected + other.rejected,
            results: self.results + other.results,
            answers: self.answers + other.answers,
            answers_to_all: self.answers_to_all + other.answers_to_all,
            put_off: self.put_off + other.put_off,
            suppressed: self.suppressed + other.suppressed,
            round_trip: self.round_trip.into_iter().chain(other.round_trip).min(),
        }
    }
}

/// The root of a job's tree. It finishes the sums, keeps each result until no member can request it,
/// and sends it again.
/// The server needs no timers, because members that wait for a result send retransmit requests.
///
/// A server that [reads the sums](ServerConfig::reads) receives each operation through [`expect`](Self::expect), and
/// reports its end through [`poll_event`](Self::poll_event).
///
/// After each [`handle_gradient`](Self::handle_gradient) the caller sends what [`poll_transmit`](Self::poll_transmit)
/// yields, until `None`.
#[derive(Debug, Clone)]
pub struct Server {
    job: JobId,
    members: Vec<Rank>,
    width: SliceWidth,
    stripe: Stripe,
    window: u32,
    fan_in: u8,
    downlink: Downlink,
    vouchers: Vouchers,
    reader: Option<Reader>,
    slots: Box<[ServerSlot]>,
    /// The packets to send: the slice, its receivers, and true for an acknowledgement.
    queue: VecDeque<(Seq, Recipient, bool)>,
    /// The time of each member's last retransmit request.
    asked: BTreeMap<Rank, Time>,
    round_trip: Option<Duration>,
    stats: ServerStats,
}

impl Server {
    /// Creates the server of a new job.
    ///
    /// # Errors
    /// [`ConfigError`] if the window, the members or the fan-in are invalid.
    pub fn new(config: ServerConfig) -> Result<Self, ConfigError> {
        check_window(config.window)?;
        let (start, mask) = (config.start, config.window - 1);
        let due = |index: u32| start.plus(index.wrapping_sub(start.0) & mask);
        let slot = |index| ServerSlot::new(due(index), config.job, config.width);
        let slots = (0..config.window).map(slot).collect();
        Self::with(config, slots)
    }

    /// Creates a server that continues the work of a failed server, from the members'
    /// [merged](crate::merge) reports.
    /// `dues` are the next slices to sum, one for each slot in slot order. `finished` are the results of earlier slices
    /// that some members still need, as other members received them. The server never sums a slice before the due
    /// slices again.
    ///
    /// # Errors
    /// [`ConfigError`], as for [`new`](Self::new). Also if `dues` and `finished` do not fit the window or each other,
    /// and if the configuration asks the server to read the sums, because it would miss the earlier slices of an
    /// operation.
    pub fn take_over(
        config: ServerConfig,
        dues: &[Seq],
        finished: &[FinishedSlice],
    ) -> Result<Self, ConfigError> {
        let window = config.window;
        check_window(window)?;
        if config.reads.is_some() {
            return Err(ConfigError::ReadsAfterTakeOver);
        }
        if dues.len() != window as usize {
            return Err(ConfigError::Dues { due: dues.len(), window });
        }
        let of_another = |(slot, due): &(usize, &Seq)| due.0 as usize & (dues.len() - 1) != *slot;
        if let Some((slot, &due)) = dues.iter().enumerate().find(of_another) {
            return Err(ConfigError::Due { slot, due, window });
        }
        let mut slots: Box<[ServerSlot]> =
            dues.iter().map(|due| ServerSlot::new(*due, config.job, config.width)).collect();
        for slice in finished {
            let Some(slot) = slot_of(&mut slots, slice.seq) else { continue };
            if slice.seq.plus(window) != slot.due {
                return Err(ConfigError::NotTheLast { finished: slice.seq, due: slot.due });
            }
            let is_acknowledged = slice.values.is_empty() && slice.totals.owner().is_some();
            if slice.values.len() != config.width.bytes() && !is_acknowledged {
                let (got, width) = (slice.values().len(), config.width.values());
                return Err(ConfigError::Width { finished: slice.seq, got, width });
            }
            slot.take_over(slice);
        }
        Self::with(config, slots)
    }

    fn with(config: ServerConfig, slots: Box<[ServerSlot]>) -> Result<Self, ConfigError> {
        let ServerConfig { job, members, width, stripe, window, start, fan_in, downlink, .. } = config;
        check_fan_in(fan_in)?;
        let members = check_members(members)?;
        Ok(Self {
            job,
            reader: config.reads.map(|secret| {
                let masks = config.confidential.then(|| Masks::new(&secret));
                Reader::new((&secret, width), masks, (job, &members), start, window)
            }),
            members,
            width,
            stripe,
            window,
            fan_in,
            downlink,
            vouchers: Vouchers::new(&config.vouching_key),
            slots,
            queue: VecDeque::new(),
            asked: BTreeMap::new(),
            round_trip: None,
            stats: ServerStats::default(),
        })
    }

    /// Processes a GRADIENT. `hop` is the last entry of its hop stack, which is the entry of this server.
    /// `values` is `None` for a PROBE. A packet that does not fit the job only increments a counter.
    pub fn handle_gradient(&mut self, now: Time, header: &Header, hop: &Hop, values: Option<ValuesView<'_>>) {
        self.stats.received += 1;
        if header.kind != Kind::Gradient || header.job != self.job || !self.stripe.contains(header.seq) {
            self.stats.rejected += 1;
            return;
        }
        if header.retransmit && self.members.binary_search(&header.rank).is_ok() {
            self.asked.insert(header.rank, now);
        }
        let (window, fan_in) = (self.window, self.fan_in);
        let Some(slot) = slot_of(&mut self.slots, header.seq) else { return };
        // The distance is a multiple of the window, because both slices belong to this slot.
        let ahead = header.seq.distance(slot.due);
        if ahead < 0 {
            if header.seq.plus(window) == slot.due {
                self.answer(now, header);
            } else {
                self.stats.stale += 1;
            }
            return;
        }
        let exists = usize::from(hop.child) < MAX_CHILDREN && hop.fan_in == fan_in;
        let fits = values.is_none_or(|values| values.len() == self.width.values());
        // A worker that keeps rule 1 (the strict window) is never ahead of the server.
        if ahead > 0 || !exists || !fits {
            self.stats.rejected += 1;
            return;
        }
        let Some(values) = values else {
            self.stats.early_probes += 1;
            return;
        };
        if self.reader.as_ref().is_some_and(|reader| reader.is_too_early(header.seq)) {
            self.stats.put_off += 1;
            return;
        }
        if slot.is_empty() && !header.retransmit {
            let sample = slot.answers.only_sent().map(|sent| now - sent);
            self.round_trip = self.round_trip.into_iter().chain(sample).min();
        }
        match slot.contribute(header, values, hop.child, fan_in, window) {
            ContributionEffect::Duplicate => self.stats.duplicates += 1,
            ContributionEffect::Added => self.stats.contributions += 1,
            ContributionEffect::Finished => {
                slot.answers = Answers::default();
                slot.answers.sent_to_all(now);
                self.stats.contributions += 1;
                self.stats.completed += 1;
                if let (Some(reader), Some(sum)) = (&mut self.reader, &mut slot.finished) {
                    sum.members = Some(reader.membership());
                    reader.read(header.seq, sum);
                }
                self.send_first(header.seq);
            }
        }
    }

    /// Returns the next packet to send now, if there is one.
    pub fn poll_transmit(&mut self) -> Option<ResultOut<'_>> {
        loop {
            let (seq, to, is_acknowledgement) = self.queue.pop_front()?;
            let index = index_of(&self.slots, seq);
            let current = self.slots.get(index)?;
            // If the next slice of the slot is finished, all members have the result of this slice.
            if seq.plus(self.window) != current.due || current.finished.is_none() {
                continue;
            }
            let finished = self.slots.get(index)?.finished.as_ref()?;
            let rank = match to {
                Recipient::All => Rank::ALL,
                Recipient::Rank(rank) => rank,
            };
            let is_acknowledgement = is_acknowledgement || !finished.has_values;
            let tag = match is_acknowledgement {
                true => self.vouchers.acknowledge(seq, finished.job, self.job),
                false => self.vouchers.vouch(finished.totals.tag, seq, finished.job, self.job),
            };
            let header = Header {
                kind: Kind::Result,
                operator: finished.operator,
                retransmit: false,
                job: self.job,
                rank,
                seq,
                totals: Totals { tag, ..finished.totals },
            };
            let values = (!is_acknowledgement).then_some(&*finished.values);
            return Some(ResultOut { to, header, values });
        }
    }

    /// Announces the next operation of the members to a server that reads the sums.
    /// Operations follow one another without gaps from the first slice of the job. The caller should announce an
    /// operation before the members start it. Until then the server drops slices that are more than a window ahead of
    /// the announced operations, and the workers must send these slices again.
    ///
    /// # Errors
    /// [`StartError::ReadsNothing`] if the server does not read the sums; [`StartError::NoMemory`] if the allocation of
    /// memory fails.
    pub fn expect(&mut self, tensor: Tensor) -> Result<OperationId, StartError> {
        match &mut self.reader {
            Some(reader) => reader.expect(tensor, &self.slots),
            None => Err(StartError::ReadsNothing { tensor: tensor.name }),
        }
    }

    /// Returns the outcome of the next operation that has ended, if there is one.
    /// An operation fails if its sum is wrong for all members.
    pub fn poll_event(&mut self) -> Option<OperationEvent> {
        self.reader.as_mut()?.poll_event()
    }

    /// Changes to a new generation of the job.
    /// The server continues to serve finished slices, under the new job id, and restarts unfinished slices. Members may
    /// leave at any time. Members may join only if the other members are [frozen](crate::Worker::freeze) between
    /// operations, so that no slice has begun.
    ///
    /// # Errors
    /// [`ConfigError`] if the members or the fan-in are invalid, if a member would join inside an operation, or if
    /// `job` is not a new job id. The old generation then stays.
    pub fn change_generation(&mut self, job: JobId, members: &[Rank], fan_in: u8) -> Result<(), ConfigError> {
        if job == self.job {
            return Err(ConfigError::SameJob(job));
        }
        check_fan_in(fan_in)?;
        let members = check_members(members.to_vec())?;
        let joiner = members.iter().find(|rank| self.members.binary_search(rank).is_err());
        if let Some(&joiner) = joiner.filter(|_| !self.slots.iter().all(ServerSlot::is_empty)) {
            return Err(ConfigError::JoinInside(joiner));
        }
        if let Some(reader) = &mut self.reader {
            reader.change_generation(job, &members);
        }
        self.members = members;
        self.fan_in = fan_in;
        self.job = job;
        self.slots.iter_mut().for_each(|slot| slot.restart(job));
        // The paths of the new tree differ, so old measurements do not apply.
        self.round_trip = None;
        self.asked.clear();
        Ok(())
    }

    /// Returns the members that sent a retransmit request within the last `time`.
    /// They wait for a result, and their packets get to the server.
    pub fn asking(&self, now: Time, time: Duration) -> impl Iterator<Item = Rank> {
        self.asked.iter().filter(move |(_, asked)| now - **asked <= time).map(|(rank, _)| *rank)
    }

    /// Returns the server's counters.
    pub fn stats(&self) -> ServerStats {
        ServerStats { round_trip: self.round_trip, ..self.stats }
    }

    fn send_first(&mut self, seq: Seq) {
        let owner = self.owner(seq);
        match self.downlink {
            Downlink::Multicast => {
                self.stats.results += 1;
                self.send_to_all(seq, owner);
            }
            Downlink::Unicast => {
                self.stats.results += self.members.len() as u64;
                let to =
                    |&rank: &Rank| (seq, Recipient::Rank(rank), owner.is_some_and(|owner| owner != rank));
                self.queue.extend(self.members.iter().map(to));
            }
        }
    }

    /// Returns the member that receives the values of a finished slice; `None` if all members receive them.
    fn owner(&self, seq: Seq) -> Option<Rank> {
        let slot = self.slots.get(index_of(&self.slots, seq))?;
        let sum = slot.finished.as_ref().filter(|sum| sum.operator == Operator::Sum)?;
        sum.totals.owner().filter(|owner| self.members.binary_search(owner).is_ok())
    }

    /// Queues a finished slice for all members.
    /// If it has an `owner`, the other members receive an acknowledgement.
    fn send_to_all(&mut self, seq: Seq, owner: Option<Rank>) {
        self.queue.extend(owner.map(|owner| (seq, Recipient::Rank(owner), false)));
        self.queue.push_back((seq, Recipient::All, owner.is_some()));
    }

    /// Answers the retransmit request of a worker for a finished slice.
    fn answer(&mut self, now: Time, header: &Header) {
        let on_its_way = self.round_trip.unwrap_or(INITIAL_ROUND_TRIP).saturating_mul(2).min(LONGEST_WAY);
        let multicast = self.downlink == Downlink::Multicast;
        if self.members.binary_search(&header.rank).is_err() {
            self.stats.rejected += 1;
            return;
        }
        let owner = self.owner(header.seq);
        let Some(slot) = slot_of(&mut self.slots, header.seq) else { return };
        if slot.finished.is_none() {
            self.stats.stale += 1;
            return;
        }
        match slot.answers.decide(now, header.rank, on_its_way, multicast) {
            Answer::Wait => self.stats.suppressed += 1,
            Answer::One => {
                self.stats.answers += 1;
                let is_acknowledgement = owner.is_some_and(|owner| owner != header.rank);
                self.queue.push_back((header.seq, Recipient::Rank(header.rank), is_acknowledgement));
            }
            Answer::All => {
                self.stats.answers_to_all += 1;
                self.send_to_all(header.seq, owner);
            }
        }
    }
}

fn slot_of(slots: &mut [ServerSlot], seq: Seq) -> Option<&mut ServerSlot> {
    let index = index_of(slots, seq);
    slots.get_mut(index)
}
