//! What a job's processes have done so far, and what their steps took.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use tributary_api::v1;

/// Steps that are remembered: more than a process makes between two reports to the controller.
const REMEMBERED: usize = 16;

/// What an all-reduce is to its process's training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// One of a step's, which is over so many samples.
    OfStep {
        samples: u32,
        /// Another one of the same step follows.
        goes_on: bool,
    },
    /// None of any step's.
    Other,
}

/// How an all-reduce has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a result.
    Reduced,
    /// With word of what the process has to do: it begins another step.
    Told,
    /// With an error.
    Failed,
}

/// What processes have done so far.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// All-reduces that have ended well.
    operations: u64,
    /// When those began that are under way: the first of them.
    under_way: Option<Instant>,
    /// How many these are.
    count: usize,
    /// When the last one ended.
    ended: Option<Instant>,
    /// The last time between two all-reduces.
    gap: Duration,
    making: Making,
    /// Steps that have been made.
    steps: u64,
    last: VecDeque<v1::TrainingStep>,
}

/// A step that is being made.
#[derive(Debug, Clone, Copy, Default)]
struct Making {
    compute: Duration,
    reduce: Duration,
    /// Nobody knows when it began.
    is_cut: bool,
}

impl Course {
    /// An all-reduce begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.count += 1;
        if self.under_way.is_some() {
            return;
        }
        self.under_way = Some(now);
        match self.ended {
            Some(ended) => {
                self.gap = now - ended;
                self.making.compute += self.gap;
            }
            None => self.making.is_cut = true,
        }
    }

    /// An all-reduce has ended.
    pub(super) fn end(&mut self, now: Instant, part: Part, end: End) {
        self.count = self.count.saturating_sub(1);
        if self.count == 0
            && let Some(began) = self.under_way.take()
        {
            self.making.reduce += now - began;
        }
        self.ended = Some(now);
        self.operations += u64::from(end == End::Reduced);
        match (part, end) {
            (Part::OfStep { goes_on: true, .. }, End::Reduced) => {}
            (Part::OfStep { samples, .. }, End::Reduced | End::Told) => self.step_made(samples, end),
            (Part::OfStep { .. }, End::Failed) | (Part::Other, _) => self.making = Making::default(),
        }
    }

    fn step_made(&mut self, samples: u32, end: End) {
        let Making { compute, reduce, is_cut } = std::mem::take(&mut self.making);
        if is_cut {
            return;
        }
        self.steps += 1;
        self.last.push_back(v1::TrainingStep {
            samples,
            compute_nanoseconds: nanoseconds(compute),
            reduce_nanoseconds: (end == End::Reduced).then(|| nanoseconds(reduce)),
        });
        if self.last.len() > REMEMBERED {
            self.last.pop_front();
        }
    }

    /// Since when an all-reduce has been under way, if one is.
    pub(super) fn under_way(&self) -> Option<Instant> {
        self.under_way
    }

    /// What the controller is told of it.
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

    const STEP: Part = Part::OfStep { samples: 16, goes_on: false };

    /// A course, and a clock for it in milliseconds.
    fn course() -> (Course, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        (Course::default(), move |milliseconds| start + Duration::from_millis(milliseconds))
    }

    /// Samples, milliseconds of computing and of reducing of the steps that are remembered.
    fn steps(course: &Course) -> Vec<(u32, u64, Option<u64>)> {
        let milliseconds = |nanoseconds: u64| nanoseconds / 1_000_000;
        let step = |step: &v1::TrainingStep| {
            (step.samples, milliseconds(step.compute_nanoseconds), step.reduce_nanoseconds.map(milliseconds))
        };
        course.progress().last_steps.iter().map(step).collect()
    }

    #[test]
    fn a_step_is_the_time_between_two_all_reduces() {
        let (mut course, at) = course();
        course.begin(at(0));
        assert_eq!(course.under_way(), Some(at(0)));
        course.end(at(10), STEP, End::Reduced);
        assert_eq!(steps(&course), [], "nobody knows when the first one began");
        course.begin(at(40));
        // Two at the same time are one stretch of waiting.
        course.begin(at(45));
        course.end(at(50), STEP, End::Failed);
        assert_eq!(course.under_way(), Some(at(40)));
        course.end(at(60), STEP, End::Reduced);
        assert_eq!((course.under_way(), course.progress().operations), (None, 2));
        course.begin(at(90));
        course.end(at(95), STEP, End::Reduced);
        assert_eq!(steps(&course).last(), Some(&(16, 30, Some(5))));
        assert_eq!(course.progress().step_nanoseconds, 30_000_000);
    }

    #[test]
    fn a_step_may_have_several_all_reduces() {
        let (mut course, at) = course();
        course.begin(at(0));
        course.end(at(10), STEP, End::Reduced);
        for (begun, ended, goes_on) in [(110, 120, true), (130, 150, true), (155, 160, false)] {
            course.begin(at(begun));
            course.end(at(ended), Part::OfStep { samples: 32, goes_on }, End::Reduced);
        }
        assert_eq!(steps(&course), [(32, 115, Some(35))]);
    }

    #[test]
    fn one_that_is_told_something_has_made_a_step_without_a_result() {
        let (mut course, at) = course();
        course.begin(at(0));
        course.end(at(10), STEP, End::Reduced);
        course.begin(at(50));
        course.end(at(50), Part::OfStep { samples: 16, goes_on: true }, End::Told);
        course.begin(at(51));
        course.end(at(70), Part::Other, End::Reduced);
        course.begin(at(100));
        course.end(at(101), STEP, End::Reduced);
        assert_eq!(steps(&course), [(16, 40, None), (16, 30, Some(1))], "synchronising is no step");
    }

    #[test]
    fn only_the_last_steps_are_remembered() {
        let (mut course, at) = course();
        for round in 0..100u64 {
            course.begin(at(round * 10 + 5));
            course.end(
                at(round * 10 + 10),
                Part::OfStep { samples: round as u32, goes_on: false },
                End::Reduced,
            );
        }
        let progress = course.progress();
        assert_eq!((progress.steps, progress.last_steps.len()), (99, REMEMBERED));
        assert_eq!(progress.last_steps.last().unwrap().samples, 99);
    }
}
