//! Tests of workers and a server with random losses, duplicates, reordering and reboots.
//! There must never be a wrong sum, and the job must never get stuck.

use half::{bf16, f16};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{AllReduce, CollectiveError, Downlink, GradientData, NotFinite, OperationId, Sums};
use tributary_wire::{Operator, Rank, Seq};

use crate::fabric;
use crate::world::{
    Churn, Faults, OperationOutcome, Setup, World, broadcast, broadcast_from, operation, parts,
    reduce_scatter,
};

const STEPS: usize = 120_000;

/// Generates shapes of trees:
/// the switches' parents, the switches that aggregate, and the switch of each rank.
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

pub(crate) fn setups() -> impl Strategy<Value = Setup> {
    let start = prop_oneof![Just(Seq::FIRST), (0u32..30).prop_map(|before| Seq(u32::MAX - before))];
    let downlink = prop_oneof![Just(Downlink::Multicast), Just(Downlink::Unicast)];
    (any::<u64>(), trees(), 0u32..4, start, downlink, faults(), any::<[bool; 3]>()).prop_map(
        |(
            seed,
            (parents, aggregates, homes),
            window_bits,
            start,
            downlink,
            faults,
            [reads, confidential, is_striped],
        )| {
            let (window, churn) = (1 << window_bits, Churn::NONE);
            // A server that reads reads jobs of one stripe.
            let stripes = if is_striped && !reads && window > 1 { 2 } else { 1 };
            Setup {
                seed,
                parents,
                aggregates,
                homes,
                window,
                stripes,
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

/// Makes fewer than `most` random operations, with the same shapes on all members.
pub(crate) fn inputs(setup: &Setup, most: usize) -> Vec<Vec<AllReduce>> {
    let mut rng = ChaCha8Rng::seed_from_u64(setup.seed ^ 1);
    // If a member leaves, its further limbs may be missing. Then integers have no sum, and the sum of extreme floats is
    // unpredictable.
    let kinds = if setup.churn == Churn::NONE { 10 } else { 5 };
    let shapes: Vec<(usize, u8, Option<usize>, bool)> = (0..rng.random_range(1..most))
        .map(|_| {
            let len = match setup.stripes {
                // A large operation has elements in each stripe.
                2 if rng.random_bool(0.2) => rng.random_range(64 * 256..66 * 256),
                _ => [0, 1, 255, 256, 257, 1000, 2000][rng.random_range(0..7)],
            };
            // A window of one slice has no room for a broadcast.
            let is_broadcast = setup.window > setup.stripes && rng.random_bool(0.3);
            let root = is_broadcast.then(|| rng.random_range(0..2));
            (len, rng.random_range(0..kinds), root, rng.random_bool(0.3))
        })
        .collect();
    let worker = |_: &usize| {
        let data = |&(len, kind, root, scatters): &(usize, u8, Option<usize>, bool)| {
            if let Some(root) = root {
                return broadcast_from(root, (0..len).map(|_| rng.random()).collect());
            }
            let floats: Vec<f32> = (0..len).map(|_| rng.random_range(-1.0..1.0)).collect();
            // The values have very different magnitudes, and some of them are not finite.
            let mut wild = || -> f32 {
                match rng.random_range(0..200) {
                    0 => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][rng.random_range(0..3)],
                    1..20 => 0.0,
                    _ => rng.random_range(-1.0_f32..1.0) * 2f32.powi(rng.random_range(-140..120)),
                }
            };
            let data = match kind {
                0 => GradientData::F32(floats),
                1 => GradientData::F16(floats.into_iter().map(|x| f16::from_f32(x).to_f32()).collect()),
                2 => GradientData::BF16(floats.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect()),
                3 => GradientData::I32((0..len).map(|_| rng.random_range(-1000..1000)).collect()),
                4 => {
                    GradientData::BF16Paired(floats.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect())
                }
                5 => GradientData::F32((0..len).map(|_| wild()).collect()),
                6 => GradientData::F32Exact((0..len).map(|_| wild()).collect()),
                7 => GradientData::BF16Paired((0..len).map(|_| bf16::from_f32(wild()).to_f32()).collect()),
                8 => GradientData::F64((0..len).map(|_| f64::from(wild()) * 1e-150).collect()),
                _ => GradientData::I64((0..len).map(|_| rng.random_range(-(1 << 45)..1 << 45)).collect()),
            };
            let weight = rng.random_range(0..4);
            if scatters { reduce_scatter(data, weight) } else { operation("layer", data, weight) }
        };
        shapes.iter().map(data).collect()
    };
    setup.homes.iter().map(worker).collect()
}

/// Runs the world to the end. Every operation must be completed with the correct result.
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

/// Makes random operations of hosts that each have one to three processes.
fn inputs_of_processes(setup: &Setup, most: usize) -> Vec<Vec<Vec<AllReduce>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(setup.seed ^ 2);
    let processes: Vec<usize> = setup.homes.iter().map(|_| rng.random_range(1..4)).collect();
    let mut all = inputs(&Setup { homes: vec![0; processes.iter().sum()], ..setup.clone() }, most);
    let of_host = |processes: &usize| {
        let mut own: Vec<_> = all.drain(..processes).map(Vec::into_iter).collect();
        std::iter::from_fn(|| own.iter_mut().map(Iterator::next).collect()).collect()
    };
    processes.iter().map(of_host).collect()
}

/// Returns the outcomes of a job, by operation. All members have the same.
fn results(mut world: World, operations: usize) -> Vec<OperationOutcome> {
    world.run(STEPS).unwrap();
    let mut host = world.hosts.swap_remove(0);
    (0..operations as u64).map(|id| host.outcomes.remove(&OperationId(id)).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn sums_of_hosts_with_several_processes_are_right(setup in setups()) {
        let inputs = inputs_of_processes(&setup, 4);
        let operations = inputs[0].len() as u64;
        let mut world = World::of_processes(&setup, inputs);
        world.run(STEPS).unwrap();
        for id in (0..operations).map(OperationId) {
            prop_assert!(world.ledger.is_checked(id), "operation {} has not been completed by all", id.0);
        }
        world.compare_read().unwrap();
    }

    #[test]
    fn exact_sums_have_the_same_bits_with_a_process_a_host_and_with_several(setup in setups()) {
        let setup = Setup { faults: Faults::NONE, ..setup };
        let inputs = inputs_of_processes(&setup, 5);
        let operations = inputs[0].len();
        let together = results(World::of_processes(&setup, inputs.clone()), operations);
        let mut homes = Vec::new();
        let mut alone = Vec::new();
        for (home, operations) in setup.homes.iter().zip(&inputs) {
            for process in 0..operations[0].len() {
                homes.push(*home);
                alone.push(operations.iter().map(|parts| parts[process].clone()).collect());
            }
        }
        let apart = results(World::new(&Setup { homes, ..setup }, &alone), operations);
        for ((together, apart), inputs) in together.into_iter().zip(apart).zip(&inputs[0]) {
            let (together, apart) = (together.unwrap(), apart.unwrap());
            let bits = |sums: &Sums| match sums {
                Sums::F32(sums) => sums.iter().map(|sum| u64::from(sum.to_bits())).collect::<Vec<_>>(),
                Sums::F64(sums) => sums.iter().map(|sum| sum.to_bits()).collect(),
                Sums::I32(sums) => sums.iter().map(|sum| u64::from(sum.cast_unsigned())).collect(),
                Sums::I64(sums) => sums.iter().map(|sum| sum.cast_unsigned()).collect(),
            };
            prop_assert_eq!(together.weight, apart.weight);
            if parts(&inputs[0], 2).is_empty() {
                prop_assert_eq!(together.not_finite.map(|n| n.element), apart.not_finite.map(|n| n.element));
            }
            // A broadcast's root is another process, and so is a part's owner.
            let is_all_reduce = broadcast(&inputs[0]).is_none() && parts(&inputs[0], 2).is_empty();
            let is_rounded = matches!(inputs[0].data, GradientData::F32(_) | GradientData::BF16Paired(_));
            if !is_rounded && is_all_reduce {
                prop_assert_eq!(bits(&together.sums), bits(&apart.sums), "{:?}", inputs[0].data.element_type());
            }
        }
    }
}

/// Makes a tree of three switches with four workers, without faults except the test's own.
pub(crate) fn calm(window: u32) -> Setup {
    Setup {
        seed: 4,
        parents: vec![None, Some(0), Some(0)],
        aggregates: vec![true; 3],
        homes: vec![1, 1, 2, 2],
        window,
        stripes: 1,
        start: Seq::FIRST,
        downlink: Downlink::Multicast,
        faults: Faults::NONE,
        churn: Churn::NONE,
        reads: false,
        confidential: false,
    }
}

fn outcomes(
    setup: &Setup,
    inputs: &[Vec<AllReduce>],
    prepare: impl FnOnce(&mut World),
) -> Vec<OperationOutcome> {
    let mut world = World::new(setup, inputs);
    prepare(&mut world);
    if let Err(stuck) = world.run_unchecked(10 * STEPS) {
        // A member whose bounds differ has different slices, too. All members get an error, and the job cannot
        // continue.
        let mut outcomes = world.hosts.iter().map(|host| host.outcomes.get(&OperationId(0)));
        assert!(outcomes.all(|outcome| outcome.is_some_and(Result::is_err)), "{stuck}");
    }
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
        |_, _, totals| totals.contributors += 1,
        |_, _, totals| totals.tag.low = totals.tag.low.wrapping_add(1),
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
    // Element 7 has further limbs, and element 999 is not finite.
    inputs[3][0].data = GradientData::F32((0..1000).map(|i| if i == 7 { 1e-20 } else { 1e9 }).collect());
    if let GradientData::F32(values) = &mut inputs[2][0].data {
        values[999] = f32::INFINITY;
    }
    let mut world = World::new(&Setup { reads: true, ..calm(4) }, &inputs);
    world.run(STEPS).unwrap();
    assert_eq!(world.read[&OperationId(0)], world.hosts[0].outcomes[&OperationId(0)]);
    let mut world = World::new(&Setup { reads: true, ..calm(4) }, &inputs);
    world.fabric.switches[2].fault = Some(|operator, values, _| {
        if operator == Operator::Sum {
            values[17] = values[17].wrapping_add(1);
        }
    });
    world.run_unchecked(STEPS).unwrap();
    assert!(matches!(world.read[&OperationId(1)], Err(CollectiveError::WrongSum { .. })));
}

#[test]
fn a_damaged_bound_is_noticed_by_everyone() {
    // Tags do not cover MAX values, but the scale that follows from them is part of the SUM slices' tags. If no member
    // can have sent a bound, a worker requests it again, and nothing is lost.
    let inputs = floats(4, 256 * 62);
    let right = outcomes(&calm(4), &inputs, |_| {});
    let mut noticed = 0;
    for seed in 0..12 {
        let faults = Faults { damage: 1.0, damaged: Operator::Max, ..Faults::NONE };
        let outcomes = outcomes(&Setup { seed, faults, ..calm(4) }, &inputs, |_| {});
        if format!("{outcomes:?}") != format!("{right:?}") {
            // If a damaged copy reports NaN, its receiver accepts that; the other members detect a wrong sum.
            let wrong_sum =
                |outcome: &OperationOutcome| matches!(outcome, Err(CollectiveError::WrongSum { .. }));
            assert!(outcomes.iter().all(Result::is_err) && outcomes.iter().any(wrong_sum), "seed {seed}");
            noticed += 1;
        }
    }
    assert!((1..12).contains(&noticed), "{noticed}");
}

#[test]
fn a_switch_that_loses_weight_is_noticed() {
    let outcomes = outcomes(&calm(4), &floats(4, 300), |world| {
        world.fabric.switches[0].fault = Some(|_, _, totals| totals.weight -= 2);
    });
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
}

#[test]
fn bounds_that_a_switch_has_raised_for_all_members_alike_are_noticed() {
    // All members would use these bounds for their scales. They would lose some or all bits of their values,
    // undetected.
    let faults: [fabric::Fault; 2] = [
        |operator, values, _| raise_bounds(operator, values, 1),
        |operator, values, _| raise_bounds(operator, values, 90),
    ];
    for fault in faults {
        let outcomes =
            outcomes(&calm(4), &floats(4, 300), |world| world.fabric.switches[0].fault = Some(fault));
        for outcome in outcomes {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("a bound"), "{error}");
        }
    }
}

fn raise_bounds(operator: Operator, values: &mut [i32], by: i32) {
    if operator == Operator::Max {
        // The other half of a lane is a rank.
        values.iter_mut().filter(|lane| **lane > 0).for_each(|lane| *lane += by << 16);
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
fn what_is_not_finite_is_summed_as_ieee_754_has_it_and_reported() {
    // The operation has several MAX slices, so that SUM slices are under way when members learn of these values.
    let mut inputs = floats(4, 300 * 256);
    for operations in &mut inputs {
        operations.push(operation("next", GradientData::I32(vec![1; 700]), 1));
    }
    let at = 290 * 256 + 3;
    let mut put = |rank: usize, element: usize, value: f32| {
        let GradientData::F32(values) = &mut inputs[rank][0].data else { unreachable!() };
        values[element] = value;
    };
    put(2, at, f32::NEG_INFINITY);
    put(3, at, f32::NEG_INFINITY);
    put(1, at + 1, f32::NAN);
    put(0, at + 300, f32::INFINITY);
    put(1, at + 300, f32::NEG_INFINITY);
    let setup = Setup { faults: Faults { loss: 0.02, ..Faults::NONE }, ..calm(64) };
    let mut world = World::new(&setup, &inputs);
    world.run(2_000_000).unwrap();
    for outcomes in world.hosts.iter().map(|host| &host.outcomes) {
        let reduced = outcomes[&OperationId(0)].as_ref().unwrap();
        assert_eq!(reduced.not_finite, Some(NotFinite { element: at, rank: Rank::new(3) }));
        let Sums::F32(sums) = &reduced.sums else { panic!("{:?}", reduced.sums) };
        assert_eq!(sums[at], f32::NEG_INFINITY);
        assert!(sums[at + 1].is_nan() && sums[at + 300].is_nan());
        assert!(
            sums.iter().enumerate().all(|(i, sum)| [at, at + 1, at + 300].contains(&i) || sum.is_finite())
        );
        let next = outcomes[&OperationId(1)].as_ref().expect("the job goes on");
        assert_eq!((&next.sums, next.not_finite), (&Sums::I32(vec![4; 700]), None));
    }
}

#[test]
fn integers_whose_sum_does_not_fit_fail_that_operation_alone() {
    let of = |values: [i32; 4]| -> Vec<Vec<AllReduce>> {
        let counts = |value: i32| operation("counts", GradientData::I32(vec![0, value, 1]), 1);
        values.map(|value| vec![counts(value), operation("next", GradientData::I32(vec![1; 3]), 1)]).into()
    };
    for (values, sum) in [
        ([1 << 30, 0, 0, 0], Some(1 << 30)),
        ([i32::MAX, i32::MIN, i32::MAX, i32::MIN], Some(-2)),
        ([i32::MAX, 1, -1, 0], Some(i32::MAX)),
        ([i32::MIN, 0, 0, 0], Some(i32::MIN)),
        ([1 << 29; 4], None),
        ([i32::MIN, -1, 0, 0], None),
    ] {
        let inputs = of(values);
        let mut world = World::new(&calm(2), &inputs);
        world.run_unchecked(STEPS).unwrap();
        for outcomes in world.hosts.iter().map(|host| &host.outcomes) {
            match (&outcomes[&OperationId(0)], sum) {
                (Ok(reduced), Some(sum)) => assert_eq!(reduced.sums, Sums::I32(vec![0, sum, 4])),
                (Err(CollectiveError::Overflow { element: 1, .. }), None) => {}
                (outcome, _) => panic!("{values:?}: {outcome:?}"),
            }
            assert_eq!(outcomes[&OperationId(1)].as_ref().unwrap().sums, Sums::I32(vec![4; 3]));
        }
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
    assert_eq!(reduced.sums.len(), 600);
}

#[test]
fn an_operation_that_a_member_has_given_up_has_no_sum_on_any_member() {
    // A contribution of NaN must not hide the member that withholds its own.
    let mut inputs = floats(4, 600);
    inputs[3][0] = operation("conv1.weight", GradientData::F32(vec![f32::NAN; 600]), 1);
    let later = floats(4, 600);
    inputs.iter_mut().zip(later).for_each(|(of, later)| of.extend(later));
    let mut world = World::new(&Setup { reads: true, ..calm(8) }, &inputs);
    world.hosts[1].start_next();
    world.hosts[1].abandon_oldest();
    world.run(STEPS).unwrap();
    let withheld = |outcome: &OperationOutcome| matches!(outcome, Err(CollectiveError::Withheld { rank, .. }) if rank.get() == 1);
    for host in [0, 2, 3].map(|at| &world.hosts[at]) {
        assert!(withheld(&host.outcomes[&OperationId(0)]), "{:?}", host.outcomes);
        assert_eq!(host.outcomes[&OperationId(1)].as_ref().unwrap().weight, 4);
    }
    assert!(withheld(&world.read[&OperationId(0)]));
}

#[test]
fn a_contribution_that_is_withheld_from_the_start_fails_on_its_own_member_too() {
    let inputs = floats(4, 600);
    let mut world = World::new(&calm(8), &inputs);
    world.hosts[2].withhold_next();
    world.run(STEPS).unwrap();
    for host in &world.hosts {
        let outcome = &host.outcomes[&OperationId(0)];
        assert!(
            matches!(outcome, Err(CollectiveError::Withheld { rank, .. }) if rank.get() == 2),
            "{outcome:?}"
        );
    }
}
