//! One direction of a cable, as the probes that come along it show it.

use std::time::Duration;

use tokio::time::Instant;
use tributary_topology::LinkKey;
use tributary_wire::frame::longest_frame;
use tributary_wire::{Probe, SliceWidth};

use super::PROBE_INTERVAL;
use super::cabling::{End, LONG_PROBES_EVERY, Life};
use super::detector::Detector;

/// How many of a job's longest frames may be before a probe in the queues of a link: two jobs that begin have as many slices
/// in flight.
const FRAMES_BEFORE: u64 = 32;

/// One direction of a cable, by the end where its frames arrive.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) link: LinkKey,
    pub(super) sender: End,
    /// The sender's probe.
    pub(super) expected: Probe,
    /// Whether frames get through.
    frames: Detector,
    /// Whether those of the widest slices do, while others get through.
    long_frames: Detector,
    /// The widest slices that jobs may send this way.
    widest: SliceWidth,
    /// When the sender's probe last arrived.
    pub(super) heard: Option<Instant>,
}

/// How much can be told of a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audibility {
    /// A probe that has not come has got lost.
    Audible,
    /// It may have come: those who would tell cannot be heard.
    Doubtful,
    /// None was sent, or nobody was there to receive it.
    Away,
}

impl Direction {
    /// A direction of a link of this rate, in bit/s, of which nothing is known yet.
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

    /// Ends a beat of the long probes. Where no frames get through at all, they say nothing.
    pub(super) fn beat_of_long_probes(&mut self, audibility: Audibility) {
        let audibility = if self.frames.is_alive() { audibility } else { Audibility::Away };
        beat(&mut self.long_frames, audibility);
    }

    /// Whether frames have come lately.
    pub(super) fn is_alive(&self) -> bool {
        self.frames.is_alive()
    }

    /// What this direction tells of the cable. `is_heard_back`: frames get through in the other one, so that the cable is whole,
    /// and only this one's listener cannot be heard.
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

/// How late a probe may be on a link of this rate, in bit/s, because of the jobs' frames before it.
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
