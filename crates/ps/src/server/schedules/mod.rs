//! Random schedules of a job whose group has a fabric, compared with the same job without a fabric.
//!
//! The tests check that the fabric does not change the effect of the gradients, and that no worker
//! waits forever.

mod world;

use proptest::prelude::*;

use super::stats::JobStats;
use crate::policy::Worker;
use world::{MOST, NodeState, World, coordinate, spec};

/// Picks a worker; workers early in the list are picked more often, so that they are faster.
fn skewed(among: &[Worker], pick: u16) -> Option<Worker> {
    let share = f64::from(pick) / 65536.0;
    among.get((share * share * among.len() as f64) as usize).copied()
}

fn choices() -> impl Strategy<Value = Vec<(u8, u16)>> {
    prop::collection::vec((any::<u8>(), any::<u16>()), 1..400)
}

proptest! {
    /// If no worker leaves, the job makes the same updates as without a fabric, possibly in another order.
    #[test]
    fn a_fabric_changes_when_gradients_are_used_and_nothing_else(
        workers in 3usize..8, able in 0usize..8, epoch in 1u64..4, slack in 0u64..7, choices in choices(),
    ) {
        let spec = spec(workers, epoch, slack, 0.9);
        let (mut world, mut plain) = (World::new(spec.clone(), able), World::new(spec, 0));
        for (choice, pick) in choices {
            let some = usize::from(pick);
            match choice {
                0..130 => if let Some(worker) = skewed(&world.computing(), pick) {
                    world.arrive(worker, choice < 10);
                    plain.arrive(worker, true);
                },
                130..170 => world.open(),
                170..220 => world.deliver(some, false),
                220..230 => if let Some(&worker) = world.asked().first() { world.answer(worker) },
                230..236 => world.fail(some),
                236..240 => world.deliver(some, true),
                240..246 if world.asked().is_empty() => world.wait(),
                246..250 => {
                    let worker = (some % workers) as Worker;
                    let outputs = world.job.urge(worker, &mut world.stats);
                    world.settle(outputs);
                    let outputs = plain.job.urge(worker, &mut plain.stats);
                    plain.settle(outputs);
                }
                _ => {}
            }
        }
        world.drain();
        prop_assert_eq!(world.job.updates(), plain.job.updates());
        for (own, other) in world.job.parameters().iter().zip(plain.job.parameters()) {
            prop_assert!((own - other).abs() < 1e-6, "{} and {}", own, other);
        }
        prop_assert_eq!(world.computing(), plain.computing());
    }

    /// Workers come and go, some do not answer requests, and the server stands still. The parameters must
    /// contain exactly the gradients that the server counts as used, each once, and the present workers
    /// must make progress.
    #[test]
    fn whoever_goes_no_gradient_is_used_twice_and_nobody_waits_for_ever(
        workers in 3usize..8, epoch in 1u64..4, slack in 0u64..7, choices in choices(),
    ) {
        let mut world = World::new(spec(workers, epoch, slack, 1.0), workers);
        for (choice, pick) in choices {
            let some = usize::from(pick);
            match choice {
                0..120 => if let Some(worker) = skewed(&world.computing(), pick) {
                    world.arrive(worker, choice < 10);
                },
                120..160 => world.open(),
                160..205 => world.deliver(some, false),
                205..215 => if let Some(&worker) = world.asked().first() { world.answer(worker) },
                215..219 => world.fail(some),
                219..222 => world.deliver(some, true),
                222..226 => world.wait(),
                226..228 => world.stand_still(),
                _ => {
                    let worker = (some % workers) as Worker;
                    if world.node(worker).state == NodeState::Gone { world.come(worker) } else { world.go(worker) }
                }
            }
        }
        world.drain();
        let gone = world.those(|node| node.state == NodeState::Gone);
        gone.into_iter().for_each(|worker| world.come(worker));
        // Each worker's last gradient is either used, or in the group's list, which other gradients can
        // complete.
        for _ in 0..3 * workers * workers {
            if let Some(&worker) = world.computing().first() {
                world.arrive(worker, false);
                world.drain();
            }
        }
        let used = world.job.snapshot().used;
        let mut total = 0.0;
        for worker in 0..workers as Worker {
            let used = used.get(&worker).copied().unwrap_or(0);
            for iteration in 0..MOST as u64 {
                let share = -world.job.parameters()[coordinate(worker, iteration)];
                total += f64::from(share);
                prop_assert_eq!(share > 0.0, iteration < used, "{} {}: {}", worker, iteration, share);
            }
        }
        prop_assert!((total - world.job.updates() as f64).abs() < 1e-3);
    }
}

/// The fast workers form a group as soon as the policy ranks, and the fabric delivers their sums.
#[test]
fn a_healthy_fabric_carries_the_groups_gradients() {
    let mut world = World::new(spec(4, 2, 1, 1.0), 4);
    for _ in 0..MOST / 6 {
        // Worker 3 is slow. While workers 0 and 1 wait for worker 2, their group's slack is used up.
        for worker in [0, 1, 3, 2, 0, 1, 0, 1, 2, 0, 1, 2] {
            world.open();
            if world.computing().contains(&worker) {
                world.arrive(worker, false);
            }
            world.deliver(0, false);
        }
    }
    let JobStats { fabric_rounds, fabric_zeros, fabric_fallbacks, .. } = world.stats;
    assert!(fabric_rounds > 5 && fabric_zeros > 0, "{:?}", world.stats);
    assert_eq!(fabric_fallbacks, 0);
}
