//! The choice of the images that each worker takes in each round.
//!
//! The epochs, each a permutation of the training images, follow one another in an endless sequence. Round r takes the
//! r-th piece of `global_batch` images from this sequence, and worker i takes the i-th piece of `batch_per_worker`
//! images from that. So the workers' shares of a round are disjoint, together they are the whole batch, and every image
//! is used once in each epoch. Any piece can be computed without the pieces before it.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::error::TrainerError;
use crate::images::Images;
use crate::training::Training;

/// The part of each round's mini-batch for which a learner computes the gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The part of the worker with this rank.
    Worker(u16),
    /// The whole mini-batch, for a machine that trains alone.
    Whole,
}

/// The mini-batches of one learner.
#[derive(Debug, Clone)]
pub(crate) struct Batches {
    images: Arc<Images>,
    seed: u64,
    /// The number of images of a round, over all workers.
    stride: usize,
    /// The offset of this share in the images of a round. `len` is the length of the share.
    offset: usize,
    len: usize,
}

impl Batches {
    pub(crate) fn new(training: &Training, images: Arc<Images>, share: Share) -> Result<Self, TrainerError> {
        if images.is_empty() {
            return Err(TrainerError::TooFewImages(0));
        }
        let workers = training.workers();
        let (offset, len) = match share {
            Share::Whole => (0, training.global_batch()),
            Share::Worker(rank) if rank >= workers => return Err(TrainerError::NoSuchRank { rank, workers }),
            Share::Worker(rank) => {
                (usize::from(rank) * training.batch_per_worker(), training.batch_per_worker())
            }
        };
        Ok(Self { images, seed: training.seed(), stride: training.global_batch(), offset, len })
    }

    /// Returns the images of this share in a round.
    pub(crate) fn of_round(&self, round: u32) -> Images {
        self.images.select(&self.indices(round))
    }

    fn indices(&self, round: u32) -> Vec<usize> {
        let epoch_len = self.images.len() as u64;
        let start = u64::from(round) * self.stride as u64 + self.offset as u64;
        let mut epoch = start / epoch_len;
        let mut skip = (start % epoch_len) as usize;
        let mut indices = Vec::with_capacity(self.len);
        while indices.len() < self.len {
            let missing = self.len - indices.len();
            indices.extend(self.permutation(epoch).into_iter().skip(skip).take(missing));
            epoch += 1;
            skip = 0;
        }
        indices
    }

    /// Returns the order of all images in an epoch.
    fn permutation(&self, epoch: u64) -> Vec<usize> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        // Stream 0 is used for the initial weights.
        random.set_stream(epoch + 1);
        let mut order: Vec<usize> = (0..self.images.len()).collect();
        order.shuffle(&mut random);
        order
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::images::PIXELS;

    fn batches(training: &Training, images: usize, share: Share) -> Batches {
        let images = Images::new(&vec![[0.0; PIXELS]; images], vec![0; images]);
        Batches::new(training, Arc::new(images), share).unwrap()
    }

    proptest! {
        #[test]
        fn the_workers_shares_make_up_the_whole_batch(
            workers in 1u16..40, seed: u64, round in 0u32..1000, images in 1usize..300,
        ) {
            let training = Training::new(workers, 1000, seed).unwrap();
            let whole = batches(&training, images, Share::Whole).indices(round);
            let mut union = Vec::new();
            for rank in 0..workers {
                let share = batches(&training, images, Share::Worker(rank)).indices(round);
                prop_assert_eq!(share.len(), training.batch_per_worker());
                union.extend(share);
            }
            prop_assert_eq!(union, whole);
        }

        #[test]
        fn every_image_is_used_once_an_epoch(workers in 1u16..40, seed: u64, images in 1usize..300) {
            let training = Training::new(workers, 1000, seed).unwrap();
            let whole = batches(&training, images, Share::Whole);
            let used: Vec<usize> = (0..12).flat_map(|round| whole.indices(round)).collect();
            for epoch in used.chunks_exact(images) {
                let mut sorted = epoch.to_vec();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(0..images));
            }
        }
    }

    #[test]
    fn epochs_and_seeds_differ_in_order() {
        let of_seed = |seed| batches(&Training::new(1, 1, seed).unwrap(), 128, Share::Whole);
        assert_ne!(of_seed(1).indices(0), of_seed(1).indices(1));
        assert_ne!(of_seed(1).indices(0), of_seed(2).indices(0));
    }

    #[test]
    fn a_rank_or_images_that_are_not_there_are_refused() {
        let training = Training::new(4, 1, 0).unwrap();
        let one = Arc::new(Images::new(&[[0.0; PIXELS]], vec![0]));
        let refused = Batches::new(&training, one, Share::Worker(4)).unwrap_err();
        assert!(matches!(refused, TrainerError::NoSuchRank { rank: 4, workers: 4 }));
        let none = Arc::new(Images::new(&[], Vec::new()));
        let refused = Batches::new(&training, none, Share::Whole).unwrap_err();
        assert!(matches!(refused, TrainerError::TooFewImages(0)));
    }
}
