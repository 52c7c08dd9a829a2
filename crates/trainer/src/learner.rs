//! One worker's side of the training, or the training of a machine that trains alone.

use std::sync::Arc;

use crate::batches::{Batches, Share};
use crate::digits::Digits;
use crate::error::TrainerError;
use crate::images::Images;
use crate::model::{Model, PARAMETERS};
use crate::training::Training;

/// A model in training.
/// Each round has three parts: [`gradient`](Self::gradient), the sum over all workers' gradients by any means, and
/// [`apply`](Self::apply).
#[derive(Debug, Clone)]
pub struct Learner {
    model: Model,
    training: Training,
    batches: Batches,
    round: u32,
}

impl Learner {
    /// Makes a learner before the first round. All learners of one `training` start from the same model.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoSuchRank`] for a rank that the training does not have; [`TrainerError::TooFewImages`] without
    /// images.
    pub fn new(training: &Training, images: Arc<Images>, share: Share) -> Result<Self, TrainerError> {
        let batches = Batches::new(training, images, share)?;
        Ok(Self { model: Model::new(training.seed()), training: *training, batches, round: 0 })
    }

    /// Writes the gradient of this round's share of the mini-batch to `out`, summed over the images.
    /// Returns the sum of their losses (in nats).
    ///
    /// # Errors
    ///
    /// [`TrainerError::WrongLength`] if the length of `out` is not [`PARAMETERS`].
    pub fn gradient(&self, out: &mut [f32]) -> Result<f64, TrainerError> {
        self.model.gradient(&self.batches.of_round(self.round), out)
    }

    /// Ends the round with a step along `summed`, the sum of the gradients of `total_samples` images.
    /// `total_samples` is [`Training::global_batch`] if every worker has contributed.
    ///
    /// # Errors
    ///
    /// [`TrainerError`], as for [`Model::apply`]. The round is then not over.
    pub fn apply(&mut self, summed: &[f32], total_samples: u64) -> Result<(), TrainerError> {
        self.model.apply(summed, total_samples, self.training.learning_rate(self.round))?;
        self.round += 1;
        Ok(())
    }

    /// Returns the present model.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

/// Trains on whole mini-batches, without a network.
/// It is the reference for a distributed run of the same `training`.
///
/// # Errors
///
/// [`TrainerError::TooFewImages`] without training images.
pub fn train_on_one_machine(training: &Training, digits: &Digits) -> Result<Model, TrainerError> {
    let mut learner = Learner::new(training, Arc::clone(&digits.training), Share::Whole)?;
    let mut gradient = vec![0.0; PARAMETERS];
    for _ in 0..training.rounds() {
        learner.gradient(&mut gradient)?;
        learner.apply(&gradient, training.global_batch() as u64)?;
    }
    Ok(learner.model)
}
