//! The computation of a worker in the built-in training.

use anyhow::Result;
use tributary_trainer::{Model, PARAMETERS, RemoteLearner};

/// A worker's gradients at a parameter server's parameters.
#[derive(Debug, Clone)]
pub(super) struct Learner {
    remote: RemoteLearner,
    seed: u64,
}

impl Learner {
    pub(super) fn new(remote: RemoteLearner, seed: u64) -> Self {
        Self { remote, seed }
    }

    /// The initial parameters: the same on all workers.
    pub(super) fn initial(&self) -> Vec<f32> {
        Model::new(self.seed).parameters().to_vec()
    }

    /// The gradient of an iteration at its parameters. `None`: the model has diverged, and has none.
    pub(super) fn gradient(&self, iteration: u64, parameters: Vec<f32>) -> Result<Option<Vec<f32>>> {
        let iteration = u32::try_from(iteration)?;
        let mut gradient = vec![0.0; PARAMETERS];
        self.remote.gradient(&Model::from_parameters(parameters)?, iteration, &mut gradient)?;
        Ok(Some(gradient).filter(|gradient| gradient.iter().all(|value| value.is_finite())))
    }

    /// Returns the values that a worker hands in without a gradient: it skips the step, and the model's
    /// accuracy shows the damage.
    pub(super) fn nothing() -> Vec<f32> {
        vec![0.0; PARAMETERS]
    }
}
