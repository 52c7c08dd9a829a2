//! Tests of properties that every policy has at any speeds, with workers that join and leave, and of
//! the behaviour of each policy.

use std::num::NonZeroU64;
use std::time::Instant;

use proptest::prelude::*;
use tributary_ps::policy::{
    A2s, Action, Asp, Bsp, Dssp, Policy, Spread, Ssp, SyncSwitch, WeightedGradient, Worker,
};

use crate::support::{Clock, Ledger, policies};

const EPOCH: NonZeroU64 = NonZeroU64::new(5).unwrap();
/// Relative step times of the workers in systems.md, times ten.
const STEP_TIMES: [u64; 8] = [10, 10, 11, 12, 15, 20, 30, 40];

/// A worker that joins or leaves after `after` gradients.
#[derive(Debug, Clone, Copy)]
struct Change {
    after: usize,
    worker: Worker,
}

/// Runs until `gradients` gradients have arrived or all workers have left. Calls `check` after each
/// gradient.
fn drive(
    policy: &mut dyn Policy,
    step_times: &[u64],
    changes: &[Change],
    gradients: usize,
    mut check: impl FnMut(&dyn Policy, &Ledger, &Clock),
) -> Ledger {
    let (mut clock, mut ledger) = (Clock::new(step_times), Ledger::new());
    for worker in 0..step_times.len() as Worker {
        let actions = policy.join(worker, 0);
        ledger.settle(&actions, &mut clock);
    }
    for arrival in 0..gradients {
        for change in changes.iter().filter(|change| change.after == arrival) {
            turn(policy, change.worker % step_times.len() as Worker, &mut ledger, &mut clock);
        }
        let Some(worker) = clock.arrival() else {
            assert!(policy.progress().workers().len() == 0, "{policy:?} lets everyone wait for ever");
            return ledger;
        };
        *ledger.arrived.entry(worker).or_default() += 1;
        let actions = policy.arrive(worker, clock.instant());
        ledger.settle(&actions, &mut clock);
        check(policy, &ledger, &clock);
    }
    ledger
}

/// Makes a present worker leave, or an absent worker join.
fn turn(policy: &mut dyn Policy, worker: Worker, ledger: &mut Ledger, clock: &mut Clock) {
    if policy.progress().workers().any(|there| there == worker) {
        clock.remove(worker);
        let actions = policy.leave(worker);
        assert!(!actions.contains(&Action::Release(worker)));
        ledger.settle(&actions, clock);
        // Gradients of the worker that were not applied yet will never be applied.
        let arrived = ledger.arrived.get(&worker).copied().unwrap_or(0);
        ledger.settled.insert(worker, arrived);
    } else {
        let done = ledger.settled.get(&worker).copied().unwrap_or(0);
        clock.waiting.insert(worker);
        let actions = policy.join(worker, done);
        ledger.settle(&actions, clock);
    }
}

fn speeds() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1u64..50, 1..10)
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(
        (0usize..300, any::<Worker>()).prop_map(|(after, worker)| Change { after, worker }),
        0..12,
    )
}

proptest! {
    /// The ledger and the driver check three properties: a gradient is applied at most once, a worker is
    /// released only after that, and some worker always computes. At the end, a gradient may be open only
    /// if its worker waits.
    #[test]
    fn each_gradient_is_used_once_and_nobody_waits_for_ever(
        speeds in speeds(), changes in changes(), epoch in 1u64..8,
    ) {
        for mut policy in policies(epoch) {
            drive(&mut *policy, &speeds, &changes, 300, |_, ledger, clock| {
                for worker in 0..speeds.len() as Worker {
                    assert!(ledger.open(worker) <= u64::from(clock.waiting.contains(&worker)));
                }
            });
        }
    }

    #[test]
    fn everyone_gets_on_under_every_policy(speeds in speeds()) {
        for mut policy in policies(EPOCH.get()) {
            let ledger = drive(&mut *policy, &speeds, &[], 2000, |_, _, _| ());
            for worker in 0..speeds.len() as Worker {
                prop_assert!(ledger.settled[&worker] > 1, "{} of {:?}", worker, policy);
            }
        }
    }

    #[test]
    fn under_bsp_nobody_is_ever_a_round_ahead(speeds in speeds()) {
        let ledger = drive(&mut Bsp::new(EPOCH), &speeds, &[], 300, |policy, _, _| {
            let progress = policy.progress();
            let most = progress.workers().map(|worker| progress.iterations(worker)).max();
            assert!(most.unwrap() - progress.slowest().unwrap() <= 1);
        });
        for update in ledger.updates {
            prop_assert_eq!(update.len(), speeds.len());
            prop_assert!(update.iter().all(|part| part.weight == 1));
        }
    }

    #[test]
    fn under_asp_nobody_ever_waits(speeds in speeds(), changes in changes()) {
        drive(&mut Asp::new(EPOCH), &speeds, &changes, 300, |_, _, clock| assert!(clock.waiting.is_empty()));
    }

    #[test]
    fn under_ssp_whoever_computes_is_within_the_bound(
        speeds in speeds(), changes in changes(), bound in 0u64..6,
    ) {
        let mut waited = false;
        drive(&mut Ssp::new(EPOCH, bound), &speeds, &changes, 300, |policy, _, clock| {
            let progress = policy.progress();
            for worker in progress.workers().filter(|&worker| clock.computes(worker)) {
                assert!(progress.iterations(worker) <= progress.slowest().unwrap() + bound);
            }
            waited |= !clock.waiting.is_empty();
        });
        // The other checks would also pass with a bound under which no worker ever waits.
        let steady = changes.is_empty() && speeds.iter().max() > speeds.iter().min().map(|s| s * 8).as_ref();
        prop_assert!(waited || !steady);
    }

    /// If another server has released a worker, the policy releases it at once, and loses none of its
    /// gradients.
    #[test]
    fn an_urged_worker_of_the_group_goes_on(speeds in speeds(), urge_every in 1usize..20) {
        let mut policy = A2s::new(EPOCH, A2s::DEFAULT_SLACK, Spread::Total);
        let (mut clock, mut ledger) = (Clock::new(&speeds), Ledger::new());
        for worker in 0..speeds.len() as Worker {
            let actions = policy.join(worker, 0);
            ledger.settle(&actions, &mut clock);
        }
        for arrival in 0..500 {
            let worker = clock.arrival().unwrap();
            *ledger.arrived.entry(worker).or_default() += 1;
            let actions = policy.arrive(worker, clock.instant());
            ledger.settle(&actions, &mut clock);
            if arrival % urge_every == 0 {
                let actions = policy.urge(worker);
                ledger.settle(&actions, &mut clock);
                prop_assert!(!clock.waiting.contains(&worker));
            }
        }
    }
}

#[test]
fn strangers_change_nothing() {
    for mut policy in policies(5) {
        policy.join(1, 0);
        assert_eq!(policy.arrive(7, Instant::now()), []);
        assert_eq!(policy.leave(7), []);
        assert_eq!(policy.urge(7), []);
        assert_eq!(policy.progress().workers().collect::<Vec<_>>(), [1]);
    }
}

#[test]
fn who_joins_late_does_not_hold_up_the_others() {
    let mut policy = Ssp::new(EPOCH, 3);
    policy.join(0, 0);
    for _ in 0..100 {
        assert!(policy.arrive(0, Instant::now()).contains(&Action::Release(0)));
    }
    assert_eq!(policy.join(1, 0), [Action::Release(1)]);
    assert_eq!(policy.progress().iterations(1), 100);
    assert!(policy.arrive(0, Instant::now()).contains(&Action::Release(0)));
}

#[test]
fn the_group_is_the_fastest_waits_and_weighs_by_iterations() {
    let mut policy = A2s::new(EPOCH, A2s::DEFAULT_SLACK, Spread::Total);
    let mut groups = Vec::new();
    let mut together = Vec::new();
    let ledger = drive(&mut policy, &STEP_TIMES, &[], 600, |policy, ledger, _| {
        let group: Vec<_> = policy.group().into_iter().collect();
        if groups.last() != Some(&group) {
            groups.push(group);
        }
        if let Some(update) = ledger.updates.last().filter(|update| update.len() > 1) {
            let weight = |part: &WeightedGradient| (part.weight, policy.progress().iterations(part.worker));
            together.push(update.iter().map(weight).collect::<Vec<_>>());
        }
    });
    // When the slowest worker has done one epoch, the fastest have done four, so the three fastest form
    // the group. Later all workers except the slowest belong to it.
    let [first, second, third] = [vec![], vec![0, 1, 2], vec![0, 1, 2, 3, 4]];
    assert_eq!(groups[..3], [first, second, third], "{groups:?}");
    assert_eq!(groups.last().unwrap()[..], [0, 1, 2, 3, 4, 5, 6]);
    assert!(ledger.updates.len() < 500, "{} updates of 600 gradients", ledger.updates.len());
    assert!(together.len() > 20);
}

/// Runs on the virtual clock, and returns the sum of all waiting times.
fn waited(policy: &mut dyn Policy, gradients: usize) -> u64 {
    let mut total = 0;
    let mut before = 0;
    let mut waiting = 0;
    drive(policy, &STEP_TIMES, &[], gradients, |_, _, clock| {
        total += waiting * (clock.now - before);
        (before, waiting) = (clock.now, clock.waiting.len() as u64);
    });
    total
}

#[test]
fn under_dssp_nobody_is_further_ahead_than_the_most_and_less_is_waited_than_under_ssp() {
    let (bound, most) = (2, 9);
    let mut beyond = false;
    drive(&mut Dssp::new(EPOCH, bound, most), &STEP_TIMES, &[], 800, |policy, _, clock| {
        let progress = policy.progress();
        for worker in progress.workers().filter(|&worker| clock.computes(worker)) {
            let ahead = progress.iterations(worker) - progress.slowest().unwrap();
            assert!(ahead <= most, "worker {worker} is {ahead} ahead");
            beyond |= ahead > bound;
        }
    });
    assert!(beyond, "credit was never used");
    let (dynamic, fixed) =
        (waited(&mut Dssp::new(EPOCH, bound, most), 800), waited(&mut Ssp::new(EPOCH, bound), 800));
    assert!(dynamic < fixed, "waited {dynamic} of {fixed} under SSP");
}

#[test]
fn dssp_without_credit_is_ssp() {
    let updates = |policy: &mut dyn Policy| drive(policy, &STEP_TIMES, &[], 500, |_, _, _| ()).updates;
    assert_eq!(updates(&mut Dssp::new(EPOCH, 3, 3)), updates(&mut Ssp::new(EPOCH, 3)));
}

#[test]
fn sync_switch_is_synchronous_for_its_epochs_and_asynchronous_then() {
    let mut rates = Vec::new();
    let mut policy = SyncSwitch::new(EPOCH, 2);
    let ledger = drive(&mut policy, &STEP_TIMES, &[], 400, |policy, _, _| rates.push(policy.rate()));
    let rounds = 2 * EPOCH.get() as usize;
    assert!(ledger.updates[..rounds].iter().all(|update| update.len() == STEP_TIMES.len()));
    assert!(ledger.updates[rounds..].iter().all(|update| update.len() == 1));
    // The last gradient of the last round still belongs to the synchronous phase.
    let switch = rounds * STEP_TIMES.len();
    assert!(rates[..switch].iter().all(|&rate| rate == 1.0));
    assert!(rates[switch..].iter().all(|&rate| rate == 1.0 / 8.0));
}

/// With the total spread, all workers except the slowest are in the group in the end. With the recent
/// spread, the size of the group depends only on the speeds.
#[test]
fn a_group_by_the_recent_spread_stays_as_large_as_the_speeds_make_it() {
    let mut sizes = Vec::new();
    let mut policy = A2s::new(EPOCH, A2s::DEFAULT_SLACK, Spread::Recent);
    drive(&mut policy, &STEP_TIMES, &[], 3000, |policy, _, _| sizes.push(policy.group().len()));
    let late = &sizes[sizes.len() / 2..];
    assert!(late.iter().all(|&size| (2..=4).contains(&size)), "{late:?}");
}
