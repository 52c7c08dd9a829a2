//! Training processes, the agents of their hosts, and a simulated controller. They use Unix sockets,
//! shared memory, loopback TCP and in-process links.

use std::io;
use std::time::Duration;

use crate::directory::{Directory, TOKEN};
use crate::hosts::{code, start_agent};
use crate::job::configs;
use crate::pair::{Hosts, sum};
use crate::star::Meddle;
use tonic::Code;
use tributary_api::Downlink;
use tributary_client::{Agent, ClientError, CollectiveCount, CollectiveWay, Job, Operation, Quantised, Sent};
use tributary_codec::Lanes;
use tributary_host_agent::{Limits, open_once};
use tributary_link::FramePort;
use tributary_wire::{FrameView, Kind, Operator};

#[tokio::test]
async fn processes_reduce_in_shared_memory_one_after_another() {
    let hosts = Hosts::start().await;
    for round in 0..3_u8 {
        let [mut first, mut second] = hosts.join_both().await;
        assert_eq!((first.rank(), second.rank(), first.ranks()), (0, 1, vec![0, 1]));
        let ones: Vec<f32> = vec![f32::from(round); 1000];
        let (a, b) = tokio::join!(sum(&mut first, &ones), sum(&mut second, &ones));
        let twos = vec![f32::from(2 * round); 1000];
        assert_eq!((a.unwrap(), b.unwrap()), (twos.clone(), twos));
        assert!(first.stats().await.unwrap().results > 0);
        first.close().await.unwrap();
        second.close().await.unwrap();
    }
    // Each host has joined only once and is still a member.
    assert_eq!(hosts.directory.heard(), ["w0 joins", "w1 joins"]);
}

#[tokio::test]
async fn what_processes_say_of_their_collectives_adds_up_in_the_agent() {
    let hosts = Hosts::start().await;
    let count = |way: CollectiveWay, reason: &str, bytes| CollectiveCount {
        way: way.into(),
        collective: "broadcast".to_owned(),
        reason: reason.to_owned(),
        calls: 1,
        bytes,
    };
    for bytes in [10, 20] {
        let [first, second] = hosts.join_both().await;
        let by_gloo = count(CollectiveWay::Gloo, "the fabric does not do that", bytes);
        first.count_collectives(vec![count(CollectiveWay::Fabric, "", 1), by_gloo]).await.unwrap();
        let error =
            first.count_collectives(vec![count(CollectiveWay::Unspecified, "", 1)]).await.unwrap_err();
        assert_eq!(code(&error), Code::InvalidArgument);
        first.close().await.unwrap();
        second.close().await.unwrap();
    }
    let stats = hosts.agents[0].observer().stats();
    let said: Vec<_> =
        stats[0].collectives.iter().map(|(kind, amount)| (kind.way, amount.calls, amount.bytes)).collect();
    assert_eq!(said, [("fabric", 2, 2), ("gloo", 2, 30)]);
    assert!(hosts.agents[1].observer().stats()[0].collectives.is_empty());
}

#[tokio::test]
async fn a_job_has_one_process_a_host_and_needs_its_token() {
    let hosts = Hosts::start().await;
    assert_eq!(code(&hosts.join(0, b"wrong").await.unwrap_err()), Code::PermissionDenied);
    let [first, _second] = hosts.join_both().await;
    assert_eq!(code(&hosts.join(0, TOKEN).await.unwrap_err()), Code::AlreadyExists);
    first.close().await.unwrap();
    assert_eq!(code(&hosts.join(0, b"wrong").await.unwrap_err()), Code::PermissionDenied);
    hosts.join(0, TOKEN).await.unwrap();
}

#[tokio::test]
async fn a_process_that_goes_without_a_word_takes_its_host_out_of_the_job() {
    let mut hosts = Hosts::start().await;
    let [first, mut second] = hosts.join_both().await;
    drop(first);
    hosts.directory.wait_for("w0 leaves: its training process is gone").await;
    let error = sum(&mut second, &[1.0]).await.unwrap_err();
    assert_eq!(code(&error), Code::Aborted);
    assert!(error.to_string().contains("w0 leaves"), "{error}");
}

/// Starts an all-reduce in which no other member takes part, and abandons it.
async fn give_up(job: &Job) {
    let mut segment = job.segment(4).await.unwrap();
    let operation = Operation { deadline: Some(Duration::from_millis(1)), ..Operation::whole::<f32>() };
    let error = job.all_reduce(&mut segment, operation).await.unwrap_err();
    assert_eq!(code(&error), Code::DeadlineExceeded);
}

#[tokio::test]
async fn what_a_process_gave_to_an_all_reduce_that_it_gave_up_is_not_summed_with_the_next_ones() {
    let mut hosts = Hosts::start().await;
    let [first, mut second] = hosts.join_both().await;
    give_up(&first).await;
    assert_eq!(code(&first.close().await.unwrap_err()), Code::FailedPrecondition);
    hosts.directory.wait_for("w0 leaves: rank 0 has ended with an all-reduce given up").await;
    assert_eq!(code(&sum(&mut second, &[1.0]).await.unwrap_err()), Code::Aborted);
}

#[tokio::test]
async fn one_that_was_given_up_and_finished_since_is_no_reason_to_leave() {
    let hosts = Hosts::start().await;
    let [first, second] = hosts.join_both().await;
    give_up(&first).await;
    let mut segment = second.segment(4).await.unwrap();
    second.all_reduce(&mut segment, Operation::whole::<f32>()).await.unwrap();
    // The second process has its result, too, because its own all-reduce follows that all-reduce.
    let mut segments = [first.segment(4).await.unwrap(), segment];
    let [a, b] = &mut segments;
    let whole = Operation::whole::<f32>;
    let (a, b) = tokio::join!(first.all_reduce(a, whole()), second.all_reduce(b, whole()));
    a.and(b).unwrap();
    first.close().await.unwrap();
    second.close().await.unwrap();
    let [mut first, mut second] = hosts.join_both().await;
    let (a, b) = tokio::join!(sum(&mut first, &[1.0]), sum(&mut second, &[1.0]));
    assert_eq!((a.unwrap(), b.unwrap()), (vec![2.0], vec![2.0]));
    assert_eq!(hosts.directory.heard(), ["w0 joins", "w1 joins"]);
}

/// Reduces integers whose sum overflows.
async fn sum_too_much(job: &Job) -> Result<(), ClientError> {
    let mut segment = job.segment(4).await?;
    segment.elements_mut::<i32>()?.fill(i32::MAX);
    let reduced = job.all_reduce(&mut segment, Operation::whole::<i32>()).await;
    job.release(segment).await?;
    reduced.map(drop)
}

#[tokio::test]
async fn one_that_has_failed_for_all_is_no_reason_to_leave() {
    let hosts = Hosts::start().await;
    for _ in 0..20 {
        let [first, second] = hosts.join_both().await;
        let (a, b) = tokio::join!(sum_too_much(&first), sum_too_much(&second));
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert!(error.to_string().contains("does not fit"), "{error}");
        }
        first.close().await.unwrap();
        second.close().await.unwrap();
    }
    assert_eq!(hosts.directory.heard(), ["w0 joins", "w1 joins"]);
}

#[tokio::test]
async fn a_segment_is_used_within_its_bounds_only() {
    let hosts = Hosts::start().await;
    let [first, _second] = hosts.join_both().await;
    let mut segment = first.segment(64).await.unwrap();
    let outside = Operation { elements: Some(10..17), ..Operation::whole::<i32>() };
    let error = first.all_reduce(&mut segment, outside).await.unwrap_err();
    assert_eq!(code(&error), Code::OutOfRange);
    assert!(segment.elements::<i32>().is_ok(), "a refused call leaves the segment to its owner");
}

#[tokio::test]
async fn an_agent_that_stops_leaves_its_job_and_no_socket() {
    let mut hosts = Hosts::start().await;
    let [mut first, mut second] = hosts.join_both().await;
    let agent = hosts.agents.remove(0);
    // The call may come before or after the end. In both cases, it does not wait for the second process.
    let (stopped, ()) = tokio::join!(sum(&mut first, &[1.0]), agent.shutdown());
    assert!(matches!(code(&stopped.unwrap_err()), Code::Aborted | Code::Unavailable));
    hosts.directory.wait_for("w0 leaves: its agent was shut down").await;
    assert!(!hosts.socket(0).exists() && hosts.socket(1).exists());
    assert_eq!(code(&sum(&mut second, &[1.0]).await.unwrap_err()), Code::Aborted);
}

/// Damages the sums that are sent to this rank.
fn spoil_for(rank: u8) -> Meddle {
    Box::new(move |_, frame| {
        let Ok(view) = FrameView::parse(frame) else { return };
        let header = view.message().header();
        let spoils = (header.kind, header.operator) == (Kind::Result, Operator::Sum);
        if spoils && frame.starts_with(&[2, 0, 0, 0, 1, rank]) {
            *frame.last_mut().unwrap() ^= 1;
        }
    })
}

#[tokio::test]
async fn a_wrong_sum_is_reported_though_nobody_waits_for_it_any_more() {
    let limits = Limits::of_this_machine();
    let mut hosts = Hosts::start_with(&limits, Downlink::Unicast, spoil_for(0)).await;
    let [first, mut second] = hosts.join_both().await;
    let mut segment = first.segment(4).await.unwrap();
    tokio::select! {
        over = first.all_reduce(&mut segment, Operation::whole::<f32>()) => panic!("{over:?}"),
        () = hosts.has_sent(0) => {}
    }
    assert_eq!(sum(&mut second, &[1.0]).await.unwrap(), [1.0]);
    hosts.directory.wait_for("w0 reports").await;
}

/// A port that fails at its first use.
struct Broken;

impl FramePort for Broken {
    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::Error::other("the interface has gone up in smoke"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        Ok(None)
    }

    fn register(&mut self, _: &mio::Registry, _: mio::Token) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_agent_that_cannot_go_on_says_so_to_the_controller() {
    let (worker_configs, _) = configs(1, Downlink::Multicast);
    let mut directory = Directory::start(worker_configs).await;
    let folder = tempfile::tempdir().unwrap();
    let _agent = start_agent(directory.remote(), &folder, 0, open_once(Broken));
    let agent = Agent::connect(folder.path().join("w0.sock")).await.unwrap();
    let job = agent.join("star", TOKEN.into()).await.unwrap();
    let mut segment = job.segment(4).await.unwrap();
    let error = job.all_reduce(&mut segment, Operation::whole::<f32>()).await.unwrap_err();
    assert_eq!(code(&error), Code::Aborted);
    assert!(error.to_string().contains("gone up in smoke"), "{error}");
    let heard = directory.wait_for("w0 leaves").await;
    assert!(heard.contains("gone up in smoke"), "{heard}");
}

#[tokio::test]
async fn without_an_agent_the_socket_is_named() {
    let error = Agent::connect("/nowhere/agent.sock").await.unwrap_err();
    assert!(matches!(error, ClientError::NoAgent { .. }));
    assert!(error.to_string().contains("/nowhere/agent.sock"), "{error}");
}

/// Returns a gradient with long tails, which is different for each rank.
fn gradient(rank: u32) -> Vec<f32> {
    (0..5000).map(|at| (((at + 31 * rank) as f32 * 0.7).sin() * 1.2).powi(5)).collect()
}

/// Reduces both ranks' gradients with quantised levels.
async fn quantised_sums(
    jobs: &mut [Job; 2],
    quantised: &mut [Quantised; 2],
    gradients: [&[f32]; 2],
) -> [Result<(Vec<f32>, Sent), ClientError>; 2] {
    async fn one(
        job: &mut Job,
        quantised: &mut Quantised,
        gradient: &[f32],
    ) -> Result<(Vec<f32>, Sent), ClientError> {
        let mut sum = gradient.to_vec();
        let sent = quantised.all_reduce(job, "gradient", &mut sum).await?;
        Ok((sum, sent))
    }
    let ([job0, job1], [first, second]) = (jobs, quantised);
    let (a, b) = tokio::join!(one(job0, first, gradients[0]), one(job1, second, gradients[1]));
    [a, b]
}

async fn quantised(jobs: &mut [Job; 2], feedback: bool) -> [Quantised; 2] {
    let [first, second] = jobs;
    let (a, b) = tokio::join!(first.quantised(5000, feedback), second.quantised(5000, feedback));
    [a.unwrap(), b.unwrap()]
}

#[tokio::test]
async fn quantised_gradients_are_aggregated_as_integers() {
    let hosts = Hosts::start().await;
    let mut jobs = hosts.join_both().await;
    let mut both = quantised(&mut jobs, false).await;
    let gradients = [gradient(0), gradient(1)];
    let sums = quantised_sums(&mut jobs, &mut both, [&gradients[0], &gradients[1]]).await;
    let [(first, sent), (second, other)] = sums.map(Result::unwrap);
    assert_eq!((&first, &sent), (&second, &other), "both ranks have the same bits");

    let lanes = Lanes::new(&sent.codebook, 2, 5000).unwrap();
    let [a, b] = gradients.map(|gradient| lanes.sum_of(&lanes.pack(&gradient).unwrap(), 1).unwrap());
    assert_eq!(first, a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<f32>>());
    // A sum of two levels is at most 30 and takes 5 bits. So each integer holds six values. The sketch has 2,048
    // integers.
    assert_eq!(sent.elements, 2048 + 5000_usize.div_ceil(6));
}

#[tokio::test]
async fn what_levels_leave_out_comes_with_the_next_gradients() {
    let hosts = Hosts::start().await;
    let mut jobs = hosts.join_both().await;
    let gradients = [gradient(0), gradient(1)];
    let mut errors = Vec::new();
    for feedback in [false, true] {
        let mut both = quantised(&mut jobs, feedback).await;
        let mut total = vec![0.0; 5000];
        for _ in 0..20 {
            let [first, _] = quantised_sums(&mut jobs, &mut both, [&gradients[0], &gradients[1]]).await;
            total.iter_mut().zip(first.unwrap().0).for_each(|(total, sum)| *total += sum / 20.0);
        }
        let exact = gradients[0].iter().zip(&gradients[1]).map(|(a, b)| a + b);
        errors.push(total.iter().zip(exact).map(|(total, exact)| (total - exact).powi(2)).sum::<f32>());
    }
    assert!(errors[1] < errors[0] / 10.0, "{errors:?} without feedback and with it");
}

#[tokio::test]
async fn a_gradient_that_is_not_finite_fails_on_every_rank_and_the_job_goes_on() {
    let hosts = Hosts::start().await;
    let mut jobs = hosts.join_both().await;
    let mut both = quantised(&mut jobs, true).await;
    let (good, mut bad) = (gradient(0), gradient(1));
    bad[77] = f32::NAN;
    let refused = quantised_sums(&mut jobs, &mut both, [&good, &bad]).await;
    let [first, second] = refused.map(|refused| refused.unwrap_err().to_string());
    assert!(first.starts_with("rank 0, gradient: some worker's gradient"), "{first}");
    assert!(second.starts_with("rank 1, gradient: value 77"), "{second}");
    let [first, _] = quantised_sums(&mut jobs, &mut both, [&good, &gradient(1)]).await;
    assert!(first.unwrap().0.iter().all(|value| value.is_finite()));
}
