//! Workers and a server over random schedules of losses, duplicates, reordering and reboots: never a wrong
//! sum, and nothing that stays stuck.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "all of it is a test")]

mod fabric;
mod world;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{
    AllReduce, CollectiveError, Downlink, GradientData, OperationId, Reduced, Sums, bf16, f16,
};
use tributary_wire::{Operator, Rank, Seq};
use world::{Faults, Outcome, Setup, World, operation};

const STEPS: usize = 60_000;

/// Shapes of trees: parents, which switches add up, and the switch of each rank.
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
    (loss, prop_oneof![Just(0.0), Just(0.2)], reboots, damage).prop_map(
        |(loss, duplicates, reboots, damage)| Faults { loss, duplicates, reboots, damage, ..Faults::NONE },
    )
}

fn setups() -> impl Strategy<Value = Setup> {
    let start = prop_oneof![Just(Seq::FIRST), (0u32..30).prop_map(|before| Seq(u32::MAX - before))];
    let downlink = prop_oneof![Just(Downlink::Multicast), Just(Downlink::Unicast)];
    (any::<u64>(), trees(), 0u32..4, start, downlink, faults(), any::<bool>()).prop_map(
        |(seed, (parents, aggregates, homes), window_bits, start, downlink, faults, reads)| {
            let window = 1 << window_bits;
            Setup { seed, parents, aggregates, homes, window, start, downlink, faults, reads }
        },
    )
}

/// Random operations, the same shapes for everyone.
fn inputs(setup: &Setup) -> Vec<Vec<AllReduce>> {
    let mut rng = ChaCha8Rng::seed_from_u64(setup.seed ^ 1);
    let shapes: Vec<(usize, u8)> = (0..rng.random_range(1..4))
        .map(|_| ([0, 1, 255, 256, 257, 1000, 2000][rng.random_range(0..7)], rng.random_range(0..4)))
        .collect();
    let worker = |_: &usize| {
        let data = |&(len, kind): &(usize, u8)| {
            let floats: Vec<f32> = (0..len).map(|_| rng.random_range(-1.0..1.0)).collect();
            let data = match kind {
                0 => GradientData::F32(floats),
                1 => GradientData::F16(floats.into_iter().map(f16::from_f32).collect()),
                2 => GradientData::BF16(floats.into_iter().map(bf16::from_f32).collect()),
                _ => GradientData::I32((0..len).map(|_| rng.random_range(-1000..1000)).collect()),
            };
            operation("layer", data, rng.random_range(0..4))
        };
        shapes.iter().map(data).collect()
    };
    setup.homes.iter().map(worker).collect()
}

/// One worker's contribution to each element, weighted.
fn contribution(operation: &AllReduce) -> Vec<f64> {
    let floats: Vec<f64> = match &operation.data {
        GradientData::F32(values) => values.iter().map(|&x| x.into()).collect(),
        GradientData::F16(values) => values.iter().map(|x| x.to_f64()).collect(),
        GradientData::BF16(values) => values.iter().map(|x| x.to_f64()).collect(),
        GradientData::I32(values) => values.iter().map(|&x| x.into()).collect(),
    };
    floats.into_iter().map(|x| x * f64::from(operation.weight)).collect()
}

/// Checks one result against the sums over those who take part in each run.
fn assert_right(reduced: &Reduced, operations: &[AllReduce], leaver: Option<usize>) {
    let mut at = 0;
    for run in &reduced.runs {
        let is_in = |rank: usize| run.contributors as usize == operations.len() || Some(rank) != leaver;
        let inside: Vec<_> = operations.iter().enumerate().filter(|&(rank, _)| is_in(rank)).collect();
        assert_eq!(inside.len(), run.contributors as usize);
        assert_eq!(inside.iter().map(|(_, operation)| operation.weight).sum::<u32>(), run.weight);
        let contributions: Vec<_> = inside.iter().map(|(_, operation)| contribution(operation)).collect();
        for element in at..at + run.len {
            let exact: f64 = contributions.iter().map(|values| values[element]).sum();
            match &reduced.sums {
                Sums::I32(sums) => assert_eq!(f64::from(sums[element]), exact),
                Sums::F32(sums) => {
                    assert!((f64::from(sums[element]) - exact).abs() < 3e-6, "{} {exact}", sums[element]);
                }
            }
        }
        at += run.len;
    }
    assert_eq!(at, reduced.sums.len());
    assert_eq!(at, operations[0].data.len());
}

fn assert_all_right(world: &World, inputs: &[Vec<AllReduce>], leaver: Option<usize>) {
    let stayed: Vec<usize> = (0..inputs.len()).filter(|&rank| Some(rank) != leaver).collect();
    for (id, _) in inputs[0].iter().enumerate() {
        let operations: Vec<AllReduce> = inputs.iter().map(|of_rank| of_rank[id].clone()).collect();
        let outcome = |rank: usize| &world.outcomes[rank][&OperationId(id as u64)];
        for &rank in &stayed {
            assert_eq!(outcome(rank), outcome(stayed[0]), "not the same bits on all workers");
        }
        if let Some(read) = world.read.get(&OperationId(id as u64)) {
            assert_eq!(read, outcome(stayed[0]), "not the same bits on the server");
        } else {
            assert!(!world.reads, "the server has not read an operation that everyone has finished");
        }
        assert_right(outcome(stayed[0]).as_ref().expect("completes"), &operations, leaver);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_right_whatever_the_network_does(setup in setups()) {
        let inputs = inputs(&setup);
        let mut world = World::new(&setup, &inputs);
        prop_assert!(world.run(STEPS, |_, _| {}), "stuck");
        assert_all_right(&world, &inputs, None);
    }

    #[test]
    fn sums_are_right_across_generations(setup in setups(), at in 1usize..2000, leaves in any::<bool>()) {
        let inputs = inputs(&setup);
        let leaver = (leaves && inputs.len() > 1).then_some(inputs.len() - 1);
        let mut world = World::new(&setup, &inputs);
        let done = world.run(STEPS, |world, step| {
            if step == at || step == at + 500 {
                world.change_generation(leaver.map(|rank| Rank::new(rank as u16)));
            }
        });
        prop_assert!(done, "stuck");
        assert_all_right(&world, &inputs, leaver);
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
        reads: false,
    }
}

fn outcomes(setup: &Setup, inputs: &[Vec<AllReduce>], prepare: impl FnOnce(&mut World)) -> Vec<Outcome> {
    let mut world = World::new(setup, inputs);
    prepare(&mut world);
    assert!(world.run(STEPS, |_, _| {}), "stuck");
    world.outcomes.iter().map(|of_rank| of_rank[&OperationId(0)].clone()).collect()
}

fn floats(ranks: usize, len: usize) -> Vec<Vec<AllReduce>> {
    let data = |rank: usize| GradientData::F32((0..len).map(|i| (i + rank) as f32 * 0.25 - 9.0).collect());
    (0..ranks).map(|rank| vec![operation("conv1.weight", data(rank), 1)]).collect()
}

#[test]
fn a_switch_that_adds_wrongly_is_noticed() {
    let faults: [fabric::Fault; 4] = [
        |values, _| values[17] = values[17].wrapping_add(1),
        |values, _| values[0] ^= i32::MIN,
        |_, tally| tally.contributors += 1,
        |_, tally| tally.check = tally.check.wrapping_add(1),
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
    world.fabric.switches[2].fault = Some(|values, _| values[17] = values[17].wrapping_add(1));
    assert!(world.run(STEPS, |_, _| {}), "stuck");
    assert!(
        matches!(world.read[&OperationId(0)], Err(CollectiveError::NotFinite { rank, .. }) if rank == Rank::new(3))
    );
    assert_eq!(world.read[&OperationId(0)], world.outcomes[0][&OperationId(0)]);
    assert!(matches!(world.read[&OperationId(1)], Err(CollectiveError::WrongSum { .. })));
}

#[test]
fn a_damaged_bound_is_noticed_by_everyone() {
    // MAX values are in no check, but the scale that follows from them is part of the SUM slices'.
    let setup = Setup { faults: Faults { damage: 0.3, damaged: Operator::Max, ..Faults::NONE }, ..calm(4) };
    for outcome in outcomes(&setup, &floats(4, 256 * 255), |_| {}) {
        assert!(matches!(outcome, Err(CollectiveError::WrongSum { .. })), "{outcome:?}");
    }
}

#[test]
fn a_switch_that_loses_weight_is_noticed() {
    let outcomes = outcomes(&calm(4), &floats(4, 300), |world| {
        world.fabric.switches[0].fault = Some(|_, tally| tally.weight -= 2);
    });
    // Nobody can tell that the MAX slice's weight is too small, but it must cover one's own...
    assert!(outcomes.iter().all(|outcome| outcome.is_err() || outcome.as_ref().unwrap().weight == 2));
}

#[test]
fn members_that_run_different_operations_notice() {
    let changes: [fn(&mut AllReduce); 2] = [
        |operation| operation.data = GradientData::F32(vec![0.5; 301]),
        |operation| operation.data = GradientData::BF16(vec![bf16::ONE; 300]),
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
        assert!(world.run(2_000_000, |_, _| {}), "stuck");
        for outcomes in &world.outcomes {
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
    let outcomes = outcomes(&calm(8), &inputs, |_| {});
    let reduced = outcomes[0].as_ref().unwrap();
    assert_eq!((reduced.weight, reduced.contributors), (3, 4));
    assert_right(
        reduced,
        &[
            inputs[0][0].clone(),
            operation("", GradientData::F32(vec![0.0; 600]), 0),
            inputs[2][0].clone(),
            inputs[3][0].clone(),
        ],
        None,
    );
    assert_eq!(reduced.means().len(), 600);
}
