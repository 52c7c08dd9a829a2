//! Counters of links, which any thread can read while the links work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Frames put on the link, including those that were lost.
    pub frames: u64,
    /// Bytes of these `frames`, from the Ethernet header on.
    pub bytes: u64,
    /// Frames put on the link that did not arrive at the other end.
    pub lost: u64,
    /// Frames that were never put on the link, or never left it, because the queue was full, the
    /// interface was down, or the frame was too long for the interface.
    pub dropped: u64,
}

/// The counters of one direction. A clone reads the same counters.
///
/// Each count is exact by itself. While frames pass, a reading of all of them is not a snapshot of one instant.
#[derive(Debug, Clone, Default)]
pub struct DirectionMeter(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    dropped: AtomicU64,
}

impl DirectionMeter {
    /// Returns the present counts.
    pub fn read(&self) -> Carried {
        let Counters { frames, bytes, lost, dropped } = &*self.0;
        let [frames, bytes, lost, dropped] =
            [frames, bytes, lost, dropped].map(|c| c.load(Ordering::Relaxed));
        Carried { frames, bytes, lost, dropped }
    }

    /// Counts a frame. This is for ports outside of this crate.
    pub fn count_carried(&self, len: usize) {
        self.count_all_carried(1, len);
    }

    pub(crate) fn count_all_carried(&self, frames: usize, bytes: usize) {
        self.0.frames.fetch_add(frames as u64, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_lost(&self) {
        self.0.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_dropped(&self) {
        self.count_all_dropped(1);
    }

    pub(crate) fn count_all_dropped(&self, frames: u64) {
        self.0.dropped.fetch_add(frames, Ordering::Relaxed);
    }
}

/// The counters of both directions of an in-process link. The ends are named after the order in which
/// [`link`](crate::link) returns them.
#[derive(Debug, Clone, Default)]
pub struct LinkMeter {
    /// Frames from the first port to the second.
    pub a_to_b: DirectionMeter,
    /// Frames from the second port to the first.
    pub b_to_a: DirectionMeter,
}

/// The counters of both directions of an interface, as this port counts them.
#[derive(Debug, Clone, Default)]
pub struct InterfaceMeter {
    /// Frames that the port has put on the interface.
    pub sent: DirectionMeter,
    /// Frames that the port has returned. Frames that arrived joined count when the port returns the
    /// first of them.
    pub received: DirectionMeter,
    /// Repairs of the port's own queues of received frames.
    pub repairs: RepairMeter,
}

/// Counts repairs of a port's two queues of received frames, which the kernel fills in the same order.
/// The port repairs them if they are out of step; the frames that this costs count as dropped. A clone reads the same
/// counter.
#[derive(Debug, Clone, Default)]
pub struct RepairMeter(Arc<AtomicU64>);

impl RepairMeter {
    /// Returns the present count.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a repair. Returns true for the first repair.
    pub(crate) fn count(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }
}
