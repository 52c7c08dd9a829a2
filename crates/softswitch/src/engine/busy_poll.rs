//! Decides between polling for frames again and sleeping.

use std::time::{Duration, Instant};

/// Time for which ports are polled after the last frames.
const PATIENCE: Duration = Duration::from_micros(50);
/// The longest sleep that is not worthwhile, because waking up alone takes tens of microseconds on
/// a virtual machine.
const SHORT_SLEEP: Duration = Duration::from_micros(150);
/// Polling pays if at least this number of the last eight polls found a frame.
const FOUND_OF_EIGHT: u32 = 2;
/// After this number of short sleeps without polling, the thread tries polling again.
const SLEEPS_TO_A_TRIAL: u8 = 16;

/// Adaptive busy polling.
///
/// Where a few packets travel back and forth, each side is done before the other side's next packet
/// arrives. Falling asleep and waking up then takes longer than the work, on both sides. So the
/// thread keeps polling for a short time before it sleeps, while polling pays. With 16 packets in
/// flight, an IPv4 router then forwarded twice as many packets a second, on a virtual machine that
/// is slow to wake up.
///
/// Two signs show whether polling pays. A long sleep shows that frames are rare. A short sleep
/// shows little, because most of it may have been the wake-up. Then the results of the last polls
/// decide.
///
/// Between two polls the thread must yield the processor, so that other threads can run.
#[derive(Debug, Clone, Copy)]
pub(super) struct BusyPoll {
    /// The time at which frames were last found.
    last: Instant,
    /// True while the thread polls because [`goes_on`](Self::goes_on) returned true. The first poll
    /// after a sleep does not set it.
    looks: bool,
    /// Results of the last eight polls, the last one in the lowest bit: 1 if the poll found a frame.
    found: u8,
    slept_for_short: bool,
    /// Number of short sleeps since the last decided poll, up to [`SLEEPS_TO_A_TRIAL`].
    short_sleeps: u8,
}

impl BusyPoll {
    /// Creates the state of a thread that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self { last: now, looks: false, found: 0, slept_for_short: false, short_sleeps: 0 }
    }

    /// Records that a poll has found frames.
    pub(super) fn found(&mut self, now: Instant) {
        self.last = now;
        self.end_look(true);
    }

    /// Returns true if the thread should poll again after a poll without frames.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        let pays = self.found.count_ones() >= FOUND_OF_EIGHT || self.short_sleeps >= SLEEPS_TO_A_TRIAL;
        let goes_on = self.slept_for_short
            && (self.looks || pays)
            && now.saturating_duration_since(self.last) < PATIENCE;
        if !goes_on {
            self.end_look(false);
        }
        self.looks = goes_on;
        goes_on
    }

    /// Records a sleep of this length.
    pub(super) fn slept(&mut self, length: Duration) {
        self.slept_for_short = length <= SHORT_SLEEP;
        if self.slept_for_short && self.short_sleeps < SLEEPS_TO_A_TRIAL {
            self.short_sleeps += 1;
        }
    }

    fn end_look(&mut self, found: bool) {
        if self.looks {
            self.found = self.found << 1 | u8::from(found);
            self.short_sleeps = 0;
        }
        self.looks = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(20);
    const LATER: Duration = Duration::from_micros(200);
    const LONG: Duration = Duration::from_millis(5);

    /// Simulates a thread that receives a frame every `gap` and needs `waking` to wake up.
    struct Thread {
        now: Instant,
        poll: BusyPoll,
        waking: Duration,
    }

    impl Thread {
        fn new(waking: Duration) -> Self {
            let now = Instant::now();
            Self { now, poll: BusyPoll::new(now), waking }
        }

        /// Returns the number of polls without a frame and of sleeps until `frames` frames have come.
        fn run(&mut self, frames: u32, gap: Duration) -> (u32, u32) {
            let (mut in_vain, mut sleeps) = (0, 0);
            for _ in 0..frames {
                self.poll.found(self.now);
                let next = self.now + gap;
                let mut looked = false;
                while self.now < next && self.poll.goes_on(self.now) {
                    self.now += Duration::from_micros(5);
                    looked = true;
                }
                if self.now < next {
                    in_vain += u32::from(looked);
                    sleeps += 1;
                    let woken = next + self.waking;
                    self.poll.slept(woken - self.now);
                    self.now = woken;
                }
            }
            (in_vain, sleeps)
        }
    }

    #[test]
    fn a_thread_looks_on_as_long_as_frames_come_soon() {
        let mut thread = Thread::new(Duration::from_micros(60));
        let (in_vain, sleeps) = thread.run(200, SOON);
        assert!(in_vain == 0 && sleeps < 40, "it has found out that looking pays after {sleeps} sleeps");
        assert_eq!(thread.run(100, SOON), (0, 0));
    }

    #[test]
    fn where_looks_find_nothing_there_are_few_however_short_the_sleeps() {
        let mut thread = Thread::new(Duration::from_micros(1));
        for gap in [60, 100, 150] {
            let (in_vain, _) = thread.run(1000, Duration::from_micros(gap));
            assert!(in_vain <= 8 + 1000 / u32::from(SLEEPS_TO_A_TRIAL), "{in_vain} with {gap} µs");
        }
        let (in_vain, sleeps) = thread.run(1000, LATER);
        assert!(in_vain <= 1 && sleeps >= 999, "{in_vain} in vain");
    }

    #[test]
    fn it_learns_again_when_the_frames_come_otherwise() {
        let mut thread = Thread::new(Duration::from_micros(60));
        thread.run(200, SOON);
        thread.run(200, LONG);
        let (_, sleeps) = thread.run(200, SOON);
        assert!(sleeps < 40, "{sleeps} sleeps");
        assert_eq!(thread.run(100, SOON), (0, 0));
    }
}
