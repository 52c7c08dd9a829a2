//! The times at which the gradients of a model are ready.

use std::time::Duration;

use thiserror::Error;

/// The times at which the gradients of a model are ready in a backward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The gradients, in the order of the model's parameters.
    pub gradients: Vec<Gradient>,
    /// The time of a small all-reduce.
    pub start_up: Duration,
}

/// One gradient of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gradient {
    /// The size of the gradient in bytes.
    pub bytes: u64,
    /// The time at which it is ready, counted from the first gradient of the pass.
    pub ready: Duration,
}

/// An error of combining profiles.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// The list of profiles is empty.
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
        /// The number of gradients of the worker `rank`.
        gradients: usize,
        /// The rank of the worker with which the worker `rank` is compared.
        other: u32,
        /// The number of gradients of the worker `other`.
        others: usize,
    },
    /// A parameter has different sizes on two workers.
    #[error(
        "gradient {place} is of {bytes} bytes on rank {rank}, and of {others} on rank {other}: start the same model on \
         all ranks"
    )]
    Size {
        /// The parameter's index in the model.
        place: usize,
        /// The rank of a worker.
        rank: u32,
        /// The bytes of the gradient on the worker `rank`.
        bytes: u64,
        /// The rank of the worker with which the worker `rank` is compared.
        other: u32,
        /// The bytes of the gradient on the worker `other`.
        others: u64,
    },
}

impl Profile {
    /// Combines the profiles of all workers, each with its rank.
    /// A gradient is ready when it is ready on the last worker, and the start-up time is the time of the slowest
    /// worker.
    ///
    /// # Errors
    /// [`ProfileError`] if the workers do not have the same gradients, or if a list of workers or gradients is empty.
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

    /// Returns the total size, in bytes, of the gradients at these indices in the model.
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
