//! Workers and a server over in-process links: the results of an all-reduce, and its behaviour in a
//! faulty network.

use std::collections::HashSet;

use crate::star::{Meddle, Star};
use half::{bf16, f16};
use tributary_api::Downlink;
use tributary_host_agent::{AgentError, WorkerAgent};
use tributary_protocol::{AllReduce, CollectiveError, GradientData, NotFinite, Reduced, Sums};
use tributary_wire::{FrameView, Kind, MessageView, Rank, SliceWidth};

const WORKERS: u8 = 4;
/// The number of elements. It is more than a window of slices, and the last slice is not full.
const ELEMENTS: usize = 80 * 256 + 17;

fn honest() -> Meddle {
    Box::new(|_, _| {})
}

/// Returns numbers of many magnitudes, which are different for each rank.
fn gradient(rank: usize) -> Vec<f32> {
    let noise = |at: usize| (at * 7 + rank * 13).wrapping_mul(2_654_435_761) % 2_000_003;
    (0..ELEMENTS).map(|at| (noise(at) as f32 / 1e6 - 1.0) * 10_f32.powi((at / 256 % 9) as i32 - 4)).collect()
}

fn all_reduce(worker: &WorkerAgent, name: &str, data: GradientData, weight: u32) -> Reduced {
    worker.all_reduce(AllReduce { name: name.into(), data, weight }).unwrap()
}

fn f32_bits(reduced: &Reduced) -> Vec<u32> {
    let Sums::F32(sums) = &reduced.sums else { panic!("sums of floats are f32") };
    sums.iter().map(|sum| sum.to_bits()).collect()
}

/// Checks that all workers have the same result, and that it is close to the true sum. The largest
/// error is 1e-6 of the largest input of each slice.
fn assert_is_sum(results: &[Reduced], inputs: &[Vec<f32>]) {
    for result in results {
        assert_eq!(f32_bits(result), f32_bits(&results[0]));
        assert_eq!((result.weight, result.contributors), (WORKERS.into(), WORKERS.into()));
    }
    let Sums::F32(sums) = &results[0].sums else { panic!("sums of floats are f32") };
    assert_eq!(sums.len(), inputs[0].len());
    for (number, slice) in sums.chunks(256).enumerate() {
        let at = |offset: usize| number * 256 + offset;
        let largest = inputs
            .iter()
            .flat_map(|input| &input[at(0)..at(slice.len())])
            .fold(0_f32, |largest, value| largest.max(value.abs()));
        for (offset, sum) in slice.iter().enumerate() {
            let exact: f64 = inputs.iter().map(|input| f64::from(input[at(offset)])).sum();
            let error = (f64::from(*sum) - exact).abs() / f64::from(largest);
            assert!(error < 1e-6, "element {}: {sum} instead of {exact}", at(offset));
        }
    }
}

/// Returns a star on which every element type was reduced twice.
fn every_type(downlink: Downlink, loss: f64) -> Star {
    let star = Star::start(WORKERS, downlink, loss, honest());
    let f32s: Vec<_> = (0..WORKERS.into()).map(gradient).collect();
    let f16s: Vec<Vec<_>> =
        f32s.iter().map(|input| input.iter().map(|x| f16::from_f32(*x).to_f32()).collect()).collect();
    let bf16s: Vec<Vec<_>> =
        f32s.iter().map(|input| input.iter().map(|x| bf16::from_f32(*x).to_f32()).collect()).collect();
    let i32s: Vec<Vec<_>> =
        f32s.iter().map(|input| input.iter().map(|x| (x * 1e4) as i32).collect()).collect();
    let results = star.on_every_worker(|rank, worker| {
        let reduce = |name, data| all_reduce(worker, name, data, 1);
        [0, 1].map(|_| {
            [
                reduce("single", GradientData::F32(f32s[rank].clone())),
                reduce("half", GradientData::F16(f16s[rank].clone())),
                reduce("nothing", GradientData::F32(Vec::new())),
                reduce("brain", GradientData::BF16(bf16s[rank].clone())),
                reduce("integer", GradientData::I32(i32s[rank].clone())),
            ]
        })
    });
    let inputs = [f32s.clone(), f16s.clone(), vec![Vec::new(); WORKERS.into()], bf16s.clone()];
    for repeat in 0..2 {
        for (kind, inputs) in inputs.iter().enumerate() {
            let of_kind: Vec<_> = results.iter().map(|worker| worker[repeat][kind].clone()).collect();
            assert_is_sum(&of_kind, inputs);
        }
        let exact: Vec<i32> = (0..ELEMENTS).map(|at| i32s.iter().map(|input| input[at]).sum()).collect();
        for worker in &results {
            assert_eq!(worker[repeat][4].sums, Sums::I32(exact.clone()));
        }
    }
    star
}

#[test]
fn multicast_results_are_the_sum_bit_for_bit() {
    let star = every_type(Downlink::Multicast, 0.0);
    let server = star.server.stats().unwrap();
    let again = server.protocol.answers + server.protocol.answers_to_all;
    assert_eq!(server.traffic.sent, server.protocol.completed + again, "each result once");
    assert_eq!((server.traffic.not_ours, server.traffic.malformed), (0, 0));
}

#[test]
fn unicast_results_are_the_sum_bit_for_bit() {
    let star = every_type(Downlink::Unicast, 0.0);
    let server = star.server.stats().unwrap();
    let again = server.protocol.answers + server.protocol.answers_to_all;
    assert_eq!(server.traffic.sent, server.protocol.completed * u64::from(WORKERS) + again);
}

#[test]
fn lost_frames_change_nothing_but_the_counters() {
    for downlink in [Downlink::Multicast, Downlink::Unicast] {
        let star = every_type(downlink, 0.05);
        let stats: Vec<_> = star.workers.iter().map(|worker| worker.stats().unwrap().protocol).collect();
        assert!(stats.iter().all(|stats| stats.retransmitted > 0 && stats.mismatched == 0), "{stats:?}");
    }
}

#[test]
fn weights_are_multiplied_in_and_nothing_counts_as_nothing() {
    let star = Star::start(WORKERS, Downlink::Multicast, 0.0, honest());
    let results = star.on_every_worker(|rank, worker| {
        let ones = GradientData::F32(vec![1.0; 300]);
        all_reduce(worker, "weighted", ones, rank as u32)
    });
    for result in results {
        assert_eq!(result.sums, Sums::F32(vec![6.0; 300]));
        assert_eq!((result.weight, result.contributors), (6, 4));
    }
}

#[test]
fn not_a_number_is_a_value_and_its_rank_is_named() {
    let star = Star::start(WORKERS, Downlink::Multicast, 0.0, honest());
    let outcomes = star.on_every_worker(|rank, worker| {
        let mut data = gradient(rank);
        if rank == 2 {
            data[300] = f32::NAN;
        }
        let bad =
            worker.all_reduce(AllReduce { name: "w1".into(), data: GradientData::F32(data), weight: 1 });
        (bad, all_reduce(worker, "next", GradientData::F32(gradient(rank)), 1))
    });
    for (bad, _) in &outcomes {
        let reduced = bad.as_ref().unwrap();
        assert_eq!(reduced.not_finite, Some(NotFinite { element: 300, rank: Rank::new(2) }));
        let Sums::F32(sums) = &reduced.sums else { panic!("{:?}", reduced.sums) };
        assert!(sums.iter().enumerate().all(|(at, sum)| sum.is_nan() == (at == 300)));
    }
    let next: Vec<_> = outcomes.into_iter().map(|(_, next)| next).collect();
    assert_is_sum(&next, &(0..WORKERS.into()).map(gradient).collect::<Vec<_>>());
}

/// Adds one to the first value of every SUM slice for which `picks` returns true.
fn miscount(picks: fn(usize, &MessageView<'_>) -> bool) -> Meddle {
    Box::new(move |from, frame| {
        let Ok(view) = FrameView::parse(frame) else { return };
        let message = view.message();
        let is_sum = message.header().operator == tributary_wire::Operator::Sum;
        if is_sum && message.values().is_some() && picks(from, message) {
            let first = frame.len() - SliceWidth::ETHERNET.bytes();
            let value = i32::from_be_bytes(frame[first..first + 4].try_into().unwrap());
            frame[first..first + 4].copy_from_slice(&value.wrapping_add(1).to_be_bytes());
        }
    })
}

fn assert_notices(meddle: Meddle) {
    let star = Star::start(WORKERS, Downlink::Multicast, 0.0, meddle);
    let outcomes = star.on_every_worker(|_, worker| {
        let data = GradientData::F32(vec![1.0; 100]);
        worker.all_reduce(AllReduce { name: "w1".into(), data, weight: 1 })
    });
    for outcome in outcomes {
        let Err(AgentError::Collective(CollectiveError::WrongSum { tensor, .. })) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(tensor.name, "w1");
    }
}

#[test]
fn a_network_that_adds_wrongly_is_noticed() {
    assert_notices(miscount(|_, message| message.header().kind == Kind::Result));
}

#[test]
fn one_spoilt_contribution_is_noticed_by_all() {
    assert_notices(miscount(|from, message| from == 1 && message.header().kind == Kind::Gradient));
}

#[test]
fn a_result_that_is_spoilt_once_is_asked_for_again() {
    let mut spoilt = HashSet::new();
    let mut spoil = miscount(|_, message| message.header().kind == Kind::Result);
    let every_tenth_once: Meddle = Box::new(move |from, frame| {
        let Ok(view) = FrameView::parse(frame) else { return };
        let header = *view.message().header();
        if header.kind == Kind::Result && header.seq.0.is_multiple_of(10) && spoilt.insert(header.seq) {
            spoil(from, frame);
        }
    });
    let star = Star::start(WORKERS, Downlink::Multicast, 0.0, every_tenth_once);
    let results =
        star.on_every_worker(|rank, worker| all_reduce(worker, "w", GradientData::F32(gradient(rank)), 1));
    assert_is_sum(&results, &(0..WORKERS.into()).map(gradient).collect::<Vec<_>>());
    for worker in &star.workers {
        let stats = worker.stats().unwrap().protocol;
        assert!(stats.mismatched >= 8, "{stats:?}");
    }
}
