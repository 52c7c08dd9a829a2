//! A load generator for one switch: the two children and the parent of an aggregating switch, in one thread.
//!
//! It keeps a window of slices in flight, as the protocol's rule 1 demands: each slot of the switch gets the next slice
//! when the sum of the previous one has come out. Frames are received and sent in batches, so that the limit is the
//! switch and not the generator; the load of each is measured. Each sum is compared, value by value, with the
//! children's contributions.
//!
//! Results are not sent back: a newer slice takes over the slot whether it was released or not. So one slice is two
//! packets into the switch and one out of it.

mod error;
mod slices;
mod socket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tributary_wire::Seq;

pub use error::GeneratorError;
pub(crate) use slices::VALUES_AT;
pub use slices::{Arrived, CHILDREN, Contributions, Flow};
pub use socket::{Receiver, Sender};

/// A slice is retransmitted if its sum takes longer than this. A switch with thousands of slices queued answers sooner,
/// and a loss delays only its own slot.
const RESEND_AFTER: Duration = Duration::from_millis(50);

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Sums that came out of the switch, each slice counted once.
    pub slices: u64,
    /// How many of them were retransmitted because a frame was lost on the way in or out.
    pub resent: u64,
    /// Duration of the run.
    pub elapsed: Duration,
    /// Processor time of the generator's thread.
    pub cpu: Duration,
}

impl Outcome {
    /// Aggregated slices per second.
    pub fn rate(&self) -> f64 {
        self.slices as f64 / self.elapsed.as_secs_f64()
    }
}

/// Two children and a parent.
#[derive(Debug)]
pub struct Generator {
    contributions: Contributions,
    children: [Sender; CHILDREN],
    parent: Receiver,
    /// By index in the window.
    slots: Vec<Slot>,
    started: bool,
}

/// The slice in flight in one slot of the switch.
#[derive(Debug, Clone, Copy)]
struct Slot {
    seq: Seq,
    sent: Instant,
}

impl Generator {
    /// Sends nothing yet.
    pub fn new(flow: Flow, children: [Sender; CHILDREN], parent: Receiver) -> Self {
        let now = Instant::now();
        let slots = (0..flow.window).map(|place| Slot { seq: Seq::FIRST.plus(place), sent: now }).collect();
        Self { contributions: Contributions::new(flow), children, parent, slots, started: false }
    }

    /// Keeps the switch busy for `duration`, or until `stop` is set, and counts. Another call goes on with the slices
    /// in flight.
    ///
    /// # Errors
    /// A sum that is wrong; a socket that fails; and [`GeneratorError::Silent`] when nothing came out at all.
    pub fn run(&mut self, duration: Duration, stop: &AtomicBool) -> Result<Outcome, GeneratorError> {
        let (begin, cpu) = (Instant::now(), thread_cpu());
        let mut now = begin;
        let (mut slices, mut resent) = (0, 0);
        let mut look_for_late = begin;
        // Slices that were in flight when an earlier run ended may be lost by now.
        let again = std::mem::replace(&mut self.started, true);
        (0..self.slots.len()).try_for_each(|place| self.send(place, now, again))?;
        while now - begin < duration && !stop.load(Ordering::Relaxed) {
            self.flush()?;
            let came = self.parent.receive(RESEND_AFTER)?;
            now = Instant::now();
            slices += self.take(came, now)?;
            if now >= look_for_late {
                look_for_late = now + RESEND_AFTER;
                resent += self.resend_late(now)?;
            }
        }
        if slices == 0 && !stop.load(Ordering::Relaxed) {
            return Err(GeneratorError::Silent(duration));
        }
        Ok(Outcome { slices, resent, elapsed: begin.elapsed(), cpu: thread_cpu().saturating_sub(cpu) })
    }

    /// Reads the frames that have arrived, and sends the next slice in each slot whose sum is complete.
    fn take(&mut self, came: usize, now: Instant) -> Result<u64, GeneratorError> {
        let mut finished = 0;
        for at in 0..came {
            let Arrived::Sum(seq) = self.contributions.check(self.parent.frame(at))? else { continue };
            let place = self.contributions.place(seq);
            // A retransmission can bring the same sum twice.
            if self.slots[place].seq == seq {
                self.slots[place].seq = seq.plus(self.contributions.flow().window);
                self.send(place, now, false)?;
                finished += 1;
            }
        }
        Ok(finished)
    }

    fn resend_late(&mut self, now: Instant) -> Result<u64, GeneratorError> {
        let mut late = 0;
        for place in 0..self.slots.len() {
            if now.saturating_duration_since(self.slots[place].sent) >= RESEND_AFTER {
                self.send(place, now, true)?;
                late += 1;
            }
        }
        Ok(late)
    }

    /// Queues all contributions to the slot's slice.
    fn send(&mut self, place: usize, now: Instant, again: bool) -> Result<(), GeneratorError> {
        let slot = &mut self.slots[place];
        slot.sent = now;
        for (child, sender) in self.children.iter_mut().enumerate() {
            sender.queue(|frame| self.contributions.write(child, slot.seq, again, frame))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), GeneratorError> {
        self.children.iter_mut().try_for_each(Sender::flush)
    }
}

/// Processor time of this thread.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
