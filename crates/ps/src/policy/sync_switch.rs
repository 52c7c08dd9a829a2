//! First synchronous, then asynchronous (Li et al., "Sync-Switch: Hybrid Parameter Synchronization for
//! Distributed Deep Learning", ICDCS 2021).

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Instant;

use super::{Action, Asp, Bsp, Policy, Progress, Worker};

/// BSP until every worker has done some epochs, ASP from then on.
///
/// An asynchronous update uses one gradient, a synchronous update the mean of all. Therefore the
/// learning rate is divided by the number of workers at the switch. The publication instead multiplies
/// the rate by that number for BSP.
#[derive(Debug)]
pub struct SyncSwitch {
    epoch_iterations: NonZeroU64,
    switch_epochs: u64,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Synchronous(Bsp),
    Asynchronous(Asp),
}

impl SyncSwitch {
    /// The default number of synchronous epochs.
    pub const DEFAULT_SWITCH_EPOCHS: u64 = 5;

    /// Creates a policy without workers.
    pub fn new(epoch_iterations: NonZeroU64, switch_epochs: u64) -> Self {
        Self { epoch_iterations, switch_epochs, phase: Phase::Synchronous(Bsp::new(epoch_iterations)) }
    }

    fn current(&mut self) -> &mut dyn Policy {
        match &mut self.phase {
            Phase::Synchronous(bsp) => bsp,
            Phase::Asynchronous(asp) => asp,
        }
    }

    /// Switches to ASP if the synchronous epochs are over. The switch happens between two rounds, when no
    /// gradient waits.
    fn look(&mut self) {
        let Phase::Synchronous(bsp) = &self.phase else { return };
        let progress = bsp.progress();
        if progress.slowest_epoch() < self.switch_epochs || bsp.is_within_a_round() {
            return;
        }
        let mut asp = Asp::new(self.epoch_iterations);
        for worker in progress.workers() {
            // The release is dropped, because BSP has released the workers already.
            let _ = asp.join(worker, progress.iterations(worker));
        }
        self.phase = Phase::Asynchronous(asp);
    }
}

impl Policy for SyncSwitch {
    fn name(&self) -> &'static str {
        "sync-switch"
    }

    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action> {
        self.current().join(worker, iterations)
    }

    /// Handles a gradient. The round that ends the epochs is still a synchronous update, so the policy
    /// switches before the next gradient.
    fn arrive(&mut self, worker: Worker, now: Instant) -> Vec<Action> {
        self.look();
        self.current().arrive(worker, now)
    }

    fn leave(&mut self, worker: Worker) -> Vec<Action> {
        self.current().leave(worker)
    }

    fn rate(&self) -> f32 {
        match &self.phase {
            Phase::Synchronous(_) => 1.0,
            Phase::Asynchronous(asp) => 1.0 / asp.progress().workers().len().max(1) as f32,
        }
    }

    fn progress(&self) -> &Progress {
        match &self.phase {
            Phase::Synchronous(bsp) => bsp.progress(),
            Phase::Asynchronous(asp) => asp.progress(),
        }
    }

    fn group(&self) -> BTreeSet<Worker> {
        match &self.phase {
            Phase::Synchronous(bsp) => bsp.group(),
            Phase::Asynchronous(asp) => asp.group(),
        }
    }
}
