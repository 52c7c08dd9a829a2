//! The methods of synchronisation that are compared.

use std::num::NonZeroU64;

use tributary_ps::policy::{A2s, Asp, Bsp, Dssp, Policy, Spread, Ssp, SyncSwitch};

/// A method to synchronise workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Each worker waits for all other workers.
    Bsp,
    /// BSP with batches in proportion to the workers' speeds, so that all workers take the same time.
    BspBatches,
    /// No worker waits.
    Asp,
    /// No worker is more than 3 iterations ahead.
    Ssp,
    /// SSP with a bound from 3 to 15 that follows the workers' speeds.
    Dssp,
    /// BSP for a quarter of the epochs, at least one, and then ASP.
    SyncSwitch,
    /// BSP of models: each worker does 8 local steps between two rounds.
    LocalSgd,
    /// The fastest workers wait a short time for each other.
    A2s,
    /// A2S that estimates speeds from the last epoch only.
    A2sRecent,
}

impl Contender {
    pub(crate) const ALL: [Self; 9] = [
        Self::Bsp,
        Self::BspBatches,
        Self::Asp,
        Self::Ssp,
        Self::Dssp,
        Self::SyncSwitch,
        Self::LocalSgd,
        Self::A2s,
        Self::A2sRecent,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bsp => "bsp",
            Self::BspBatches => "bsp-batches",
            Self::Asp => "asp",
            Self::Ssp => "ssp",
            Self::Dssp => "dssp",
            Self::SyncSwitch => "sync-switch",
            Self::LocalSgd => "local-sgd",
            Self::A2s => "a2s",
            Self::A2sRecent => "a2s-recent",
        }
    }

    /// Returns the server's policy. `synchronous` is a quarter of the epochs that BSP completes.
    pub(crate) fn policy(self, epoch: NonZeroU64, synchronous: u64) -> Box<dyn Policy> {
        match self {
            Self::Bsp | Self::BspBatches => Box::new(Bsp::new(epoch)),
            Self::Asp => Box::new(Asp::new(epoch)),
            Self::Ssp => Box::new(Ssp::new(epoch, Ssp::DEFAULT_BOUND)),
            Self::Dssp => Box::new(Dssp::new(epoch, Ssp::DEFAULT_BOUND, Dssp::DEFAULT_MOST)),
            Self::SyncSwitch => Box::new(SyncSwitch::new(epoch, synchronous)),
            Self::LocalSgd => {
                // A round has `local_steps` iterations.
                let rounds = epoch.get().div_ceil(self.local_steps());
                Box::new(Bsp::new(NonZeroU64::new(rounds).unwrap_or(NonZeroU64::MIN)))
            }
            Self::A2s => Box::new(A2s::new(epoch, A2s::DEFAULT_SLACK, Spread::Total)),
            Self::A2sRecent => Box::new(A2s::new(epoch, A2s::DEFAULT_SLACK, Spread::Recent)),
        }
    }

    /// Returns the number of steps that a worker does with a local model before it sends their sum.
    pub(crate) fn local_steps(self) -> u64 {
        if self == Self::LocalSgd { 8 } else { 1 }
    }

    /// Returns true if a worker's batch is in proportion to its speed.
    pub(crate) fn batches_follow_speed(self) -> bool {
        self == Self::BspBatches
    }
}
