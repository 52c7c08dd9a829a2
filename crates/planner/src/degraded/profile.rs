//! The times of one process, measured step by step.

use std::collections::VecDeque;

use super::model::{Model, Point};

/// One step of training, as measured by the agent of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The number of samples in the step.
    pub samples: u32,
    /// The seconds for which the process itself computed.
    pub compute: f64,
    /// The seconds that the step's all-reduces took; `None` if they had no result.
    pub reduce: Option<f64>,
}

/// The weight of a new time in the smoothed time.
const SMOOTHING: f64 = 0.3;
/// The limit of one time's effect: it counts as at most this number of times the expected time.
/// It also counts as at least the inverse fraction of it. A single outlier must not make a process slow.
const CLIP: f64 = 2.0;
/// The number of batch sizes that are kept.
const SIZES: usize = 4;
/// The factor by which the weight of a batch size fades with each step of another size.
const FADING: f64 = 0.97;
/// The number of recent all-reduces whose times are kept.
const RECENT: usize = 8;

/// The times of a process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepProfile {
    /// One point for each batch size, with the size of the last step first.
    sizes: Vec<Point>,
    /// The smoothed seconds of a step's all-reduces.
    reduce: Option<f64>,
    /// The seconds of the all-reduces of recent steps, the newest first.
    recent: VecDeque<f64>,
    steps: u64,
}

impl StepProfile {
    /// Records a step of the process. It ignores a step without samples or without a valid time.
    pub fn note(&mut self, step: &Step) {
        if step.samples == 0 || !step.compute.is_finite() || step.compute <= 0.0 {
            return;
        }
        self.steps += 1;
        self.note_compute(f64::from(step.samples), step.compute);
        if let Some(reduce) = step.reduce.filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
            self.reduce = Some(self.reduce.map_or(reduce, |before| smooth(before, reduce)));
            self.recent.truncate(RECENT - 1);
            self.recent.push_front(reduce);
        }
    }

    fn note_compute(&mut self, samples: f64, seconds: f64) {
        let expected = self.model().map(|model| model.at(samples));
        self.sizes.iter_mut().for_each(|size| size.weight *= FADING);
        match self.sizes.iter().position(|size| size.samples == samples) {
            Some(place) => {
                let mut size = self.sizes.remove(place);
                let now = smooth(size.seconds, clip(seconds, size.seconds));
                // If a processor becomes slow, it becomes slow for all sizes.
                let change = now / size.seconds;
                self.sizes.iter_mut().for_each(|other| other.seconds *= change);
                (size.seconds, size.weight) = (now, 1.0);
                self.sizes.insert(0, size);
            }
            None => {
                let seconds = expected.map_or(seconds, |expected| clip(seconds, expected));
                self.sizes.insert(0, Point { samples, seconds, weight: 1.0 });
                self.sizes.truncate(SIZES);
            }
        }
    }

    /// Returns the number of recorded steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the model of the process's steps; `None` before the first step.
    pub fn model(&self) -> Option<Model> {
        Model::fit(&self.sizes)
    }

    /// Returns the number of samples of the last step, and the smoothed seconds that a step of that size
    /// takes.
    pub fn last(&self) -> Option<(f64, f64)> {
        self.sizes.first().map(|size| (size.samples, size.seconds))
    }

    /// Returns the smoothed seconds of a step's all-reduces; `None` before the first result.
    pub fn reduce(&self) -> Option<f64> {
        self.reduce
    }

    /// Returns the shortest time, in seconds, of the all-reduces of a recent step.
    pub fn least_reduce(&self) -> Option<f64> {
        self.recent.iter().copied().min_by(f64::total_cmp)
    }
}

fn smooth(before: f64, now: f64) -> f64 {
    before + SMOOTHING * (now - before)
}

fn clip(seconds: f64, expected: f64) -> f64 {
    seconds.clamp(expected / CLIP, expected * CLIP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(samples: u32, compute: f64) -> Step {
        Step { samples, compute, reduce: None }
    }

    /// Makes a profile of steps of 16 samples with these times.
    fn of(times: impl IntoIterator<Item = f64>) -> StepProfile {
        let mut profile = StepProfile::default();
        times.into_iter().for_each(|seconds| profile.note(&step(16, seconds)));
        profile
    }

    fn expected(profile: &StepProfile, samples: f64) -> f64 {
        profile.model().unwrap().at(samples)
    }

    #[test]
    fn a_hiccup_is_not_a_change_and_what_stays_is() {
        let hiccup = of([0.1, 0.1, 0.1, 5.0]);
        assert!(expected(&hiccup, 16.0) < 0.14, "{hiccup:?}");
        let slow = of([0.1; 10].into_iter().chain([0.4; 12]));
        assert!((expected(&slow, 16.0) - 0.4).abs() < 0.04, "{slow:?}");
        let well_again = of([0.4; 10].into_iter().chain([0.1; 12]));
        assert!((expected(&well_again, 16.0) - 0.1).abs() < 0.01, "{well_again:?}");
    }

    #[test]
    fn two_sizes_tell_what_every_step_takes() {
        let mut profile = of([0.1 + 0.16; 8]);
        (0..8).for_each(|_| profile.note(&step(32, 0.1 + 0.32)));
        let model = profile.model().unwrap();
        assert!((model.alpha - 0.1).abs() < 1e-9 && (model.beta - 0.01).abs() < 1e-9, "{model:?}");
        // A process that became four times as slow at one size counts as four times as slow at the other size, too.
        (0..30).for_each(|_| profile.note(&step(32, 4.0 * 0.42)));
        assert!((expected(&profile, 16.0) - 4.0 * 0.26).abs() < 0.01, "{:?}", profile.model());
    }

    #[test]
    fn what_says_nothing_changes_nothing() {
        let mut profile = of([0.1]);
        for bad in [step(0, 1.0), step(16, 0.0), step(16, f64::NAN), step(16, -1.0), step(16, f64::INFINITY)]
        {
            profile.note(&bad);
        }
        assert_eq!((profile.steps(), profile.last()), (1, Some((16.0, 0.1))));
        assert_eq!(profile.reduce(), None);
        profile.note(&Step { reduce: Some(0.5), ..step(16, 0.1) });
        assert_eq!(profile.reduce(), Some(0.5));
    }

    #[test]
    fn the_least_all_reduce_is_forgotten_in_time() {
        let mut profile = StepProfile::default();
        let mut after = |reduce| {
            profile.note(&Step { reduce: Some(reduce), ..step(16, 0.1) });
            profile.least_reduce()
        };
        assert_eq!([after(0.2), after(0.1), after(0.3)], [Some(0.2), Some(0.1), Some(0.1)]);
        let later = [0.4; RECENT].map(after);
        assert_eq!((later[0], later[RECENT - 1]), (Some(0.1), Some(0.4)));
    }
}
