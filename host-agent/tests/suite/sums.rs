//! Tests that a server that reads the sums gets the same bits and the same errors as the workers.

use std::collections::BTreeSet;
use std::sync::mpsc;

use crate::star::{Meddle, Star};
use tributary_api::Downlink;
use tributary_host_agent::{AgentError, ServerAgent, WorkerAgent};
use tributary_protocol::{
    AllReduce, Collective, CollectiveError, ElementType, GradientData, Reduced, StartError, Sums, Tensor,
};
use tributary_wire::{FrameView, Kind, Operator, SliceWidth};

const WORKERS: u8 = 3;
/// The number of elements. It is several windows of slices, and the last slice is not full.
const ELEMENTS: usize = 200 * 256 + 5;
const ROUNDS: usize = 4;

fn honest() -> Meddle {
    Box::new(|_, _| {})
}

fn reading(loss: f64, meddle: Meddle) -> Star {
    Star::start_with(WORKERS, Downlink::Multicast, loss, meddle, |config, port| {
        ServerAgent::start_reading(config, vec![port])
    })
}

fn gradient(rank: usize, round: usize) -> Vec<f32> {
    let noise = |at: usize| (at * 7 + rank * 13 + round).wrapping_mul(2_654_435_761) % 2_000_003;
    (0..ELEMENTS).map(|at| noise(at) as f32 / 1e6 - 1.0).collect()
}

fn tensor() -> Tensor {
    Tensor {
        name: "group".into(),
        element_type: ElementType::F32,
        len: ELEMENTS,
        collective: Collective::AllReduce,
    }
}

fn reduce(worker: &WorkerAgent, data: Vec<f32>, weight: u32) -> Result<Reduced, AgentError> {
    worker.all_reduce(AllReduce { name: "group".into(), data: GradientData::F32(data), weight })
}

/// Runs all rounds on every worker. In round r, the worker of rank r contributes nothing.
fn all_rounds(star: &Star) -> Vec<Vec<Reduced>> {
    star.on_every_worker(|rank, worker| {
        let weight = |round| if round == rank { 0 } else { 3 + rank as u32 };
        (0..ROUNDS).map(|round| reduce(worker, gradient(rank, round), weight(round)).unwrap()).collect()
    })
}

#[tokio::test]
async fn the_server_gets_the_workers_sums_bit_for_bit() {
    for loss in [0.0, 0.03] {
        let star = reading(loss, honest());
        let awaited: Vec<_> = (0..ROUNDS).map(|_| star.server.sums(tensor()).unwrap()).collect();
        let on_workers = all_rounds(&star);
        for (round, sums) in awaited.into_iter().enumerate() {
            let read = sums.await.unwrap();
            assert!(on_workers.iter().all(|rounds| rounds[round] == read), "round {round}");
            let weights = (0..WORKERS.into()).filter(|rank| *rank != round).map(|rank| 3 + rank as u32);
            assert_eq!((read.weight, read.contributors), (weights.sum(), WORKERS.into()));
        }
        assert_eq!(star.server.stats().unwrap().protocol.put_off, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_start_before_the_server_is_told_wait_for_it() {
    let star = reading(0.0, honest());
    let (on_workers, read) = std::thread::scope(|scope| {
        let workers = scope.spawn(|| all_rounds(&star));
        while star.server.stats().unwrap().protocol.put_off == 0 {
            std::thread::yield_now();
        }
        let awaited: Vec<_> = (0..ROUNDS).map(|_| star.server.sums(tensor()).unwrap()).collect();
        (workers.join().unwrap(), awaited)
    });
    for (round, sums) in read.into_iter().enumerate() {
        assert_eq!(sums.await.unwrap(), on_workers[0][round]);
    }
}

#[tokio::test]
async fn the_server_gets_the_workers_errors() {
    let spoil: Meddle = Box::new(|from, frame| {
        let Ok(view) = FrameView::parse(frame) else { return };
        let header = view.message().header();
        if from == 1 && header.operator == Operator::Sum && view.message().values().is_some() {
            let last = frame.len() - SliceWidth::ETHERNET.bytes() + 3;
            frame[last] ^= 1;
        }
    });
    let star = reading(0.0, spoil);
    let wrong = star.server.sums(tensor()).unwrap();
    star.on_every_worker(|rank, worker| {
        reduce(worker, gradient(rank, 0), 1).unwrap_err();
    });
    let error = wrong.await.unwrap_err();
    assert!(matches!(error, AgentError::Collective(CollectiveError::WrongSum { .. })), "{error}");
}

/// The star's job is confidential, so its links do not show the workers' values.
#[tokio::test]
async fn what_a_worker_gives_to_a_confidential_job_is_noise_on_its_link() {
    let (seen, on_the_wire) = mpsc::channel();
    let tap: Meddle = Box::new(move |from, frame| {
        let Ok(view) = FrameView::parse(frame) else { return };
        let header = view.message().header();
        if let Some(values) = view.message().values()
            && (header.kind, header.operator) == (Kind::Gradient, Operator::Sum)
        {
            seen.send((from, values.iter().collect::<Vec<i32>>())).unwrap();
        }
    });
    let star = reading(0.0, tap);
    let sums = star.server.sums(tensor()).unwrap();
    star.on_every_worker(|_, worker| drop(reduce(worker, vec![0.5; ELEMENTS], 1).unwrap()));
    assert_eq!(sums.await.unwrap().sums, Sums::F32(vec![0.5 * f32::from(WORKERS); ELEMENTS]));
    drop(star);
    let mut slices = 0;
    for (from, values) in on_the_wire {
        let distinct: BTreeSet<i32> = values.iter().copied().collect();
        assert!(
            distinct.len() > values.len() - 2,
            "worker {from} gives the same value everywhere, and it shows"
        );
        slices += 1;
    }
    assert!(slices >= usize::from(WORKERS) * ELEMENTS / 256, "{slices}");
}

#[tokio::test]
async fn who_waits_for_sums_learns_the_servers_end() {
    let star = reading(0.0, honest());
    let sums = star.server.sums(tensor()).unwrap();
    star.server.end("the group has changed");
    let error = sums.await.unwrap_err().to_string();
    assert!(error.contains("the group has changed"), "{error}");
}

#[tokio::test]
async fn a_server_that_only_aggregates_says_so() {
    let star = Star::start(WORKERS, Downlink::Multicast, 0.0, honest());
    let error = star.server.sums(tensor()).unwrap().await.unwrap_err();
    assert!(matches!(error, AgentError::Refused(StartError::ReadsNothing { .. })), "{error}");
}
