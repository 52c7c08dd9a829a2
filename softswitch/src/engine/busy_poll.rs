//! Whether the thread looks for frames once more, or sleeps.

use std::time::{Duration, Instant};

/// How long frames are looked for after the last ones.
const PATIENCE: Duration = Duration::from_micros(50);
/// A thread that slept and had the next frames so soon after the last ones would have found them by looking on: waking up
/// takes tens of microseconds itself on a virtual machine.
const SOON: Duration = Duration::from_micros(100);

/// Adaptive busy polling. Where a few packets go to and fro, each side is done before the other one's next packet comes:
/// falling asleep and being woken takes longer than the work then, on both sides. So the thread looks on for a little while
/// before it sleeps, as long as that pays: when the next frames come late in the end, it does not the next time. With 16 packets
/// under way an IPv4 router took twice as many packets a second so, on a virtual machine that is slow to wake.
///
/// Between two looks the thread is to yield the processor. Where others wait for it, they run meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct BusyPoll {
    /// When there were frames last.
    last: Instant,
    pays: bool,
}

impl BusyPoll {
    /// For a thread that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, pays: false }
    }

    /// To be called when there were frames.
    pub(super) fn found(&mut self, now: Instant) {
        self.last = now;
    }

    /// Whether to look once more, when there were none.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        self.pays && now.saturating_duration_since(self.last) < PATIENCE
    }

    /// To be called after a sleep.
    pub(super) fn woke(&mut self, now: Instant) {
        self.pays = now.saturating_duration_since(self.last) <= SOON;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_micros(140);

    #[test]
    fn a_thread_looks_on_as_long_as_frames_come_soon() {
        let mut now = Instant::now();
        let mut poll = BusyPoll::new(now);
        assert!(!poll.goes_on(now), "nothing is known yet");
        poll.woke(now + SHORT);
        for _ in 0..100 {
            poll.found(now);
            now += SHORT;
            assert!(poll.goes_on(now));
        }
        for _ in 0..2 {
            poll.found(now);
            now += LONG;
            assert!(!poll.goes_on(now), "it sleeps in the end");
            poll.woke(now);
            poll.found(now);
            assert!(!poll.goes_on(now), "frames come seldom");
        }
    }
}
