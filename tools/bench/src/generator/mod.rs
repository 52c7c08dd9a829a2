//! A load generator for one switch: two hosts that send and one that receives, in one thread.
//!
//! The generator keeps a window of items in flight. When the item of a place in the window has come out of
//! the switch, the generator sends the next item of this place. The [`Load`] defines an item: a
//! [slice](slices) that an aggregating switch sums, or a [packet](packets) that a switch forwards. The
//! generator receives and sends frames in batches, so that the switch is the limit and not the generator. It
//! measures the processor time of both, and compares each frame that comes out with the expected frame.
//!
//! The generator's own packet sockets carry one frame at a time, as most switches need. The agents' sockets
//! in `link` join neighbouring frames for a switch that splits them. They can also bypass an interface's
//! queue, where the queue would make the generator the limit.

mod error;
mod load;
mod packets;
mod receiver;
mod ring;
mod sender;
mod slices;
mod socket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tributary_wire::Seq;

pub use error::GeneratorError;
pub use load::{Arrived, Load, SENDERS};
pub use packets::{PacketFlow, Packets};
pub use receiver::Receiver;
pub use sender::{Sender, Sending};
pub(crate) use slices::VALUES_AT;
pub use slices::{CHILDREN, Flow, SliceContributions};
use socket::BATCH;

/// An item is sent again if it takes longer than this.
///
/// Even a switch with thousands of queued items is faster than this, and a loss delays only its own place in
/// the window.
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GeneratorRun {
    /// Items that came out of the switch, each counted once.
    pub items: u64,
    /// The number of items sent again because a frame was lost on the way in or out.
    pub resent: u64,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Processor time of the generator's thread.
    pub cpu: Duration,
}

impl GeneratorRun {
    /// Returns the number of items per second.
    pub fn rate(&self) -> f64 {
        self.items as f64 / self.elapsed.as_secs_f64()
    }
}

/// Two hosts that send, and one that receives.
#[derive(Debug)]
pub struct Generator<L> {
    load: L,
    senders: [Sender; SENDERS],
    receiver: Receiver,
    /// The items in flight, by place in the window.
    places: Vec<InFlight>,
    started: bool,
}

/// The item in flight of one place in the window.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    seq: Seq,
    sent: Instant,
}

impl<L: Load> Generator<L> {
    /// Creates a generator that has sent nothing yet.
    pub fn new(load: L, senders: [Sender; SENDERS], receiver: Receiver) -> Self {
        let sent = Instant::now();
        let places = (0..load.window()).map(|place| InFlight { seq: Seq::FIRST.plus(place), sent }).collect();
        Self { load, senders, receiver, places, started: false }
    }

    /// Keeps the switch busy for `duration`, or until `stop` is set, and counts the items.
    /// Another call continues with the items in flight.
    ///
    /// # Errors
    /// A wrong frame, a socket error, or [`GeneratorError::Silent`] if no frame came out.
    pub fn run(&mut self, duration: Duration, stop: &AtomicBool) -> Result<GeneratorRun, GeneratorError> {
        let (begin, cpu) = (Instant::now(), thread_cpu());
        let mut now = begin;
        let (mut items, mut resent) = (0, 0);
        let mut look_for_late = begin;
        // The items in flight at the end of an earlier run may be lost by now.
        let again = std::mem::replace(&mut self.started, true);
        (0..self.places.len()).try_for_each(|place| self.send(place, now, again))?;
        while now - begin < duration && !stop.load(Ordering::Relaxed) {
            self.flush()?;
            items += self.take_or_wait()?;
            now = Instant::now();
            if now >= look_for_late {
                look_for_late = now + RESEND_AFTER;
                resent += self.resend_late(now)?;
            }
        }
        if items == 0 && !stop.load(Ordering::Relaxed) {
            return Err(GeneratorError::Silent(duration));
        }
        Ok(GeneratorRun { items, resent, elapsed: begin.elapsed(), cpu: thread_cpu().saturating_sub(cpu) })
    }

    /// Handles the frames that have arrived, or that arrive within [`RESEND_AFTER`].
    /// Returns the number of items that these frames finish.
    fn take_or_wait(&mut self) -> Result<u64, GeneratorError> {
        if let Some(finished) = self.take()? {
            return Ok(finished);
        }
        // Other threads may deliver frames meanwhile. This thread polls, because waking it would cost the
        // switch more time.
        std::thread::yield_now();
        if let Some(finished) = self.take()? {
            return Ok(finished);
        }
        self.receiver.wait(RESEND_AFTER)?;
        Ok(self.take()?.unwrap_or_default())
    }

    /// Reads a batch of frames that have arrived, and queues the next item after each finished item.
    /// Returns the number of finished items, or `None` if no frame had arrived.
    fn take(&mut self) -> Result<Option<u64>, GeneratorError> {
        let now = Instant::now();
        let mut finished = None;
        for _ in 0..BATCH {
            let Some(frame) = self.receiver.next()? else { break };
            let finished = finished.get_or_insert(0);
            let Arrived::Whole(seq) = self.load.check(frame)? else { continue };
            let place = self.load.place(seq);
            // An item that was sent again can come out twice.
            if self.places[place].seq == seq {
                self.places[place].seq = seq.plus(self.load.window());
                self.send(place, now, false)?;
                *finished += 1;
            }
        }
        Ok(finished)
    }

    fn resend_late(&mut self, now: Instant) -> Result<u64, GeneratorError> {
        let mut late = 0;
        for place in 0..self.places.len() {
            if now.saturating_duration_since(self.places[place].sent) >= RESEND_AFTER {
                self.send(place, now, true)?;
                late += 1;
            }
        }
        Ok(late)
    }

    /// Queues all frames of the item of this place.
    fn send(&mut self, place: usize, now: Instant, again: bool) -> Result<(), GeneratorError> {
        let InFlight { seq, sent } = &mut self.places[place];
        *sent = now;
        for sender in self.load.senders(*seq) {
            self.senders[sender].queue(|frame| self.load.write(sender, *seq, again, frame))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), GeneratorError> {
        self.senders.iter_mut().try_for_each(Sender::flush)
    }
}

/// Returns the processor time of this thread.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
