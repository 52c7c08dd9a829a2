//! One worker's side of a training whose parameters are stored elsewhere, for example on a parameter
//! server.

use std::sync::Arc;

use crate::batches::{Batches, Share};
use crate::error::TrainerError;
use crate::images::Images;
use crate::model::Model;
use crate::training::Training;

/// Computes gradients at given parameters.
/// The images depend only on the iteration, so that an iteration can be repeated.
#[derive(Debug, Clone)]
pub struct RemoteLearner {
    batches: Batches,
}

impl RemoteLearner {
    /// Makes the learner of one share of the training's mini-batches.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoSuchRank`] for a rank that the training does not have; [`TrainerError::TooFewImages`] without
    /// images.
    pub fn new(training: &Training, images: Arc<Images>, share: Share) -> Result<Self, TrainerError> {
        Ok(Self { batches: Batches::new(training, images, share)? })
    }

    /// Writes the gradient of an iteration (from 0) to `out`: the *mean* over the images of this share.
    /// It is the mean, because a parameter server weights workers itself. Returns the mean loss (in nats).
    ///
    /// # Errors
    ///
    /// [`TrainerError::WrongLength`] if the length of `out` is not [`PARAMETERS`](crate::PARAMETERS).
    pub fn gradient(&self, model: &Model, iteration: u32, out: &mut [f32]) -> Result<f64, TrainerError> {
        let batch = self.batches.of_round(iteration);
        let loss = model.gradient(&batch, out)?;
        let scale = 1.0 / batch.len() as f32;
        out.iter_mut().for_each(|value| *value *= scale);
        Ok(loss / batch.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::Digits;
    use crate::learner::Learner;
    use crate::model::PARAMETERS;

    #[test]
    fn a_remote_learner_computes_what_a_local_one_does() {
        let digits = Digits::embedded().unwrap();
        let training = Training::new(8, 3, 5).unwrap();
        let share = Share::Worker(3);
        let mut local = Learner::new(&training, Arc::clone(&digits.training), share).unwrap();
        let remote = RemoteLearner::new(&training, Arc::clone(&digits.training), share).unwrap();
        let (mut summed, mut mean) = (vec![0.0; PARAMETERS], vec![0.0; PARAMETERS]);
        for iteration in 0..3 {
            let total = local.gradient(&mut summed).unwrap();
            let model = Model::from_parameters(local.model().parameters().to_vec()).unwrap();
            let loss = remote.gradient(&model, iteration, &mut mean).unwrap();
            let samples = training.batch_per_worker();
            assert!((loss * samples as f64 - total).abs() < 1e-9 * total);
            for (mean, sum) in mean.iter().zip(&summed) {
                assert_eq!(*mean, sum * (1.0 / samples as f32));
            }
            local.apply(&summed, samples as u64).unwrap();
        }
    }

    #[test]
    fn parameters_of_another_network_are_refused() {
        let refused = Model::from_parameters(vec![0.0; 7]).unwrap_err();
        assert!(matches!(refused, TrainerError::WrongLength { expected: PARAMETERS, got: 7 }));
    }
}
