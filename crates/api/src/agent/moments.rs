//! Times of the reports to a waiting process, the same from its agent and about a silent agent.

use std::time::Duration;

/// Decides when to tell.
#[derive(Debug, Default)]
pub struct Moments {
    /// Length of the wait when it was last reported.
    said: Option<Duration>,
}

impl Moments {
    /// The time without progress before the first report.
    pub const FIRST: Duration = Duration::from_secs(2);
    /// Interval of later reports.
    const AGAIN: Duration = Duration::from_secs(5);
    /// The time between two checks for progress.
    pub const LOOK_INTERVAL: Duration = Duration::from_millis(500);

    /// Returns true if a report is due after `time` without progress.
    pub fn is_one(&mut self, time: Duration) -> bool {
        if self.said.is_some_and(|said| time < said) {
            // Something has moved since.
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
