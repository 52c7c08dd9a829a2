//! Statistics of retransmit requests: they distinguish links that lose packets from
//! queues that are long.
//!
//! A worker sees silence in both cases. If packets were lost, a requested result comes only once, as the answer to the
//! request. If results wait in queues, they come as well, and the answer to the request comes behind them, as a
//! duplicate.

/// The number of answers after which the counts are halved, so that older answers weigh less.
const LATELY: u32 = 64;
/// Requests count as needed if this number of them was needed for each one that was not.
const NEEDED_FOR_ONE: u32 = 5;
/// The most spurious timeouts that count: silence then lasts up to 16 times `max_silence`, 4 s.
pub(super) const MOST_SPURIOUS: u32 = 15;

/// The recent answers to this worker's retransmit requests.
#[derive(Debug, Clone)]
pub(super) struct RetransmitRequests {
    needed: u32,
    needless: u32,
    /// The number of recent spurious timeouts; `is_spurious` is true if the last timeout was spurious.
    spurious: u32,
    is_spurious: bool,
}

impl Default for RetransmitRequests {
    /// Requests count as not needed at first, because the first results through slow links come later than
    /// any timeout.
    fn default() -> Self {
        Self { needed: 0, needless: 1, spurious: 0, is_spurious: true }
    }
}

impl RetransmitRequests {
    /// Records that the worker requested missing results after a timeout.
    pub(super) fn asked(&mut self) {
        if self.are_needed() {
            self.spurious = 0;
        }
        self.is_spurious = false;
    }

    /// Records a result that this worker requested.
    pub(super) fn answered(&mut self) {
        self.needed += 1;
        self.forget();
    }

    /// Records a duplicate result: a request was not needed.
    /// The requests of one timeout count as one spurious timeout.
    pub(super) fn answered_again(&mut self) {
        self.needless += 1;
        self.forget();
        if !std::mem::replace(&mut self.is_spurious, true) && !self.are_needed() {
            self.spurious = (self.spurious + 1).min(MOST_SPURIOUS);
        }
    }

    /// Records a result that came within its round trip, without a request.
    pub(super) fn came_unasked(&mut self) {
        self.spurious = self.spurious.saturating_sub(1);
    }

    /// Returns the number of recent timeouts whose requests were not needed.
    pub(super) fn spurious(&self) -> u32 {
        self.spurious
    }

    /// Returns true if nearly all requests were needed: packets are lost, and do not wait in a queue.
    pub(super) fn are_needed(&self) -> bool {
        self.needed > self.needless * NEEDED_FOR_ONE
    }

    fn forget(&mut self) {
        if self.needed + self.needless >= LATELY {
            self.needed /= 2;
            self.needless /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_in_doubt_until_several_were_needed() {
        let mut requests = RetransmitRequests::default();
        for _ in 0..NEEDED_FOR_ONE {
            requests.answered();
            assert!(!requests.are_needed());
        }
        requests.answered();
        assert!(requests.are_needed());
    }

    #[test]
    fn a_timeout_is_spurious_once_until_results_come_by_themselves() {
        let mut requests = RetransmitRequests::default();
        requests.answered_again();
        assert_eq!(requests.spurious(), 0, "nothing was asked");
        for timeouts in 1..=2 * MOST_SPURIOUS {
            requests.asked();
            (0..3).for_each(|_| requests.answered_again());
            assert_eq!(requests.spurious(), timeouts.min(MOST_SPURIOUS));
        }
        requests.came_unasked();
        assert_eq!(requests.spurious(), MOST_SPURIOUS - 1);
        // Once retransmit requests are needed, losses explain all silence.
        (0..10 * LATELY).for_each(|_| requests.answered());
        requests.asked();
        assert_eq!(requests.spurious(), 0);
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        let mut requests = RetransmitRequests::default();
        (0..1000).for_each(|_| requests.answered());
        (0..LATELY).for_each(|_| requests.answered_again());
        assert!(!requests.are_needed());
        (0..10 * LATELY).for_each(|_| requests.answered());
        assert!(requests.are_needed());
    }
}
