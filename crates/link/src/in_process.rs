//! Links between threads of one process, which can lose frames on purpose.
//!
//! Each direction has a bounded lock-free queue for frames. A second queue returns empty buffers to the sender, so that
//! a busy link allocates no memory.

use std::io;
use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::doorbell::Doorbell;
use crate::error::LinkError;
use crate::meter::{DirectionMeter, LinkMeter};
use crate::{BATCH, FramePort, check_length};

/// The properties of a link, which are the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// Probability, 0 to 1, that a frame is lost on the link.
    pub loss: f64,
    /// The seed of the losses. The loss of the n-th frame of a direction depends only on the seed, the
    /// direction and n.
    pub seed: u64,
    /// The number of frames that each direction's queue holds; at least 1. The link drops a frame if the
    /// queue is full.
    pub queue_frames: usize,
}

/// Creates a link. Returns its two ends and its counters.
///
/// # Errors
/// [`LinkError::BadLoss`] or [`LinkError::EmptyQueue`] if the configuration is invalid; [`LinkError::Doorbell`] if the
/// process has no file descriptor left.
pub fn link(config: &LinkConfig) -> Result<(InProcessPort, InProcessPort, LinkMeter), LinkError> {
    if !(0.0..=1.0).contains(&config.loss) {
        return Err(LinkError::BadLoss(config.loss));
    }
    if config.queue_frames == 0 {
        return Err(LinkError::EmptyQueue);
    }
    let meter = LinkMeter::default();
    let (a_out, b_in) = direction(config, 0, meter.a_to_b.clone())?;
    let (b_out, a_in) = direction(config, 1, meter.b_to_a.clone())?;
    let port = |outgoing, incoming| InProcessPort { outgoing, incoming };
    Ok((port(a_out, a_in), port(b_out, b_in), meter))
}

fn direction(
    config: &LinkConfig,
    number: u64,
    meter: DirectionMeter,
) -> Result<(DirectionSender, DirectionReceiver), LinkError> {
    let bell = Arc::new(Doorbell::new().map_err(LinkError::Doorbell)?);
    let (frames_in, frames_out) = RingBuffer::new(config.queue_frames);
    let (empties_in, empties_out) = RingBuffer::new(config.queue_frames);
    let outgoing = DirectionSender {
        frames: frames_in,
        empties: empties_out,
        bell: Arc::clone(&bell),
        not_rung_for: 0,
        loss: Loss::new(config, number),
        meter,
    };
    Ok((outgoing, DirectionReceiver { frames: frames_out, empties: empties_in, read: None, bell }))
}

/// One end of an in-process link. If the other end is dropped, this end can still send frames until
/// the queue is full, and it receives nothing more.
#[derive(Debug)]
pub struct InProcessPort {
    outgoing: DirectionSender,
    incoming: DirectionReceiver,
}

impl FramePort for InProcessPort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        check_length(frame)?;
        self.outgoing.send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.outgoing.flush()
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        Ok(self.incoming.receive())
    }

    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        self.incoming.bell.register(registry, token)
    }
}

/// The sending half of one direction.
#[derive(Debug)]
struct DirectionSender {
    frames: Producer<Vec<u8>>,
    empties: Consumer<Vec<u8>>,
    bell: Arc<Doorbell>,
    not_rung_for: usize,
    loss: Loss,
    meter: DirectionMeter,
}

impl DirectionSender {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        // The loss is drawn for dropped frames, too. Otherwise the lost frames would depend on the fill of the queue,
        // which depends on the threads' timing.
        let lost = self.loss.takes_the_next();
        if self.frames.is_full() {
            self.meter.count_dropped();
            return Ok(());
        }
        self.meter.count_carried(frame.len());
        if lost {
            self.meter.count_lost();
            return Ok(());
        }
        let mut queued = self.empties.pop().unwrap_or_default();
        queued.clear();
        queued.extend_from_slice(frame);
        if self.frames.push(queued).is_err() {
            // This cannot happen, because the queue had room and has no other sender.
            self.meter.count_lost();
        }
        self.not_rung_for += 1;
        // The bell rings even before `flush`, so that the receiver works while the sender fills the queue.
        if self.not_rung_for >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.not_rung_for == 0 {
            return Ok(());
        }
        self.not_rung_for = 0;
        self.bell.ring_if_asleep()
    }
}

/// The receiving half of one direction.
#[derive(Debug)]
struct DirectionReceiver {
    frames: Consumer<Vec<u8>>,
    empties: Producer<Vec<u8>>,
    /// The frame that the port returned last.
    read: Option<Vec<u8>>,
    bell: Arc<Doorbell>,
}

impl DirectionReceiver {
    fn receive(&mut self) -> Option<&[u8]> {
        if let Some(read) = self.read.take() {
            // If the queue is full, the sender has enough empty buffers.
            let _ = self.empties.push(read);
        }
        self.read = self.next();
        self.read.as_deref()
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        if let Ok(frame) = self.frames.pop() {
            return Some(frame);
        }
        self.bell.arm();
        let late = self.frames.pop().ok()?;
        self.bell.disarm();
        Some(late)
    }
}

/// The random choice of the lost frames of one direction.
#[derive(Debug)]
struct Loss {
    /// The number of lost frames out of 2^32.
    of_2_32: u64,
    random: ChaCha8Rng,
}

impl Loss {
    fn new(config: &LinkConfig, direction: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(config.seed);
        random.set_stream(direction);
        Self { of_2_32: (config.loss * 2_f64.powi(32)).round() as u64, random }
    }

    fn takes_the_next(&mut self) -> bool {
        self.of_2_32 != 0 && u64::from(self.random.next_u32()) < self.of_2_32
    }
}
