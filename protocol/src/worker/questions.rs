//! Whether questions were needed: what tells links that lose from queues that are long.
//!
//! Both are silence to a worker. If packets were lost, what it asks for then has no other answer. If results wait in queues, they
//! come as well, and the answer to its question comes behind them, once more.

/// So many answers count; older ones weigh half as much.
const LATELY: u32 = 64;
/// Questions were needed if so many were for one that was not. Over links that lose 2 to 20 % there are 25 or more; over
/// slow ones 0.1 to 8, but where there are the most, there are few questions.
const NEEDED_FOR_ONE: u32 = 5;

/// The answers to this worker's questions, lately.
#[derive(Debug, Clone)]
pub(super) struct Questions {
    needed: u32,
    needless: u32,
}

impl Default for Questions {
    /// Questions are in doubt before several were needed: the first results through slow links come later than any timeout.
    fn default() -> Self {
        Self { needed: 0, needless: 1 }
    }
}

impl Questions {
    /// A result has come that was asked for.
    pub(super) fn answered(&mut self) {
        self.needed += 1;
        self.forget();
    }

    /// A result has come once more.
    pub(super) fn answered_again(&mut self) {
        self.needless += 1;
        self.forget();
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
    fn what_was_long_ago_counts_little() {
        let mut questions = Questions::default();
        (0..1000).for_each(|_| questions.answered());
        (0..LATELY).for_each(|_| questions.answered_again());
        assert!(!questions.are_needed());
        (0..10 * LATELY).for_each(|_| questions.answered());
        assert!(questions.are_needed());
    }
}
