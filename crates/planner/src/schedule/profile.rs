//! When the gradients of a model are ready.

use std::time::Duration;

use thiserror::Error;

/// When the gradients of a model are ready in a backward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The gradients, in the order of the model's parameters.
    pub gradients: Vec<Gradient>,
    /// The time of a small all-reduce.
    pub start_up: Duration,
}

/// One gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gradient {
    /// Size of the gradient, in bytes.
    pub bytes: u64,
    /// When it is ready, counted from the first gradient of the pass.
    pub ready: Duration,
}

/// Why profiles cannot be combined.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// The request has no workers.
    #[error("no worker has a profile")]
    NoWorker,
    /// The model has no parameters.
    #[error("the profile has no gradients: give it a model with parameters that are trained")]
    Empty,
    /// The workers' models have different numbers of parameters.
    #[error(
        "rank {rank} has {gradients} gradients, and rank {other} has {others}: start the same model on all ranks"
    )]
    Count {
        /// The rank of a worker.
        rank: u32,
        /// The number of its gradients.
        gradients: usize,
        /// The rank of the worker that it is compared with.
        other: u32,
        /// The number of gradients of the worker `other`.
        others: usize,
    },
    /// A parameter has different sizes.
    #[error(
        "gradient {place} is of {bytes} bytes on rank {rank}, and of {others} on rank {other}: start the same model on \
         all ranks"
    )]
    Size {
        /// The parameter's index in the model.
        place: usize,
        /// The rank of a worker.
        rank: u32,
        /// Bytes of the gradient there.
        bytes: u64,
        /// The rank of the worker that it is compared with.
        other: u32,
        /// Bytes of the gradient there.
        others: u64,
    },
}

impl Profile {
    /// Combines the profiles of all workers, given by their ranks: each gradient is ready when the last
    /// worker has it, and an all-reduce takes as long as on the slowest worker.
    ///
    /// # Errors
    /// The workers do not have the same gradients, or there are none.
    pub fn slowest<'a>(profiles: impl IntoIterator<Item = (u32, &'a Self)>) -> Result<Self, ProfileError> {
        let mut profiles = profiles.into_iter();
        let (first, profile) = profiles.next().ok_or(ProfileError::NoWorker)?;
        let mut slowest = profile.clone();
        if slowest.gradients.is_empty() {
            return Err(ProfileError::Empty);
        }
        for (rank, profile) in profiles {
            slowest.check_same(first, rank, profile)?;
            slowest.start_up = slowest.start_up.max(profile.start_up);
            for (all, one) in slowest.gradients.iter_mut().zip(&profile.gradients) {
                all.ready = all.ready.max(one.ready);
            }
        }
        Ok(slowest)
    }

    /// Size of the gradients at these indices in the model, in bytes.
    pub(crate) fn bytes_of(&self, places: &[usize]) -> u64 {
        let gradients = places.iter().filter_map(|place| self.gradients.get(*place));
        gradients.fold(0, |bytes, gradient| bytes.saturating_add(gradient.bytes))
    }

    fn check_same(&self, other: u32, rank: u32, profile: &Self) -> Result<(), ProfileError> {
        let (gradients, others) = (profile.gradients.len(), self.gradients.len());
        if gradients != others {
            return Err(ProfileError::Count { rank, gradients, other, others });
        }
        let pairs = profile.gradients.iter().zip(&self.gradients).enumerate();
        match pairs.into_iter().find(|(_, (one, all))| one.bytes != all.bytes) {
            Some((place, (one, all))) => {
                Err(ProfileError::Size { place, rank, bytes: one.bytes, other, others: all.bytes })
            }
            None => Ok(()),
        }
    }
}
