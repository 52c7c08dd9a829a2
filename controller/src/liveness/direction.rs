//! The state of one direction of a cable, according to its probes.

use std::time::Duration;

use tokio::time::Instant;
use tributary_topology::{LinkKey, NodeKey};
use tributary_wire::frame::longest_frame;
use tributary_wire::{Probe, SliceWidth};

use super::detector::Detector;
use super::life::Life;
use super::{LONG_PROBES_EVERY, PROBE_INTERVAL};

/// Number of the longest frames that may be queued before a probe on a link.
/// Two jobs that start at the same time have this number of slices in flight.
const FRAMES_BEFORE: u64 = 32;

/// One end of a cable: a node and its port.
pub(crate) type End = (NodeKey, u16);

/// One direction of a cable.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) link: LinkKey,
    pub(super) sender: End,
    /// The probe that the sender sends in this direction.
    pub(super) expected: Probe,
    /// Detects the loss of all frames.
    frames: Detector,
    /// Detects the loss of the widest slices' frames while shorter frames arrive.
    long_frames: Detector,
    /// The widest slices that jobs may send in this direction.
    widest: SliceWidth,
    /// The time at which the sender's probe last arrived.
    pub(super) heard: Option<Instant>,
}

/// The certainty with which a missing probe was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audibility {
    /// The probe was lost: it was sent, and the receiving node would have reported it.
    Audible,
    /// The probe may have arrived, but the nodes that would report it are unreachable.
    Doubtful,
    /// The probe was not sent, or the receiving node did not run.
    Unreachable,
}

impl Direction {
    /// Creates a direction with an unknown state. `rate` is the rate of the link in bit/s.
    pub(super) fn new(link: LinkKey, rate: u64, sender: End, expected: Probe, widest: SliceWidth) -> Self {
        let late = late(rate, widest);
        let detector = |interval: Duration| Detector::new(ticks_of(late, interval));
        Self {
            link,
            sender,
            expected,
            frames: detector(PROBE_INTERVAL),
            long_frames: detector(PROBE_INTERVAL * LONG_PROBES_EVERY),
            widest,
            heard: None,
        }
    }

    /// Notes that the sender's probe has arrived in a frame of `bytes` bytes.
    pub(super) fn hear(&mut self, bytes: usize, now: Instant) {
        self.frames.hear();
        if bytes >= longest_frame(self.widest) {
            self.long_frames.hear();
        }
        self.heard = Some(now);
    }

    /// Ends a tick of the short probes.
    pub(super) fn tick(&mut self, audibility: Audibility) {
        tick(&mut self.frames, audibility);
    }

    /// Ends a tick of the long probes. They give no information while short frames do not arrive either.
    pub(super) fn tick_of_long_probes(&mut self, audibility: Audibility) {
        let audibility = if self.frames.is_alive() { audibility } else { Audibility::Unreachable };
        tick(&mut self.long_frames, audibility);
    }

    /// Returns true if frames have arrived recently.
    pub(super) fn is_alive(&self) -> bool {
        self.frames.is_alive()
    }

    /// Returns the state of the cable according to this direction.
    /// `is_heard_back` is true if frames arrive in the opposite direction. If they do, a silent direction means only
    /// that the controller cannot reach the receiver of this direction.
    pub(super) fn life(&self, is_heard_back: bool) -> Life {
        if self.frames.is_dead() {
            Life::Dead
        } else if self.frames.is_silent() && !is_heard_back {
            Life::Silent
        } else if self.long_frames.is_dead() {
            Life::ShortOfMtu(self.widest)
        } else {
            Life::Alive
        }
    }
}

/// Returns the maximum delay of a probe behind the frames of jobs on a link.
/// `rate` is the rate of the link in bit/s.
fn late(rate: u64, widest: SliceWidth) -> Duration {
    let bits = FRAMES_BEFORE * 8 * longest_frame(widest) as u64;
    Duration::from_secs_f64(bits as f64 / rate as f64)
}

fn ticks_of(time: Duration, interval: Duration) -> u32 {
    u32::try_from(time.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX)
}

fn tick(detector: &mut Detector, audibility: Audibility) {
    match audibility {
        Audibility::Audible => detector.tick(true),
        Audibility::Doubtful => detector.tick(false),
        Audibility::Unreachable => detector.skip(),
    }
}
