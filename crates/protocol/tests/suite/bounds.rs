//! Tests of the bounds that a worker announces if its elements were measured before.

use proptest::prelude::*;
use tributary_protocol::{
    AllReduce, Bounds, ElementType, GradientData, JointAllReduce, OperationEvent, Sums, Time, Worker,
};
use tributary_wire::{Operator, SliceWidth};

use crate::alone::{ME, Slice, answer, config, integers, sent, seqs};

const WIDTH: SliceWidth = SliceWidth::ETHERNET;

fn all_reduce(data: GradientData, weight: u32) -> AllReduce {
    AllReduce { name: "conv".to_owned(), data, weight }
}

fn with_bounds(operation: AllReduce, bounds: Bounds) -> JointAllReduce {
    JointAllReduce { bounds: Some(bounds), ..operation.into() }
}

/// Returns the bounds of these elements, measured in pieces of `slices` slices.
fn measured(data: &GradientData, slices: usize, width: SliceWidth) -> Bounds {
    let mut bounds = Bounds::new(width, data.element_type(), data.len()).unwrap();
    let piece = slices * width.values();
    match data {
        GradientData::I32(values) => values.chunks(piece).for_each(|piece| bounds.add_integers(piece)),
        GradientData::I64(values) => values.chunks(piece).for_each(|piece| bounds.add_long_integers(piece)),
        GradientData::F64(values) => values.chunks(piece).for_each(|piece| bounds.add_doubles(piece)),
        GradientData::F32(values)
        | GradientData::F16(values)
        | GradientData::BF16(values)
        | GradientData::F32Exact(values)
        | GradientData::F16Paired(values)
        | GradientData::BF16Paired(values) => values.chunks(piece).for_each(|piece| bounds.add_floats(piece)),
    }
    bounds
}

/// Returns all slices that a worker sends, and the outcome of its operation.
fn played(mut worker: Worker) -> (Vec<Slice>, Vec<OperationEvent>) {
    let mut all = Vec::new();
    loop {
        let slices = sent(&mut worker, Time::ZERO);
        if slices.is_empty() {
            return (all, std::iter::from_fn(|| worker.poll_event()).collect());
        }
        slices.iter().for_each(|slice| answer(&mut worker, Time::ZERO, slice));
        all.extend(slices);
    }
}

fn with_and_without(operation: &AllReduce, bounds: Bounds) -> [(Vec<Slice>, Vec<OperationEvent>); 2] {
    let (mut with, mut without) = (Worker::new(config(8)).unwrap(), Worker::new(config(8)).unwrap());
    with.start_joint(with_bounds(operation.clone(), bounds)).unwrap();
    without.start_all_reduce(operation.clone()).unwrap();
    [played(with), played(without)]
}

/// Generates any contents, including NaN, infinities, subnormals, and integers that are too large.
fn data() -> impl Strategy<Value = GradientData> {
    let bits = prop_oneof![any::<u32>(), Just(0), 0..1000_u32, any::<f32>().prop_map(f32::to_bits)];
    (prop::collection::vec(bits, 0..1500), 0..7).prop_map(|(bits, kind)| {
        let floats = || bits.iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>();
        let integers = || bits.iter().map(|bits| bits.cast_signed()).collect::<Vec<_>>();
        match kind {
            0 => GradientData::F32(floats()),
            1 => GradientData::F32Exact(floats()),
            2 => GradientData::F64(floats().into_iter().map(|value| f64::from(value) * 1.1).collect()),
            3 => GradientData::I32(integers()),
            4 => GradientData::F16Paired(floats()),
            5 => GradientData::BF16Paired(floats()),
            _ => GradientData::I64(integers().into_iter().map(|value| i64::from(value) << 29).collect()),
        }
    })
}

proptest! {
    #[test]
    fn it_is_what_it_would_have_measured_itself(data in data(), slices in 1..4_usize, weight in 0..3_u32) {
        let bounds = measured(&data, slices, WIDTH);
        let [with, without] = with_and_without(&all_reduce(data, weight), bounds);
        prop_assert_eq!(format!("{with:?}"), format!("{without:?}"));
    }
}

#[test]
fn bounds_of_something_else_are_not_believed() {
    let data = GradientData::F32((0..700).map(|at| 1000.0 + at as f32).collect());
    let small = GradientData::F32(vec![0.001; 700]);
    let fewer = GradientData::F32(vec![0.001; 600]);
    let integers = GradientData::I32(vec![1; 700]);
    let mut mixed = Bounds::new(WIDTH, ElementType::F32, 700).unwrap();
    mixed.add_integers(&[1; 700]);
    for bounds in [
        measured(&small, 1, SliceWidth::NARROWEST),
        measured(&fewer, 1, WIDTH),
        measured(&integers, 1, WIDTH),
        mixed,
        Bounds::new(WIDTH, ElementType::F32, 700).unwrap(),
    ] {
        let [with, without] = with_and_without(&all_reduce(data.clone(), 1), bounds);
        assert_eq!(with, without);
        assert!(matches!(&with.1[..], [OperationEvent::Completed { .. }]));
    }
}

#[test]
fn who_gives_up_before_the_start_announces_nothing() {
    let data = GradientData::F32(vec![3.0; 300]);
    let bounds = measured(&data, 1, WIDTH);
    let mut worker = Worker::new(config(4)).unwrap();
    let operation = worker.start_joint(with_bounds(all_reduce(data, 1), bounds)).unwrap();
    worker.abandon(operation);
    let max = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&max), [1]);
    assert_eq!((max[0].0.operator, max[0].0.totals.weight), (Operator::Max, 0));
    let (withheld, bounds) = max[0].1.split_first().unwrap();
    assert_eq!((*withheld, bounds), (2 << 16 | i32::from(ME.get()), &[0; WIDTH.values() - 1][..]));
}

#[test]
fn elements_of_no_weight_are_left_out_though_they_were_measured() {
    let operation = AllReduce { weight: 0, ..integers(2) };
    let bounds = measured(&operation.data, 1, WIDTH);
    let mut worker = Worker::new(config(4)).unwrap();
    worker.start_joint(with_bounds(operation, bounds)).unwrap();
    let (slices, events) = played(worker);
    assert!(slices.iter().all(|(_, values)| values.iter().all(|value| *value == 0)));
    let [OperationEvent::Completed { reduced, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reduced.sums, Sums::I32(vec![0; 2 * WIDTH.values()]));
}
