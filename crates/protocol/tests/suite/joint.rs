//! Tests of contributions that consist of several parts.

use half::{bf16, f16};
use proptest::prelude::*;
use tributary_protocol::{
    Bounds, Collective, ElementType, GradientData, JointAllReduce, OperationEvent, Part, PartsSum,
    StartError, Sums, Time, Worker,
};
use tributary_wire::SliceWidth;

use crate::alone::{Slice, answer, config, sent};

const WIDTH: SliceWidth = SliceWidth::ETHERNET;

fn joint(mut parts: Vec<Part>, weight: u32, bounds: Option<Bounds>) -> JointAllReduce {
    let first = parts.remove(0);
    JointAllReduce {
        name: "conv".to_owned(),
        first,
        further: parts,
        weight,
        bounds,
        is_withheld: false,
        collective: Collective::AllReduce,
    }
}

/// Returns all slices that the only member of a job sends for an operation, and the sums.
fn played(operation: JointAllReduce) -> (Vec<Slice>, Vec<f32>) {
    let mut worker = Worker::new(config(8)).unwrap();
    worker.start_joint(operation).unwrap();
    let mut all = Vec::new();
    loop {
        let slices = sent(&mut worker, Time::ZERO);
        if slices.is_empty() {
            break;
        }
        slices.iter().for_each(|slice| answer(&mut worker, Time::ZERO, slice));
        all.extend(slices);
    }
    let event = worker.poll_event().unwrap();
    let OperationEvent::Completed { reduced, .. } = event else { panic!("{event:?}") };
    let Sums::F32(sums) = reduced.sums else { panic!("{:?}", reduced.sums) };
    (all, sums)
}

/// Generates the elements of one to four processes, with their weights. `powers` is the range of the
/// elements' exponents.
fn parts(powers: std::ops::Range<i32>) -> impl Strategy<Value = (ElementType, Vec<(Vec<f32>, u32)>)> {
    let kind = prop_oneof![
        Just(ElementType::F32),
        Just(ElementType::F16),
        Just(ElementType::BF16),
        Just(ElementType::BF16Paired)
    ];
    let value = (-1.0_f32..1.0, powers).prop_map(|(value, power)| value * 2f32.powi(power));
    let value = prop_oneof![20 => value, 1 => Just(0.0)];
    let lens = prop_oneof![Just(1_usize), Just(300), Just(700)];
    (kind, lens, 1..5_usize).prop_flat_map(move |(kind, len, processes)| {
        let round = move |value: f32| match kind {
            ElementType::F16 => f16::from_f32(value).to_f32(),
            ElementType::BF16 | ElementType::BF16Paired => bf16::from_f32(value).to_f32(),
            _ => value,
        };
        let part = (prop::collection::vec(value.clone().prop_map(round), len), 1..4_u32);
        (Just(kind), prop::collection::vec(part, processes))
    })
}

/// Adds the parts in pieces of `piece` elements; returns the two vectors and their bounds.
fn summed(
    element_type: ElementType,
    parts: &[(Vec<f32>, u32)],
    piece: usize,
) -> (Vec<f32>, Vec<f32>, Option<Bounds>) {
    let len = parts[0].0.len();
    let factors: Vec<u32> = parts.iter().map(|(_, factor)| *factor).collect();
    let mut sum = PartsSum::new(WIDTH, (element_type, len), &factors, factors.iter().sum()).unwrap();
    let (mut nearest, mut rest) = (vec![0.0; len], vec![0.0; len]);
    for begin in (0..len).step_by(piece) {
        let range = begin..len.min(begin + piece);
        parts.iter().enumerate().for_each(|(number, (values, _))| sum.add(number, &values[range.clone()]));
        sum.store(&mut nearest[range.clone()], &mut rest[range]);
    }
    (nearest, rest, sum.bounds())
}

fn check_sum_of_parts(element_type: ElementType, parts: &[(Vec<f32>, u32)]) -> Result<bool, TestCaseError> {
    let weight = parts.iter().map(|(_, factor)| factor).sum();
    let part = |(values, factor): &(Vec<f32>, u32)| Part {
        data: GradientData::of_floats(element_type, values.clone()),
        factor: *factor,
    };
    let (nearest, rest, bounds) = summed(element_type, parts, 256);
    let (has_bounds, len) = (bounds.is_some(), nearest.len());
    let (_, expected) = played(joint(parts.iter().map(part).collect(), weight, None));
    if has_bounds {
        let two = [nearest, rest]
            .map(|values| Part { data: GradientData::of_floats(element_type, values), factor: 1 });
        let (_, sums) = played(joint(two.into(), weight, bounds));
        for (at, (sum, expected)) in sums.into_iter().zip(expected).enumerate() {
            let magnitude = |at: usize| -> f64 {
                parts.iter().map(|(values, factor)| f64::from(*factor) * f64::from(values[at].abs())).sum()
            };
            let neighbours = at / 8 * 8..len.min(at / 8 * 8 + 8);
            let allowed = match element_type {
                ElementType::F32 => magnitude(at) * 2f64.powi(-11),
                ElementType::BF16Paired => neighbours.map(magnitude).fold(0.0, f64::max) * 2f64.powi(-8),
                _ => 0.0,
            };
            prop_assert!((f64::from(sum) - f64::from(expected)).abs() <= allowed, "{at}: {sum} {expected}");
        }
    }
    Ok(has_bounds)
}

proptest! {
    #[test]
    fn two_vectors_take_the_place_of_all_parts((element_type, parts) in parts(-9..3)) {
        prop_assert!(check_sum_of_parts(element_type, &parts)?);
    }

    #[test]
    fn two_vectors_take_their_place_only_if_they_are_exact_enough((element_type, parts) in parts(-120..120)) {
        check_sum_of_parts(element_type, &parts)?;
    }

    #[test]
    fn bounds_of_parts_are_the_ones_that_the_worker_measures((element_type, parts) in parts(-20..12)) {
        let weight = parts.iter().map(|(_, factor)| factor).sum();
        let measured = |(values, factor): &(Vec<f32>, u32)| {
            let mut bounds = Bounds::new(WIDTH, element_type, values.len()).unwrap();
            bounds.add_floats(values);
            (bounds, *factor)
        };
        let part = |(values, factor): &(Vec<f32>, u32)| {
            Part { data: GradientData::of_floats(element_type, values.clone()), factor: *factor }
        };
        let bounds = Bounds::of_parts(parts.iter().map(measured), weight);
        prop_assert!(bounds.is_some());
        let all: Vec<Part> = parts.iter().map(part).collect();
        prop_assert!(played(joint(all.clone(), weight, bounds)) == played(joint(all, weight, None)));
    }
}

#[test]
fn values_that_are_not_finite_keep_their_own_vectors() {
    for value in [f32::NAN, f32::INFINITY, f32::MAX] {
        let parts = [(vec![value; 3], 1), (vec![f32::MAX; 3], 1)];
        assert!(summed(ElementType::F32, &parts, 256).2.is_none(), "{value}");
    }
}

#[test]
fn parts_that_differ_are_refused() {
    let part = |data| Part { data, factor: 1 };
    let first = || part(GradientData::F32(vec![1.0; 3]));
    for other in [GradientData::F32(vec![1.0; 2]), GradientData::I32(vec![1; 3])] {
        let refused = Worker::new(config(8)).unwrap().start_joint(joint(vec![first(), part(other)], 2, None));
        assert!(matches!(refused, Err(StartError::Parts { .. })));
    }
}

#[test]
fn a_part_without_weight_contributes_nothing() {
    let part = |values: [f32; 2], factor| Part { data: GradientData::F32(values.into()), factor };
    let parts = vec![part([f32::NAN, 1.0], 0), part([2.0, 3.0], 2), part([9.0, f32::INFINITY], 0)];
    assert_eq!(played(joint(parts, 2, None)).1, [4.0, 6.0]);
}
