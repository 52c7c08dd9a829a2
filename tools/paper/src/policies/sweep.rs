//! The trainings of one contender at many learning rates.

use anyhow::Result;
use rayon::prelude::*;
use serde::Serialize;

use super::Extent;
use super::contenders::Contender;
use super::training::{Setting, TrainingOutcome, train};
use crate::progress::Progress;

/// The limit of the number of times that the study doubles or halves the rates.
const MOST_STEPS: usize = 5;

/// A contender's trainings, by ascending rate.
pub(crate) struct Swept {
    pub(crate) contender: Contender,
    pub(crate) rates: Vec<AtRate>,
}

/// The contender's trainings at one rate, one for each seed.
pub(crate) struct AtRate {
    pub(crate) rate: f32,
    pub(crate) outcomes: Vec<TrainingOutcome>,
}

/// The results of one training, as a row for programs.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyRow {
    scenario: &'static str,
    contender: &'static str,
    rate: f32,
    seed: usize,
    accuracy: f64,
    stale_updates: f64,
    stale_gradients: f64,
    gradients: u64,
    updates: u64,
    idle: f64,
    gap: u64,
}

/// Trains at all given rates, and at further rates until both neighbours of the best rate are worse.
///
/// # Errors
/// A training cannot continue.
pub(crate) fn sweep(
    setting: &Setting<'_>,
    contender: Contender,
    extent: &Extent,
    progress: &Progress,
) -> Result<Swept> {
    let at = |rate: f32| -> Result<AtRate> {
        let one = |seed| {
            let outcome = train(setting, contender, rate, seed);
            progress.one(contender.name());
            outcome
        };
        let outcomes = (1..=extent.seeds).into_par_iter().map(one).collect::<Result<_>>()?;
        Ok(AtRate { rate, outcomes })
    };
    let rates = extent.rates.par_iter().map(|&rate| at(rate)).collect::<Result<Vec<_>>>()?;
    let mut swept = Swept { contender, rates };
    for _ in 0..MOST_STEPS {
        let best = swept.best_place();
        if best == 0 {
            let rate = swept.rates[0].rate / 2.0;
            swept.rates.insert(0, at(rate)?);
        } else if best + 1 == swept.rates.len() {
            let rate = swept.rates[best].rate * 2.0;
            swept.rates.push(at(rate)?);
        } else {
            break;
        }
    }
    Ok(swept)
}

impl Swept {
    fn best_place(&self) -> usize {
        let by_accuracy =
            |a: &usize, b: &usize| self.rates[*a].accuracy().total_cmp(&self.rates[*b].accuracy());
        (0..self.rates.len()).max_by(by_accuracy).unwrap_or(0)
    }

    /// Returns the trainings at the rate with the best accuracy.
    pub(crate) fn best(&self) -> &AtRate {
        &self.rates[self.best_place()]
    }

    /// Returns the shortest mean time to an accuracy, and its learning rate.
    ///
    /// With other rates, a training may take longer, or never reach the accuracy.
    pub(crate) fn fastest(&self, accuracy: f64) -> Option<(f64, f32)> {
        let times = self.rates.iter().filter_map(|at| Some((at.time_to(accuracy)?, at.rate)));
        times.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns a row for each training, for programs.
    pub(crate) fn rows(&self, scenario: &'static str) -> Vec<PolicyRow> {
        let of = |at: &AtRate| {
            let row = |(seed, outcome): (usize, &TrainingOutcome)| PolicyRow {
                scenario,
                contender: self.contender.name(),
                rate: at.rate,
                seed: seed + 1,
                accuracy: outcome.accuracy(),
                stale_updates: outcome.stale_updates,
                stale_gradients: outcome.stale_gradients,
                gradients: outcome.gradients,
                updates: outcome.updates,
                idle: outcome.idle,
                gap: outcome.looks.last().map_or(0, |look| look.gap),
            };
            at.outcomes.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        self.rates.iter().flat_map(of).collect()
    }
}

impl AtRate {
    /// Returns the mean of a figure over the seeds.
    pub(crate) fn mean(&self, figure: impl Fn(&TrainingOutcome) -> f64) -> f64 {
        self.outcomes.iter().map(figure).sum::<f64>() / self.outcomes.len().max(1) as f64
    }

    /// Returns the mean of the final accuracies.
    pub(crate) fn accuracy(&self) -> f64 {
        self.mean(TrainingOutcome::accuracy)
    }

    /// Returns the mean time to an accuracy; `None` if a seed does not reach it.
    pub(crate) fn time_to(&self, accuracy: f64) -> Option<f64> {
        let times =
            self.outcomes.iter().map(|outcome| outcome.time_to(accuracy)).collect::<Option<Vec<_>>>()?;
        Some(times.iter().sum::<f64>() / times.len().max(1) as f64)
    }

    /// Returns the mean of a figure at each evaluation, with the evaluation's time.
    pub(crate) fn curve(&self, figure: impl Fn(&super::training::Look) -> f64) -> Vec<(f64, f64)> {
        let Some(first) = self.outcomes.first() else { return Vec::new() };
        let mean = |place: usize| {
            let figures = self.outcomes.iter().filter_map(|outcome| outcome.looks.get(place)).map(&figure);
            figures.sum::<f64>() / self.outcomes.len() as f64
        };
        first.looks.iter().enumerate().map(|(place, look)| (look.time, mean(place))).collect()
    }
}
