//! Times of reports to a process that waits, both from its agent and in the process when the agent is
//! silent.

use std::time::Duration;

/// Decides when a report about a wait is due.
#[derive(Debug, Default)]
pub struct Moments {
    /// The length of the wait at the last report; `None` before the first report.
    said: Option<Duration>,
}

impl Moments {
    /// The time without progress before the first report.
    pub const FIRST: Duration = Duration::from_secs(2);
    /// The interval between later reports.
    const AGAIN: Duration = Duration::from_secs(5);
    /// The interval between two checks for progress.
    pub const LOOK_INTERVAL: Duration = Duration::from_millis(500);

    /// Returns true if a report is due after `time` without progress.
    pub fn is_one(&mut self, time: Duration) -> bool {
        if self.said.is_some_and(|said| time < said) {
            // There has been progress since the last report.
            self.said = None;
        }
        let is_one = time >= self.said.map_or(Self::FIRST, |said| said + Self::AGAIN);
        if is_one {
            self.said = Some(time);
        }
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_said_after_two_seconds_and_every_five_then() {
        let mut moments = Moments::default();
        let mut said = |times: &[u64]| {
            let is_one = |time: &&u64| moments.is_one(Duration::from_secs(**time));
            times.iter().filter(is_one).copied().collect::<Vec<_>>()
        };
        assert_eq!(said(&[0, 1, 2, 3, 6, 7, 8, 12, 17]), [2, 7, 12, 17]);
        assert_eq!(said(&[0, 1, 3, 4, 8]), [3, 8], "after it has moved it is another wait");
    }
}
