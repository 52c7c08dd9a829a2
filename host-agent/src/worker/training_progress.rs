//! The progress of a job's processes, and the durations of their steps.

use std::collections::VecDeque;
use std::time::Duration;

use tributary_api::v1;
use tributary_protocol::Time;

/// Number of steps that are remembered. A process makes fewer steps between two reports to the
/// controller.
const REMEMBERED: usize = 16;

/// The role of an all-reduce in its process's training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepPart {
    /// The all-reduce belongs to a step over this number of samples.
    OfStep {
        samples: u32,
        /// True if another all-reduce of the same step follows.
        goes_on: bool,
    },
    /// The all-reduce does not belong to a step.
    Other,
}

impl StepPart {
    /// Returns the part of an all-reduce, which belongs to a step unless it synchronises for a generation
    /// (`regroup`, not 0).
    pub(crate) fn of(samples: u32, goes_on: bool, regroup: u32) -> Self {
        match regroup {
            0 => Self::OfStep { samples, goes_on },
            _ => Self::Other,
        }
    }
}

/// The end of an all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllReduceEnd {
    /// The all-reduce has a result.
    Result,
    /// The all-reduce ended with an order to the process, which then begins another step.
    Interruption,
    /// The all-reduce ended with an error.
    Failure,
}

/// The progress of a job's processes.
#[derive(Debug, Default)]
pub(super) struct TrainingProgress {
    /// All-reduces that have ended with a result.
    operations: u64,
    /// Number of all-reduces that are under way.
    count: usize,
    /// The last time at which an all-reduce began or ended; `None` if no all-reduce is under way.
    moved: Option<Time>,
    /// The time at which the last all-reduce ended.
    ended: Option<Time>,
    /// The length of the last period without an all-reduce.
    gap: Duration,
    step: CurrentStep,
    /// The number of finished steps.
    steps: u64,
    last: VecDeque<v1::TrainingStep>,
}

/// The step in progress.
#[derive(Debug, Clone, Copy, Default)]
struct CurrentStep {
    compute: Duration,
    reduce: Duration,
    /// True if the time at which the step began is unknown.
    is_cut: bool,
    /// True if one of the step's all-reduces has ended with an order to the process.
    is_interrupted: bool,
}

impl TrainingProgress {
    /// Notes that an all-reduce begins. If others are under way, the process did not wait for them. It
    /// has computed since the last of them began or ended.
    pub(super) fn begin(&mut self, now: Time) {
        self.count += 1;
        if let Some(moved) = self.moved.replace(now) {
            self.step.compute += now - moved;
            return;
        }
        match self.ended {
            Some(ended) => {
                self.gap = now - ended;
                self.step.compute += self.gap;
            }
            None => self.step.is_cut = true,
        }
    }

    /// Notes that an all-reduce has ended. The process has waited for it since the last begin or end of
    /// an all-reduce.
    pub(super) fn end(&mut self, now: Time, part: StepPart, end: AllReduceEnd) {
        self.count = self.count.saturating_sub(1);
        if let Some(moved) = self.moved.replace(now) {
            self.step.reduce += now - moved;
        }
        if self.count == 0 {
            self.moved = None;
        }
        self.ended = Some(now);
        self.operations += u64::from(end == AllReduceEnd::Result);
        self.step.is_interrupted |= end == AllReduceEnd::Interruption;
        match (part, end) {
            (StepPart::Other, _) | (_, AllReduceEnd::Failure) => self.step = CurrentStep::default(),
            (StepPart::OfStep { goes_on: true, .. }, _) => {}
            (StepPart::OfStep { samples, .. }, _) => self.step_made(samples),
        }
    }

    fn step_made(&mut self, samples: u32) {
        let CurrentStep { compute, reduce, is_cut, is_interrupted } = std::mem::take(&mut self.step);
        if is_cut {
            return;
        }
        self.steps += 1;
        self.last.push_back(v1::TrainingStep {
            samples,
            compute_nanoseconds: nanoseconds(compute),
            reduce_nanoseconds: (!is_interrupted).then(|| nanoseconds(reduce)),
        });
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
    }

    /// Returns the report for the controller.
    pub(super) fn progress(&self) -> v1::JobProgress {
        v1::JobProgress {
            operations: self.operations,
            step_nanoseconds: nanoseconds(self.gap),
            steps: self.steps,
            last_steps: self.last.iter().copied().collect(),
            ..v1::JobProgress::default()
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: StepPart = StepPart::OfStep { samples: 16, goes_on: false };

    /// Returns a `TrainingProgress`, and a clock for it in milliseconds.
    fn training_progress() -> (TrainingProgress, impl Fn(u64) -> Time) {
        let start = Time::ZERO;
        (TrainingProgress::default(), move |milliseconds| start + Duration::from_millis(milliseconds))
    }

    /// Returns the samples of each remembered step, and its milliseconds of computing and of reducing.
    fn steps(training_progress: &TrainingProgress) -> Vec<(u32, u64, Option<u64>)> {
        let milliseconds = |nanoseconds: u64| nanoseconds / 1_000_000;
        let step = |step: &v1::TrainingStep| {
            (step.samples, milliseconds(step.compute_nanoseconds), step.reduce_nanoseconds.map(milliseconds))
        };
        training_progress.progress().last_steps.iter().map(step).collect()
    }

    #[test]
    fn a_step_is_the_time_between_two_all_reduces() {
        let (mut training_progress, at) = training_progress();
        training_progress.begin(at(0));
        assert_eq!(training_progress.count, 1);
        training_progress.end(at(10), STEP, AllReduceEnd::Result);
        assert_eq!(steps(&training_progress), [], "nobody knows when the first one began");
        training_progress.begin(at(40));
        // Two all-reduces that overlap count as one period of waiting.
        training_progress.begin(at(45));
        training_progress.end(at(50), STEP, AllReduceEnd::Failure);
        assert_eq!(training_progress.count, 1);
        training_progress.end(at(60), STEP, AllReduceEnd::Result);
        assert_eq!((training_progress.count, training_progress.progress().operations), (0, 2));
        training_progress.begin(at(90));
        training_progress.end(at(95), STEP, AllReduceEnd::Result);
        assert_eq!(steps(&training_progress).last(), Some(&(16, 30, Some(5))));
        assert_eq!(training_progress.progress().step_nanoseconds, 30_000_000);
    }

    #[test]
    fn a_step_may_have_several_all_reduces() {
        let (mut training_progress, at) = training_progress();
        training_progress.begin(at(0));
        training_progress.end(at(10), STEP, AllReduceEnd::Result);
        for (begun, ended, goes_on) in [(110, 120, true), (130, 150, true), (155, 160, false)] {
            training_progress.begin(at(begun));
            training_progress.end(at(ended), StepPart::OfStep { samples: 32, goes_on }, AllReduceEnd::Result);
        }
        assert_eq!(steps(&training_progress), [(32, 115, Some(35))]);
    }

    #[test]
    fn what_is_computed_beside_all_reduces_is_no_waiting() {
        let (mut training_progress, at) = training_progress();
        training_progress.begin(at(0));
        training_progress.end(at(10), STEP, AllReduceEnd::Result);
        // Two further all-reduces begin while the first is under way. The process waits only after the last has begun.
        let part = |goes_on| StepPart::OfStep { samples: 16, goes_on };
        for begun in [110, 120, 135] {
            training_progress.begin(at(begun));
        }
        for (ended, goes_on) in [(150, true), (155, true), (160, false)] {
            training_progress.end(at(ended), part(goes_on), AllReduceEnd::Result);
        }
        // The next step's first all-reduce begins before this step's last one has ended.
        for begun in [260, 270] {
            training_progress.begin(at(begun));
        }
        training_progress.end(at(280), part(true), AllReduceEnd::Result);
        training_progress.begin(at(290));
        training_progress.end(at(295), part(false), AllReduceEnd::Result);
        training_progress.end(at(300), STEP, AllReduceEnd::Result);
        let expected = [(16, 100 + 25, Some(25)), (16, 100 + 10 + 10, Some(10 + 5)), (16, 0, Some(5))];
        assert_eq!(steps(&training_progress), expected);
        assert_eq!(training_progress.count, 0);
    }

    #[test]
    fn one_that_is_interrupted_something_has_made_a_step_without_a_result() {
        let (mut training_progress, at) = training_progress();
        training_progress.begin(at(0));
        training_progress.end(at(10), STEP, AllReduceEnd::Result);
        training_progress.begin(at(50));
        training_progress.end(at(50), STEP, AllReduceEnd::Interruption);
        training_progress.begin(at(51));
        training_progress.end(at(70), StepPart::Other, AllReduceEnd::Result);
        training_progress.begin(at(100));
        training_progress.end(at(101), STEP, AllReduceEnd::Result);
        assert_eq!(
            steps(&training_progress),
            [(16, 40, None), (16, 30, Some(1))],
            "synchronising is no step"
        );
    }

    #[test]
    fn a_step_of_which_each_all_reduce_is_interrupted_something_is_one_step() {
        let (mut training_progress, at) = training_progress();
        training_progress.begin(at(0));
        training_progress.end(at(10), STEP, AllReduceEnd::Result);
        for (begun, goes_on) in [(50, true), (60, true), (80, false)] {
            training_progress.begin(at(begun));
            training_progress.end(
                at(begun),
                StepPart::OfStep { samples: 16, goes_on },
                AllReduceEnd::Interruption,
            );
        }
        assert_eq!(steps(&training_progress), [(16, 70, None)]);
    }

    #[test]
    fn only_the_last_steps_are_remembered() {
        let (mut training_progress, at) = training_progress();
        for round in 0..100u64 {
            training_progress.begin(at(round * 10 + 5));
            training_progress.end(
                at(round * 10 + 10),
                StepPart::OfStep { samples: round as u32, goes_on: false },
                AllReduceEnd::Result,
            );
        }
        let progress = training_progress.progress();
        assert_eq!((progress.steps, progress.last_steps.len()), (99, REMEMBERED));
        assert_eq!(progress.last_steps.last().unwrap().samples, 99);
    }
}
