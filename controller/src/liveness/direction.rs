//! One direction of a cable, as its probes show it.

use std::time::Duration;

use tokio::time::Instant;
use tributary_topology::{LinkKey, NodeKey};
use tributary_wire::frame::longest_frame;
use tributary_wire::{Probe, SliceWidth};

use super::detector::Detector;
use super::life::Life;
use super::{LONG_PROBES_EVERY, PROBE_INTERVAL};

/// Longest frames of jobs that may be queued before a probe on a link: two jobs that begin have this
/// many slices in flight.
const FRAMES_BEFORE: u64 = 32;

/// One end of a cable.
pub(crate) type End = (NodeKey, u16);

/// One direction of a cable, by the end where its frames arrive.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) link: LinkKey,
    pub(super) sender: End,
    /// The sender's probe.
    pub(super) expected: Probe,
    /// Detects the loss of all frames.
    frames: Detector,
    /// Detects the loss of the frames of the widest slices, while shorter ones get through.
    long_frames: Detector,
    /// The widest slices that jobs may send this way.
    widest: SliceWidth,
    /// The time at which the sender's probe last arrived.
    pub(super) heard: Option<Instant>,
}

/// The certainty that a missing probe of a beat was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audibility {
    /// The probe was lost: it was sent, and a reachable node would have received it.
    Audible,
    /// The probe may have arrived, but the nodes that would report it are unreachable.
    Doubtful,
    /// The probe was not sent, or the receiving node did not run.
    Away,
}

impl Direction {
    /// Creates a direction whose state is unknown, of a link with this rate in bit/s.
    pub(super) fn new(link: LinkKey, rate: u64, sender: End, expected: Probe, widest: SliceWidth) -> Self {
        let late = late(rate, widest);
        let detector = |interval: Duration| Detector::new(beats_of(late, interval));
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

    /// Notes that the sender's probe has arrived, as a frame of this length.
    pub(super) fn hear(&mut self, bytes: usize, now: Instant) {
        self.frames.hear();
        if bytes >= longest_frame(self.widest) {
            self.long_frames.hear();
        }
        self.heard = Some(now);
    }

    /// Ends a beat of the short probes.
    pub(super) fn beat(&mut self, audibility: Audibility) {
        beat(&mut self.frames, audibility);
    }

    /// Ends a beat of the long probes, which show nothing while no frames get through at all.
    pub(super) fn beat_of_long_probes(&mut self, audibility: Audibility) {
        let audibility = if self.frames.is_alive() { audibility } else { Audibility::Away };
        beat(&mut self.long_frames, audibility);
    }

    /// Returns true if frames have arrived recently.
    pub(super) fn is_alive(&self) -> bool {
        self.frames.is_alive()
    }

    /// Returns the state of the cable, as far as this direction shows it.
    /// `is_heard_back`: frames get through in the opposite direction. Then the cable is intact, and only the listener
    /// of this direction is unreachable for the controller.
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

/// Returns how late a probe may be on a link of this rate, in bit/s, because of the
/// jobs' frames before it.
fn late(rate: u64, widest: SliceWidth) -> Duration {
    let bits = FRAMES_BEFORE * 8 * longest_frame(widest) as u64;
    Duration::from_secs_f64(bits as f64 / rate as f64)
}

fn beats_of(time: Duration, interval: Duration) -> u32 {
    u32::try_from(time.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX)
}

fn beat(detector: &mut Detector, audibility: Audibility) {
    match audibility {
        Audibility::Audible => detector.beat(true),
        Audibility::Doubtful => detector.beat(false),
        Audibility::Away => detector.skip(),
    }
}
