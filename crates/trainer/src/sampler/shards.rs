use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::error::TrainerError;

/// The samples of a training in parts whose sizes differ by at most one: one part for each worker.
/// Each worker thus has its own data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    /// The indices of the samples of each shard. No sample is in two shards.
    shards: Vec<Vec<usize>>,
}

impl Shards {
    /// Makes shards with similar distributions: samples are assigned at random.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoWorkers`] without workers; [`TrainerError::EmptyShard`] if there are fewer samples than
    /// workers.
    pub fn alike(samples: usize, workers: u16, seed: u64) -> Result<Self, TrainerError> {
        let mut order: Vec<usize> = (0..samples).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        Self::split(&order, workers)
    }

    /// Makes shards that are skewed by class: each has samples of as few classes as possible.
    /// `labels` has the class of each sample.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoWorkers`] without workers; [`TrainerError::EmptyShard`] if there are fewer samples than
    /// workers.
    pub fn by_class(labels: &[usize], workers: u16) -> Result<Self, TrainerError> {
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|&sample| labels[sample]);
        Self::split(&order, workers)
    }

    fn split(order: &[usize], workers: u16) -> Result<Self, TrainerError> {
        if workers == 0 {
            return Err(TrainerError::NoWorkers);
        }
        if order.len() < usize::from(workers) {
            return Err(TrainerError::EmptyShard { samples: order.len(), workers });
        }
        let shard = |worker| order[piece(order.len(), usize::from(worker), usize::from(workers))].to_vec();
        Ok(Self { shards: (0..workers).map(shard).collect() })
    }

    /// Returns the number of shards.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Returns false, because there is at least one shard.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Returns the samples of a worker's shard; none if the worker does not exist.
    pub fn of(&self, worker: u16) -> &[usize] {
        self.shards.get(usize::from(worker)).map_or(&[], Vec::as_slice)
    }
}

/// Returns the range of piece `index`, if `len` items are split into `count` pieces as equally as
/// possible.
pub(super) fn piece(len: usize, index: usize, count: usize) -> std::ops::Range<usize> {
    len * index / count..len * (index + 1) / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::Digits;

    #[test]
    fn every_sample_is_in_one_shard() {
        for workers in [1, 3, 8] {
            let shards = Shards::alike(100, workers, 7).unwrap();
            let mut all: Vec<usize> = (0..workers).flat_map(|worker| shards.of(worker).to_vec()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..100));
        }
        assert_ne!(Shards::alike(100, 2, 7).unwrap(), Shards::alike(100, 2, 8).unwrap());
    }

    #[test]
    fn skewed_shards_have_few_classes() {
        let images = Digits::embedded().unwrap().training;
        let labels: Vec<usize> = images.labels().collect();
        let shards = Shards::by_class(&labels, 8).unwrap();
        for worker in 0..8 {
            let mut classes: Vec<usize> = shards.of(worker).iter().map(|&sample| labels[sample]).collect();
            classes.dedup();
            assert!((1..=3).contains(&classes.len()), "{classes:?}");
            assert!((149..=150).contains(&shards.of(worker).len()));
        }
    }

    #[test]
    fn nobody_is_without_data() {
        let refused = Shards::alike(3, 4, 0).unwrap_err().to_string();
        assert_eq!(refused, "3 samples for 4 workers: each needs at least one");
        assert!(matches!(Shards::alike(3, 0, 0), Err(TrainerError::NoWorkers)));
    }
}
