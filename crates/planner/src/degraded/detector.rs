/// A process is degraded if it takes longer than this many times the median.
pub const DEGRADED_ABOVE: f64 = 1.5;
/// A degraded process is well again if it takes less than this many times the median.
pub const WELL_BELOW: f64 = 1.2;
/// Consecutive steps that must speak for another condition before it changes.
pub const STEADY_STEPS: u32 = 5;

/// The condition of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// About the speed of most processes.
    #[default]
    Well,
    /// Much slower than most.
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
    /// Consecutive steps that spoke for the other condition.
    streak: u32,
    /// Steps in this condition.
    steps: u64,
}

impl Detector {
    /// Notes a step of the process, which takes `ratio` times the median, smoothed.
    /// Returns whether its condition has changed.
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

    /// The process's condition.
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Steps that it has made in this condition.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks the steps after which the condition changed: "D" to degraded, "W" to well, "." unchanged.
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
