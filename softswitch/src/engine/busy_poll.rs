//! Whether the thread looks for frames once more, or sleeps.

use std::time::{Duration, Instant};

/// How long frames are looked for after the last ones.
const PATIENCE: Duration = Duration::from_micros(50);
/// A sleep that was not longer than this was not worth it: waking up takes tens of microseconds itself on a virtual machine.
const SHORT_SLEEP: Duration = Duration::from_micros(150);

/// Adaptive busy polling. Where a few packets go to and fro, each side is done before the other one's next packet comes:
/// falling asleep and being woken takes longer than the work then, on both sides. So the thread looks on for a little while
/// before it sleeps, as long as that pays: when it has slept for long in the end, it does not the next time. With 16 packets
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

    /// To be called after a sleep of this length.
    pub(super) fn slept(&mut self, length: Duration) {
        self.pays = length <= SHORT_SLEEP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(20);
    const LONG: Duration = Duration::from_millis(5);

    #[test]
    fn a_thread_looks_on_as_long_as_frames_come_soon() {
        let mut now = Instant::now();
        let mut poll = BusyPoll::new(now);
        assert!(!poll.goes_on(now), "nothing is known yet");
        poll.slept(SHORT);
        for _ in 0..100 {
            poll.found(now);
            now += SHORT;
            assert!(poll.goes_on(now));
        }
        assert!(!poll.goes_on(now + LONG), "it sleeps in the end");
        poll.slept(LONG);
        poll.found(now + LONG);
        assert!(!poll.goes_on(now + LONG), "frames come seldom");
    }
}
