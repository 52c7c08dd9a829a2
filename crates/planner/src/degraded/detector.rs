/// A process becomes degraded if it takes more than this number of times the median.
pub const DEGRADED_ABOVE: f64 = 1.5;
/// A degraded process recovers if it takes less than this number of times the median.
pub const WELL_BELOW: f64 = 1.2;
/// The number of consecutive steps that must indicate the other condition before the condition changes.
pub const STEADY_STEPS: u32 = 5;

/// The condition of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// The process is about as fast as most processes.
    #[default]
    Well,
    /// The process is much slower than most processes.
    Degraded,
}

/// Determines the condition of a process from its time relative to the median.
///
/// ```text
/// Well --above 1.5 for 5 steps--> Degraded --below 1.2 for 5 steps--> Well
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detector {
    condition: Condition,
    /// The number of consecutive steps that indicated the other condition.
    streak: u32,
    /// The number of steps in the present condition.
    steps: u64,
}

impl Detector {
    /// Records a step of the process. `ratio` is its smoothed time divided by the median.
    /// Returns true if the condition of the process has changed.
    pub fn note(&mut self, ratio: f64) -> bool {
        let (against, other) = match self.condition {
            Condition::Well => (ratio > DEGRADED_ABOVE, Condition::Degraded),
            Condition::Degraded => (ratio < WELL_BELOW, Condition::Well),
        };
        self.steps += 1;
        self.streak = if against { self.streak + 1 } else { 0 };
        let changes = self.streak >= STEADY_STEPS;
        if changes {
            *self = Self { condition: other, streak: 0, steps: 0 };
        }
        changes
    }

    /// Returns the condition of the process.
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Returns the number of steps in the present condition.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one character for each step:
    /// "D" if the process became degraded, "W" if it recovered, "." for no change.
    fn trace(ratios: &[f64]) -> String {
        let mut detector = Detector::default();
        let mark = |ratio: &f64| match (detector.note(*ratio), detector.condition()) {
            (false, _) => '.',
            (true, Condition::Degraded) => 'D',
            (true, Condition::Well) => 'W',
        };
        ratios.iter().map(mark).collect()
    }

    #[test]
    fn it_takes_five_steps_either_way_and_one_that_disagrees_starts_anew() {
        assert_eq!(trace(&[4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), "....D.....W.");
        assert_eq!(trace(&[4.0, 4.0, 4.0, 4.0, 1.5, 4.0, 4.0, 4.0, 4.0, 4.0]), ".........D");
    }

    #[test]
    fn between_the_limits_everything_stays_as_it_is() {
        assert_eq!(trace(&[1.4; 20]), ".".repeat(20));
        assert_eq!(trace(&[[2.0; 5], [1.3; 5], [1.2; 5], [1.19; 5]].concat()), "....D..............W");
    }

    #[test]
    fn a_ratio_that_is_none_says_nothing_against() {
        assert_eq!(trace(&[f64::NAN; 8]), "........");
    }
}
