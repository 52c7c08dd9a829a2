//! The accelerator of a worker, emulated.
//!
//! If eight processes really computed, they would share the few processors of one machine, and the speed of
//! each would depend on the others. So each process computes the real gradient of a small model, and also
//! waits for a *device*. The device's time α + β · b passes only while the process runs. The wait consists of
//! many short naps. A nap during which the process must have been stopped hardly counts. So a slowdown of the
//! process, for example by `tributary lab slow`, slows down its device by the same factor.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Length of a nap.
///
/// It is short compared with the intervals of `lab slow`, and long compared with the time to fall asleep and
/// wake up.
const NAP: Duration = Duration::from_micros(500);
/// If a nap takes longer than this, the process must have been stopped during it.
const STOPPED: Duration = Duration::from_millis(5);

/// The device's time for a step of b samples: α + β · b.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device {
    /// α: time for each step.
    pub(super) step: Duration,
    /// β: time for each sample.
    pub(super) sample: Duration,
}

impl Device {
    /// Lets the device work on a step of `samples` samples, and waits for it.
    pub(super) fn work(self, samples: u32) {
        let needed = self.step + self.sample * samples;
        let (mut worked, mut before) = (Duration::ZERO, Instant::now());
        while worked < needed {
            sleep(NAP.min(needed - worked));
            let now = Instant::now();
            worked += counted(now - before);
            before = now;
        }
    }
}

/// Returns the part of a nap that the device has worked.
fn counted(nap: Duration) -> Duration {
    // The stop began somewhere in the nap; on average, in the middle.
    if nap > STOPPED { NAP / 2 } else { nap }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_what_it_is_said_to_take_at_least() {
        let device = Device { step: Duration::from_millis(4), sample: Duration::from_millis(1) };
        let began = Instant::now();
        device.work(3);
        assert!(began.elapsed() >= Duration::from_millis(7));
    }

    #[test]
    fn the_device_stands_still_while_the_process_does() {
        assert_eq!(counted(Duration::from_millis(1)), Duration::from_millis(1));
        assert!(counted(Duration::from_millis(15)) < NAP);
    }
}
