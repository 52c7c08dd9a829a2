//! Whether questions were needed: what tells links that lose from queues that are long.
//!
//! Both are silence to a worker. If packets were lost, what it asks for then has no other answer. If results wait in queues, they
//! come as well, and the answer to its question comes behind them, once more.

/// So many answers count; older ones weigh half as much.
const LATELY: u32 = 64;
/// Questions were needed if so many were for one that was not. Over links that lose 2 to 20 % there are 25 or more; over
/// slow ones 0.1 to 8, but where there are the most, there are few questions.
const NEEDED_FOR_ONE: u32 = 5;
/// The most spurious timeouts that count: silence then lasts up to 16 times `max_silence`, 4 s.
pub(super) const MOST_SPURIOUS: u32 = 15;

/// The answers to this worker's questions, lately.
#[derive(Debug, Clone)]
pub(super) struct Questions {
    needed: u32,
    needless: u32,
    /// Timeouts lately that were spurious, and whether the last one is among them.
    spurious: u32,
    is_spurious: bool,
}

impl Default for Questions {
    /// Questions are in doubt before several were needed: the first results through slow links come later than any timeout.
    fn default() -> Self {
        Self { needed: 0, needless: 1, spurious: 0, is_spurious: true }
    }
}

impl Questions {
    /// A timeout asks for what has not come.
    pub(super) fn asked(&mut self) {
        if self.are_needed() {
            self.spurious = 0;
        }
        self.is_spurious = false;
    }

    /// A result has come that was asked for.
    pub(super) fn answered(&mut self) {
        self.needed += 1;
        self.forget();
    }

    /// A result has come once more, so a question was not needed. What the last timeout asked for counts once.
    pub(super) fn answered_again(&mut self) {
        self.needless += 1;
        self.forget();
        if !std::mem::replace(&mut self.is_spurious, true) && !self.are_needed() {
            self.spurious = (self.spurious + 1).min(MOST_SPURIOUS);
        }
    }

    /// A result has come in its round trip, without having been asked for.
    pub(super) fn came_unasked(&mut self) {
        self.spurious = self.spurious.saturating_sub(1);
    }

    /// Timeouts lately whose questions were not needed.
    pub(super) fn spurious(&self) -> u32 {
        self.spurious
    }

    /// Whether nearly all of them were needed: there are losses, and no queue.
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
    fn questions_are_in_doubt_until_several_were_needed() {
        let mut questions = Questions::default();
        for _ in 0..NEEDED_FOR_ONE {
            questions.answered();
            assert!(!questions.are_needed());
        }
        questions.answered();
        assert!(questions.are_needed());
    }

    #[test]
    fn a_timeout_is_spurious_once_until_results_come_by_themselves() {
        let mut questions = Questions::default();
        questions.answered_again();
        assert_eq!(questions.spurious(), 0, "nothing was asked");
        for timeouts in 1..=2 * MOST_SPURIOUS {
            questions.asked();
            (0..3).for_each(|_| questions.answered_again());
            assert_eq!(questions.spurious(), timeouts.min(MOST_SPURIOUS));
        }
        questions.came_unasked();
        assert_eq!(questions.spurious(), MOST_SPURIOUS - 1);
        // Losses explain all of it, once questions are needed.
        (0..10 * LATELY).for_each(|_| questions.answered());
        questions.asked();
        assert_eq!(questions.spurious(), 0);
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        let mut questions = Questions::default();
        (0..1000).for_each(|_| questions.answered());
        (0..LATELY).for_each(|_| questions.answered_again());
        assert!(!questions.are_needed());
        (0..10 * LATELY).for_each(|_| questions.answered());
        assert!(questions.are_needed());
    }
}
