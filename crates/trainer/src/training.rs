//! The properties that all workers of a training share: its size, seed and hyper-parameters.

use crate::error::TrainerError;

/// The number of images in a round's mini-batch, over all workers, before rounding up to a multiple of
/// their number.
/// It is fixed for the whole job and not for each worker, so that the training is similar with any number of workers.
const GLOBAL_BATCH: usize = 128;

/// The learning rate of the first round.
/// Over 40 seeds of 40 to 100 rounds, 0.4 is about one percentage point less accurate, and 0.8 is better only for its
/// worst seeds (`examples/accuracy.rs`).
const PEAK_LEARNING_RATE: f32 = 0.6;

/// The parameters of one training. They are equal for every worker and for the run on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Training {
    workers: u16,
    rounds: u32,
    seed: u64,
}

impl Training {
    /// The default number of rounds.
    /// After them, the least accurate of 200 seeds classifies 95 % of the held-out images correctly.
    pub const DEFAULT_ROUNDS: u32 = 60;

    /// Makes a training of `rounds` rounds by `workers` workers.
    /// The seed determines the initial weights and the order of the images.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoWorkers`] if `workers` is 0.
    pub fn new(workers: u16, rounds: u32, seed: u64) -> Result<Self, TrainerError> {
        if workers == 0 {
            return Err(TrainerError::NoWorkers);
        }
        Ok(Self { workers, rounds, seed })
    }

    /// Returns the number of workers that share each mini-batch.
    pub fn workers(&self) -> u16 {
        self.workers
    }

    /// Returns the number of rounds. Each has one step.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the seed, which determines the initial weights and the order of the images.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of images for which each worker computes the gradient in a round.
    pub fn batch_per_worker(&self) -> usize {
        GLOBAL_BATCH.div_ceil(usize::from(self.workers))
    }

    /// Returns the number of images for which all workers together compute the gradient in a round.
    pub fn global_batch(&self) -> usize {
        self.batch_per_worker() * usize::from(self.workers)
    }

    /// Returns the learning rate of a round (from 0).
    /// It falls linearly from its peak to 0 after the last round.
    /// The last steps are small and average out the noise of mini-batches. So the final accuracy depends little on the
    /// exact end of the training.
    pub fn learning_rate(&self, round: u32) -> f32 {
        let left = self.rounds.saturating_sub(round) as f32 / self.rounds.max(1) as f32;
        PEAK_LEARNING_RATE * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_take_equal_batches_of_about_the_same_total() {
        for (workers, each, total) in [(1, 128, 128), (3, 43, 129), (8, 16, 128), (500, 1, 500)] {
            let training = Training::new(workers, 1, 0).unwrap();
            assert_eq!((training.batch_per_worker(), training.global_batch()), (each, total));
        }
        assert!(matches!(Training::new(0, 1, 0), Err(TrainerError::NoWorkers)));
    }

    #[test]
    fn the_learning_rate_falls_linearly_to_zero() {
        let training = Training::new(8, 4, 0).unwrap();
        let rates: Vec<f32> =
            (0..6).map(|round| training.learning_rate(round) / PEAK_LEARNING_RATE).collect();
        assert_eq!(rates, [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]);
        assert_eq!(Training::new(8, 0, 0).unwrap().learning_rate(0), 0.0);
    }
}
