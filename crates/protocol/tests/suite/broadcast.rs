//! Tests of broadcasts: only the root sends words, and all members receive them.

use tributary_protocol::{CollectiveError, OperationId, Sums};
use tributary_wire::Operator;

use crate::schedules::calm;
use crate::world::{Setup, World, broadcast_from};

const WORDS: usize = 100_000;
/// The words of a slice.
const WIDTH: usize = 256;
const WINDOW: u32 = 64;
const ROOT: usize = 2;
const STEPS: usize = 2_000_000;

fn setup(confidential: bool) -> Setup {
    Setup { confidential, ..calm(WINDOW) }
}

/// Returns the words of a member. They use all 32 bits.
fn words(rank: usize) -> Vec<i32> {
    (0..WORDS as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) ^ rank as u32).cast_signed()).collect()
}

fn world(setup: &Setup) -> World {
    let inputs: Vec<_> = (0..4).map(|rank| vec![broadcast_from(ROOT, words(rank))]).collect();
    World::new(setup, &inputs)
}

#[test]
fn the_root_sends_each_word_once_and_the_others_send_agreements_only() {
    for confidential in [false, true] {
        let mut world = world(&setup(confidential));
        world.run(STEPS).unwrap();
        let slices = WORDS.div_ceil(WIDTH) as u64;
        let groups = slices.div_ceil(u64::from(WINDOW) / 4 - 1);
        for (rank, host) in world.hosts.iter().enumerate() {
            assert_eq!(host.outcomes[&OperationId(0)].as_ref().unwrap().sums, Sums::I32(words(ROOT)));
            let sent: u64 = host.worker.as_ref().unwrap().sent_by_stripe().iter().sum();
            let relayed = if rank == ROOT { slices } else { 0 };
            assert_eq!(sent, groups + relayed, "rank {rank}");
        }
    }
}

#[test]
fn words_that_a_switch_has_changed_are_noticed() {
    for confidential in [false, true] {
        let mut world = world(&setup(confidential));
        world.fabric.switches[2].fault = Some(|operator, values, _| {
            if operator == Operator::Relay {
                values[17] ^= 1;
            }
        });
        world.run_unchecked(STEPS).unwrap();
        for host in &world.hosts {
            let outcome = &host.outcomes[&OperationId(0)];
            assert!(matches!(outcome, Err(CollectiveError::WrongSum { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn a_root_that_gives_the_broadcast_up_fails_it_on_all_members() {
    let mut world = world(&setup(false));
    world.hosts[ROOT].withhold_next();
    world.run(STEPS).unwrap();
    for host in &world.hosts {
        let outcome = &host.outcomes[&OperationId(0)];
        assert!(
            matches!(outcome, Err(CollectiveError::Withheld { rank, .. }) if usize::from(rank.get()) == ROOT),
            "{outcome:?}"
        );
    }
}

#[test]
fn members_with_different_roots_notice() {
    let inputs: Vec<_> = (0..4).map(|rank| vec![broadcast_from(rank / 3, words(rank))]).collect();
    let mut world = World::new(&setup(false), &inputs);
    world.run_unchecked(STEPS).unwrap();
    for host in &world.hosts {
        let outcome = &host.outcomes[&OperationId(0)];
        assert!(matches!(outcome, Err(CollectiveError::WrongSum { .. })), "{outcome:?}");
    }
}
