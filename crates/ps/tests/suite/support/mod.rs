//! Workers with different speeds on a virtual clock, which use one policy.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use tributary_ps::policy::{
    A2s, Action, Asp, Bsp, Dssp, Policy, Spread, Ssp, SyncSwitch, WeightedGradient, Worker,
};

/// Returns every policy with its defaults.
pub(crate) fn policies(epoch_iterations: u64) -> Vec<Box<dyn Policy>> {
    let epoch = NonZeroU64::new(epoch_iterations).unwrap();
    vec![
        Box::new(Bsp::new(epoch)),
        Box::new(Asp::new(epoch)),
        Box::new(Ssp::new(epoch, Ssp::DEFAULT_BOUND)),
        Box::new(Dssp::new(epoch, Ssp::DEFAULT_BOUND, Dssp::DEFAULT_MOST)),
        Box::new(SyncSwitch::new(epoch, SyncSwitch::DEFAULT_SWITCH_EPOCHS)),
        Box::new(A2s::new(epoch, A2s::DEFAULT_SLACK, Spread::Total)),
        Box::new(A2s::new(epoch, A2s::DEFAULT_SLACK, Spread::Recent)),
    ]
}

/// A virtual clock: workers that compute for their step time, and the set of waiting workers.
pub(crate) struct Clock {
    pub(crate) now: u64,
    start: Instant,
    step_times: Vec<u64>,
    /// The time at which each computing worker's gradient will arrive.
    computing: BinaryHeap<Reverse<(u64, Worker)>>,
    /// Workers whose gradients are at the server.
    pub(crate) waiting: BTreeSet<Worker>,
}

impl Clock {
    pub(crate) fn new(step_times: &[u64]) -> Self {
        Self {
            now: 0,
            start: Instant::now(),
            step_times: step_times.to_vec(),
            computing: BinaryHeap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Lets a worker compute with new parameters.
    pub(crate) fn release(&mut self, worker: Worker) {
        self.waiting.remove(&worker);
        self.computing.push(Reverse((self.now + self.step_times[usize::from(worker)], worker)));
    }

    /// Returns the worker of the next gradient, which waits from then on. `None` if no worker computes.
    pub(crate) fn arrival(&mut self) -> Option<Worker> {
        let Reverse((time, worker)) = self.computing.pop()?;
        self.now = time;
        self.waiting.insert(worker);
        Some(worker)
    }

    /// Returns the time for policies; one unit is a millisecond.
    pub(crate) fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    /// Removes a computing or waiting worker.
    pub(crate) fn remove(&mut self, worker: Worker) {
        self.waiting.remove(&worker);
        self.computing.retain(|Reverse((_, other))| *other != worker);
    }

    pub(crate) fn computes(&self, worker: Worker) -> bool {
        self.computing.iter().any(|Reverse((_, other))| *other == worker)
    }
}

/// A record of each gradient's path through a policy, by worker and iteration. It is checked at each
/// action.
pub(crate) struct Ledger {
    /// For each worker, the number of gradients that arrived, and below, the number that were applied or,
    /// when the worker left, dropped.
    pub(crate) arrived: BTreeMap<Worker, u64>,
    pub(crate) settled: BTreeMap<Worker, u64>,
    pub(crate) updates: Vec<Vec<WeightedGradient>>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self { arrived: BTreeMap::new(), settled: BTreeMap::new(), updates: Vec::new() }
    }

    /// Carries out the actions, and panics if one is not allowed.
    pub(crate) fn settle(&mut self, actions: &[Action], clock: &mut Clock) {
        for action in actions {
            match action {
                Action::Apply(parts) => {
                    assert!(!parts.is_empty() && parts.iter().all(|part| part.weight > 0), "{parts:?}");
                    for part in parts {
                        let settled = self.settled.entry(part.worker).or_default();
                        *settled += 1;
                        assert!(*settled <= self.arrived[&part.worker], "applied twice: {part:?}");
                    }
                    self.updates.push(parts.clone());
                }
                Action::Release(worker) => {
                    assert!(!clock.computes(*worker), "released twice: {worker}");
                    assert_eq!(self.open(*worker), 0, "{worker} was released before its gradient was used");
                    clock.release(*worker);
                }
            }
        }
    }

    /// Returns the number of a worker's gradients that were neither applied nor dropped.
    pub(crate) fn open(&self, worker: Worker) -> u64 {
        let count = |map: &BTreeMap<Worker, u64>| map.get(&worker).copied().unwrap_or(0);
        count(&self.arrived) - count(&self.settled)
    }
}
