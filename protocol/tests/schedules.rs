//! Workers and a server over random schedules of losses, duplicates, reordering and reboots: never a wrong
//! sum, and nothing that stays stuck.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of it is a test")]

mod fabric;
mod generations;
mod world;

use half::{bf16, f16};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{AllReduce, CollectiveError, Downlink, GradientData, OperationId, Sums};
use tributary_wire::{Operator, Rank, Seq};
use world::{Churn, Faults, Outcome, Setup, World, operation};

const STEPS: usize = 60_000;

/// Shapes of trees: parents, which switches aggregate, and the switch of each rank.
fn trees() -> impl Strategy<Value = (Vec<Option<usize>>, Vec<bool>, Vec<usize>)> {
    let two_tier = vec![None, Some(0), Some(0)];
    let three_tier = vec![None, Some(0), Some(0), Some(1), Some(1), Some(2)];
    prop_oneof![
        Just((vec![None], vec![true], vec![0, 0])),
        Just((vec![None], vec![false], vec![0, 0, 0])),
        Just((two_tier.clone(), vec![true; 3], vec![1, 1, 2, 2])),
        Just((two_tier.clone(), vec![true; 3], vec![1, 2, 2, 0])),
        Just((two_tier, vec![false, true, true], vec![1, 1, 2, 2])),
        Just((three_tier.clone(), vec![true; 6], vec![3, 3, 4, 5, 5])),
        Just((three_tier, vec![true, false, true, true, true, true], vec![3, 3, 4, 5, 5])),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    let loss = prop_oneof![Just(0.0), Just(0.05), Just(0.3)];
    let reboots = prop_oneof![Just(0.0), Just(0.01)];
    let damage = prop_oneof![3 => Just(0.0), 1 => Just(0.02)];
    let late = prop_oneof![Just(0.0), Just(0.03)];
    (loss, prop_oneof![Just(0.0), Just(0.2)], late, reboots, damage).prop_map(
        |(loss, duplicates, late, reboots, damage)| {
            let damaged = Faults::NONE.damaged;
            Faults { loss, duplicates, late, reboots, damage, damaged }
        },
    )
}

fn setups() -> impl Strategy<Value = Setup> {
    let start = prop_oneof![Just(Seq::FIRST), (0u32..30).prop_map(|before| Seq(u32::MAX - before))];
    let downlink = prop_oneof![Just(Downlink::Multicast), Just(Downlink::Unicast)];
    (any::<u64>(), trees(), 0u32..4, start, downlink, faults(), any::<[bool; 2]>()).prop_map(
        |(
            seed,
            (parents, aggregates, homes),
            window_bits,
            start,
            downlink,
            faults,
            [reads, confidential],
        )| {
            let (window, churn) = (1 << window_bits, Churn::NONE);
            Setup {
                seed,
                parents,
                aggregates,
                homes,
                window,
                start,
                downlink,
                faults,
                churn,
                reads,
                confidential,
            }
        },
    )
}

/// Fewer than `most` random operations, the same shapes for everyone.
fn inputs(setup: &Setup, most: usize) -> Vec<Vec<AllReduce>> {
    let mut rng = ChaCha8Rng::seed_from_u64(setup.seed ^ 1);
    let shapes: Vec<(usize, u8)> = (0..rng.random_range(1..most))
        .map(|_| ([0, 1, 255, 256, 257, 1000, 2000][rng.random_range(0..7)], rng.random_range(0..4)))
        .collect();
    let worker = |_: &usize| {
        let data = |&(len, kind): &(usize, u8)| {
            let floats: Vec<f32> = (0..len).map(|_| rng.random_range(-1.0..1.0)).collect();
            let data = match kind {
                0 => GradientData::F32(floats),
                1 => GradientData::F16(floats.into_iter().map(|x| f16::from_f32(x).to_f32()).collect()),
                2 => GradientData::BF16(floats.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect()),
                _ => GradientData::I32((0..len).map(|_| rng.random_range(-1000..1000)).collect()),
            };
            operation("layer", data, rng.random_range(0..4))
        };
        shapes.iter().map(data).collect()
    };
    setup.homes.iter().map(worker).collect()
}

/// Runs to the end; every operation must be completed, and right.
fn assert_right(world: &mut World, inputs: &[Vec<AllReduce>]) {
    world.run(STEPS).unwrap();
    for id in (0..inputs[0].len() as u64).map(OperationId) {
        assert!(world.ledger.is_checked(id), "operation {} has not been completed by all", id.0);
    }
    world.compare_read().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_right_whatever_the_network_does(setup in setups()) {
        let inputs = inputs(&setup, 4);
        let mut world = World::new(&setup, &inputs);
        assert_right(&mut world, &inputs);
    }
}

/// A tree of three switches with four workers and no faults but those of the test.
fn calm(window: u32) -> Setup {
    Setup {
        seed: 4,
        parents: vec![None, Some(0), Some(0)],
        aggregates: vec![true; 3],
        homes: vec![1, 1, 2, 2],
        window,
        start: Seq::FIRST,
        downlink: Downlink::Multicast,
        faults: Faults::NONE,
        churn: Churn::NONE,
        reads: false,
        confidential: false,
    }
}

fn outcomes(setup: &Setup, inputs: &[Vec<AllReduce>], prepare: impl FnOnce(&mut World)) -> Vec<Outcome> {
    let mut world = World::new(setup, inputs);
    prepare(&mut world);
    world.run_unchecked(10 * STEPS).unwrap();
    world.hosts.iter().map(|host| host.outcomes[&OperationId(0)].clone()).collect()
}

fn floats(ranks: usize, len: usize) -> Vec<Vec<AllReduce>> {
    let data = |rank: usize| GradientData::F32((0..len).map(|i| (i + rank) as f32 * 0.25 - 9.0).collect());
    (0..ranks).map(|rank| vec![operation("conv1.weight", data(rank), 1)]).collect()
}

#[test]
fn a_switch_that_adds_wrongly_is_noticed() {
    let faults: [fabric::Fault; 5] = [
        |_, values, _| values[17] = values[17].wrapping_add(1),
        |_, values, _| values[0] ^= i32::MIN,
        |_, values, _| values.swap(1, 2),
        |_, _, tally| tally.contributors += 1,
        |_, _, tally| tally.tag.low = tally.tag.low.wrapping_add(1),
    ];
    for fault in faults {
        let outcomes =
            outcomes(&calm(4), &floats(4, 1000), |world| world.fabric.switches[2].fault = Some(fault));
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(matches!(error, CollectiveError::WrongSum { .. }), "{error}");
            assert!(error.to_string().contains("conv1.weight"), "{error}");
        }
    }
}

#[test]
fn a_server_that_reads_notices_what_the_workers_notice() {
    let mut inputs = floats(4, 1000);
    inputs.iter_mut().for_each(|operations| operations.push(operations[0].clone()));
    inputs[3][0].data = GradientData::F32(vec![f32::NAN; 1000]);
    let mut world = World::new(&Setup { reads: true, ..calm(4) }, &inputs);
    world.fabric.switches[2].fault = Some(|_, values, _| values[17] = values[17].wrapping_add(1));
    world.run_unchecked(STEPS).unwrap();
    assert!(
        matches!(world.read[&OperationId(0)], Err(CollectiveError::NotFinite { rank, .. }) if rank == Rank::new(3))
    );
    assert_eq!(world.read[&OperationId(0)], world.hosts[0].outcomes[&OperationId(0)]);
    assert!(matches!(world.read[&OperationId(1)], Err(CollectiveError::WrongSum { .. })));
}

#[test]
fn a_damaged_bound_is_noticed_by_everyone() {
    // MAX values are in no tag, but the scale that follows from them is part of the SUM slices'. Bounds that nobody
    // can have sent are asked for again; then nothing is lost.
    let inputs = floats(4, 256 * 255);
    let right = outcomes(&calm(4), &inputs, |_| {});
    let mut noticed = 0;
    for seed in 0..12 {
        let faults = Faults { damage: 1.0, damaged: Operator::Max, ..Faults::NONE };
        let outcomes = outcomes(&Setup { seed, faults, ..calm(4) }, &inputs, |_| {});
        if outcomes != right {
            // One whose damaged copy accuses somebody of NaN believes that; the others see a wrong sum.
            let wrong_sum = |outcome: &Outcome| matches!(outcome, Err(CollectiveError::WrongSum { .. }));
            assert!(outcomes.iter().all(Result::is_err) && outcomes.iter().any(wrong_sum), "seed {seed}");
            noticed += 1;
        }
    }
    assert!((1..12).contains(&noticed), "{noticed}");
}

#[test]
fn a_switch_that_loses_weight_is_noticed() {
    let outcomes = outcomes(&calm(4), &floats(4, 300), |world| {
        world.fabric.switches[0].fault = Some(|_, _, tally| tally.weight -= 2);
    });
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
}

#[test]
fn bounds_that_a_switch_has_raised_for_all_members_alike_are_noticed() {
    // Everyone would scale by them, and lose bits, or all of the values, without noticing.
    let faults: [fabric::Fault; 2] = [
        |operator, values, _| raise_bounds(operator, values, 1),
        |operator, values, _| raise_bounds(operator, values, 100),
    ];
    for fault in faults {
        let outcomes =
            outcomes(&calm(4), &floats(4, 300), |world| world.fabric.switches[0].fault = Some(fault));
        for outcome in outcomes {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("its scale follows from a bound that no member has sent"), "{error}");
        }
    }
}

fn raise_bounds(operator: Operator, values: &mut [i32], by: i32) {
    if operator == Operator::Max {
        values.iter_mut().filter(|bound| **bound > 0).for_each(|bound| *bound += by);
    }
}

#[test]
fn members_that_run_different_operations_notice() {
    let changes: [fn(&mut AllReduce); 3] = [
        |operation| operation.data = GradientData::F32(vec![0.5; 301]),
        |operation| operation.data = GradientData::BF16(vec![1.0; 300]),
        |operation| operation.name = "conv2.weight".to_owned(),
    ];
    for change in changes {
        let mut inputs = floats(4, 300);
        change(&mut inputs[2][0]);
        for outcome in outcomes(&calm(4), &inputs, |_| {}) {
            assert!(matches!(outcome, Err(CollectiveError::WrongSum { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn not_a_number_fails_everywhere_and_names_tensor_and_rank() {
    for bad in [f32::NAN, f32::NEG_INFINITY] {
        // Long enough for several MAX slices, so that SUM slices are under way when the news comes.
        let mut inputs = floats(4, 300 * 256);
        for operations in &mut inputs {
            operations.push(operation("next", GradientData::I32(vec![1; 700]), 1));
        }
        let GradientData::F32(values) = &mut inputs[2][0].data else { unreachable!() };
        values[290 * 256 + 3] = bad;
        let setup = Setup { faults: Faults { loss: 0.02, ..Faults::NONE }, ..calm(64) };
        let mut world = World::new(&setup, &inputs);
        world.run_unchecked(2_000_000).unwrap();
        for outcomes in world.hosts.iter().map(|host| &host.outcomes) {
            let error = CollectiveError::NotFinite {
                tensor: "conv1.weight".to_owned(),
                rank: Rank::new(2),
                first: 290 * 256,
                end: 291 * 256,
            };
            assert_eq!(outcomes[&OperationId(0)], Err(error));
            let next = outcomes[&OperationId(1)].as_ref().expect("the job goes on");
            assert_eq!(next.sums, Sums::I32(vec![4; 700]));
        }
    }
}

#[test]
fn integers_that_might_overflow_are_refused() {
    let of = |value: i32| -> Vec<Vec<AllReduce>> {
        (0..4).map(|_| vec![operation("counts", GradientData::I32(vec![value; 3]), 1)]).collect()
    };
    for outcome in outcomes(&calm(2), &of(1 << 29), |_| {}) {
        assert!(matches!(outcome, Err(CollectiveError::Overflow { largest: 0x2000_0000, weight: 4, .. })));
    }
    for outcome in outcomes(&calm(2), &of((1 << 29) - 1), |_| {}) {
        assert_eq!(outcome.unwrap().sums, Sums::I32(vec![i32::MAX - 3; 3]));
    }
    for outcome in outcomes(&calm(2), &of(i32::MIN), |_| {}) {
        assert!(matches!(outcome, Err(CollectiveError::Overflow { .. })));
    }
}

#[test]
fn who_has_nothing_to_give_changes_nothing() {
    let mut inputs = floats(4, 600);
    inputs[1][0] = operation("conv1.weight", GradientData::F32(vec![f32::NAN; 600]), 0);
    let mut world = World::new(&calm(8), &inputs);
    assert_right(&mut world, &inputs);
    let reduced = world.hosts[0].outcomes[&OperationId(0)].as_ref().unwrap();
    assert_eq!((reduced.weight, reduced.contributors), (3, 4));
    assert_eq!(reduced.means().len(), 600);
}
