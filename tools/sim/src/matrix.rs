//! Random scenarios from seeds, one at a time or many in a row.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tributary_protocol::Downlink;
use tributary_wire::{Seq, SliceWidth};

use crate::run::{SimError, run};
use crate::scenario::{Faults, Host, Link, Scenario};
use crate::tree::Tree;

/// Fan-outs from the root down.
///
/// The last number is the number of workers under each of the lowest switches. The trees have one to three
/// levels of switches, and 2 to 64 workers.
const TREES: [&[usize]; 10] =
    [&[2], &[5], &[16], &[2, 2], &[3, 4], &[4, 8], &[8, 8], &[2, 2, 2], &[2, 3, 4], &[4, 4, 4]];
/// Probabilities of loss on each link, in both directions.
const LOSSES: [f64; 8] = [0.0, 0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3];
/// The time within which reboots and late starts occur. It is a large part of a job's duration.
const SOON: Duration = Duration::from_millis(200);

/// Returns the scenario of a seed. All workers together contribute about `values` values.
pub fn case(seed: u64, values: usize) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tree = Tree::regular(pick(&mut rng, &TREES));
    let loss = pick(&mut rng, &LOSSES);
    let operations = rng.random_range(1..4);
    // Every member retransmits. With a loss of 30 % on each of up to 8 links, this takes long.
    let patience = if loss > 0.05 { 8 } else { 1 };
    let most = values / tree.workers() / operations as usize / patience;
    let width = SliceWidth::ETHERNET;
    let elements = rng.random_range(1..most.max(width.values()) + 1);
    let (switches, workers) = (tree.switches(), tree.workers());
    let faults = Faults {
        duplicates: pick(&mut rng, &[0.0, 0.01, 0.2]),
        late: pick(&mut rng, &[0.0, 0.02, 0.3]),
        lateness: pick(&mut rng, &[100, 3_000, 100_000].map(Duration::from_micros)),
        reboots: some(&mut rng, 4, |rng| (rng.random_range(0..switches), soon(rng))),
    };
    let wraps = rng.random_bool(0.5);
    let before = rng.random_range(0..elements.div_ceil(width.values()) as u32 + 1);
    Scenario {
        tree,
        elements,
        integers: true,
        operations,
        start: if wraps { Seq(u32::MAX - before) } else { Seq::FIRST },
        width,
        window: 1 << rng.random_range(0..9),
        downlink: if rng.random_bool(0.8) { Downlink::Multicast } else { Downlink::Unicast },
        link: Link {
            rate: pick(&mut rng, &[50_000_000, 1_000_000_000]),
            queue: pick(&mut rng, &[8, 64, 1024]),
            loss,
            ..Scenario::default().link
        },
        host: Host {
            pauses: pick(&mut rng, &[0.0, 0.0, 0.001, 0.01]),
            pause: pick(&mut rng, &[5, 100].map(Duration::from_millis)),
            ..Scenario::default().host
        },
        faults,
        stragglers: some(&mut rng, 3, |rng| (rng.random_range(0..workers), soon(rng))),
        seed,
        ..Scenario::default()
    }
}

fn pick<T: Copy>(rng: &mut impl Rng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}

fn soon(rng: &mut impl Rng) -> Duration {
    SOON.mul_f64(rng.random())
}

fn some<R: Rng, T>(rng: &mut R, most: usize, mut one: impl FnMut(&mut R) -> T) -> Vec<T> {
    (0..rng.random_range(0..most)).map(|_| one(rng)).collect()
}

/// The totals of many scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Total {
    /// Number of scenarios.
    pub scenarios: u64,
    /// Values that workers contributed and whose sums were right.
    pub values: u64,
    /// Slices that were retransmitted.
    pub retransmitted: u64,
    /// Packets that links lost.
    pub lost: u64,
    /// Scenarios with a wrong sum, or an operation that failed.
    pub wrong: u64,
    /// Scenarios that did not end.
    pub stuck: u64,
}

/// A scenario that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedScenario {
    /// The seed of the scenario.
    pub seed: u64,
    /// The error.
    pub error: SimError,
}

/// Runs the [cases](case) of `seeds`, with one thread for each core.
///
/// After each case, it calls `told` with the totals, and with the scenario if it failed. It ends when `told`
/// returns false.
pub fn search(
    seeds: impl Iterator<Item = u64> + Send,
    values: usize,
    told: impl FnMut(&Total, Option<FailedScenario>) -> bool + Send,
) -> Total {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let seeds = Mutex::new(seeds);
    let state = Mutex::new((Total::default(), told, true));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = seeds.lock().ok().and_then(|mut seeds| seeds.next()) {
                    let scenario = case(seed, values);
                    let result = run(&scenario);
                    let Ok(mut state) = state.lock() else { return };
                    let (total, told, goes_on) = &mut *state;
                    let found = total.add(&scenario, result);
                    *goes_on &= told(total, found);
                    if !*goes_on {
                        return;
                    }
                }
            });
        }
    });
    state.into_inner().map(|(total, ..)| total).unwrap_or_default()
}

impl Total {
    fn add(
        &mut self,
        scenario: &Scenario,
        result: Result<crate::ScenarioOutcome, SimError>,
    ) -> Option<FailedScenario> {
        self.scenarios += 1;
        match result {
            Ok(outcome) => {
                let each = scenario.elements as u64 * u64::from(scenario.operations);
                self.values += each * scenario.tree.workers() as u64;
                self.retransmitted += outcome.retransmitted();
                self.lost += outcome.up.iter().chain(&outcome.down).map(|link| link.lost).sum::<u64>();
                None
            }
            Err(error) => {
                let stuck = matches!(error, SimError::Stuck { .. });
                *(if stuck { &mut self.stuck } else { &mut self.wrong }) += 1;
                Some(FailedScenario { seed: scenario.seed, error })
            }
        }
    }
}
