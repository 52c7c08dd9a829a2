//! Election ids, by which a switch selects its primary controller.

use std::time::{SystemTime, UNIX_EPOCH};

/// The election ids of one controller for one switch. The controller with the largest id is primary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elections {
    /// The controller's start time in microseconds: the upper half of each id.
    started: u64,
    /// The number of ids that this controller has used. It is the lower half of each id.
    count: u64,
}

impl Elections {
    /// Creates the ids of a controller that starts now.
    pub(crate) fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: u64::try_from(since.as_micros()).unwrap_or(u64::MAX), count: 0 }
    }

    /// Returns the next id. It is above all earlier ids of this controller.
    /// It is also below the ids of each controller that starts later. A new session needs a new id, because a switch
    /// that has not noticed the end of the previous session would refuse an id that is in use.
    pub(crate) fn next(&mut self) -> u128 {
        self.count += 1;
        u128::from(self.started) << 64 | u128::from(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_session_wins_and_a_later_controller_wins_over_any() {
        let mut old = Elections { started: 1, count: u64::MAX - 2 };
        let mut new = Elections { started: 2, count: 0 };
        let ids = [old.next(), old.next(), new.next(), new.next()];
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert!(Elections::now().next() > ids[3]);
    }
}
