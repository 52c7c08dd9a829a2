//! The computation of a worker in the built-in training.

use anyhow::Result;
use tributary_trainer::{Model, PARAMETERS, RemoteLearner};

/// Computes a worker's gradients with the parameters of a parameter server.
#[derive(Debug, Clone)]
pub(super) struct Learner {
    remote: RemoteLearner,
    seed: u64,
}

impl Learner {
    pub(super) fn new(remote: RemoteLearner, seed: u64) -> Self {
        Self { remote, seed }
    }

    /// Returns the initial parameters, which are equal on all workers.
    pub(super) fn initial(&self) -> Vec<f32> {
        Model::new(self.seed).parameters().to_vec()
    }

    /// Returns the gradient of an iteration with these parameters. `None` if the model has diverged and the
    /// gradient is not finite.
    pub(super) fn gradient(&self, iteration: u64, parameters: Vec<f32>) -> Result<Option<Vec<f32>>> {
        let iteration = u32::try_from(iteration)?;
        let mut gradient = vec![0.0; PARAMETERS];
        self.remote.gradient(&Model::from_parameters(parameters)?, iteration, &mut gradient)?;
        Ok(Some(gradient).filter(|gradient| gradient.iter().all(|value| value.is_finite())))
    }

    /// Returns the zeros that a worker hands in if it has no gradient. The worker thus skips the step, and
    /// the model's accuracy shows the damage.
    pub(super) fn nothing() -> Vec<f32> {
        vec![0.0; PARAMETERS]
    }
}
