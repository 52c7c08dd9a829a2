//! The network that the demo trains.

use anyhow::Result;
use tributary_trainer::{Digits, Model, PARAMETERS};

use super::Workload;

/// The demo's network and its images.
pub(crate) struct DigitsNet {
    digits: Digits,
    labels: Vec<usize>,
}

impl DigitsNet {
    pub(crate) fn new() -> Result<Self> {
        let digits = Digits::embedded()?;
        let labels = digits.training.labels().collect();
        Ok(Self { digits, labels })
    }
}

impl Workload for DigitsNet {
    fn parameters(&self) -> usize {
        PARAMETERS
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        Ok(Model::new(seed).parameters().to_vec())
    }

    fn labels(&self) -> &[usize] {
        &self.labels
    }

    fn gradient(&self, parameters: &[f32], samples: &[usize], out: &mut [f32]) -> Result<()> {
        let batch = self.digits.training.select(samples);
        Model::from_parameters(parameters.to_vec())?.gradient(&batch, out)?;
        let share = 1.0 / samples.len().max(1) as f32;
        out.iter_mut().for_each(|value| *value *= share);
        Ok(())
    }

    fn accuracy(&self, parameters: &[f32]) -> Result<f64> {
        Ok(Model::from_parameters(parameters.to_vec())?.accuracy(&self.digits.held_out))
    }
}
