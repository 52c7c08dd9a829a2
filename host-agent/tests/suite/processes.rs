//! Hosts with several training processes in one job: the agent contributes the sum of their elements.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tonic::Code;
use tributary_client::{Agent, ClientError, Job, JoinOptions, Operation, Reduced, Segment, Waiting};

use crate::directory::TOKEN;
use crate::hosts::{code, join, reduce};
use crate::pair::Hosts;

/// The numbers of processes of the two hosts. Their ranks are 0 to 2, and 3 to 4.
const PROCESSES: [u32; 2] = [3, 2];

fn options(number: u32, host: usize) -> JoinOptions {
    JoinOptions::default().process(number, PROCESSES[host])
}

/// Joins all processes, in the order of their ranks.
async fn join_all_processes(hosts: &Hosts) -> Vec<Job> {
    let each = (0..2).flat_map(|host| (0..PROCESSES[host]).map(move |number| (host, number)));
    let jobs = join_all(each.map(|(host, number)| join(hosts.socket(host), options(number, host)))).await;
    jobs.into_iter().map(Result::unwrap).collect()
}

async fn start() -> (Hosts, Vec<Job>) {
    let hosts = Hosts::of_processes(PROCESSES).await;
    let jobs = join_all_processes(&hosts).await;
    (hosts, jobs)
}

async fn filled(job: &Job, elements: usize, value: f32) -> Segment {
    let mut segment = job.segment(4 * elements).await.unwrap();
    segment.elements_mut::<f32>().unwrap().fill(value);
    segment
}

/// Reduces one tensor of each rank, whose elements are the rank plus 1.
async fn sum(jobs: &[Job], elements: usize) -> Vec<Result<(Vec<f32>, Reduced), ClientError>> {
    let one = async |job: &Job| {
        let mut segment = filled(job, elements, job.rank() as f32 + 1.0).await;
        let reduced = job.start(&mut segment, &Operation::whole::<f32>())?.await?;
        Ok((segment.elements::<f32>()?.to_vec(), reduced))
    };
    join_all(jobs.iter().map(one)).await
}

#[tokio::test]
async fn ranks_count_the_processes_of_all_hosts() {
    let (_hosts, jobs) = start().await;
    let ranks: Vec<_> = jobs.iter().map(Job::rank).collect();
    assert_eq!(ranks, [0, 1, 2, 3, 4]);
    assert!(jobs.iter().all(|job| job.ranks() == [0, 1, 2, 3, 4] && job.shards() == job.ranks()));
    assert_eq!(jobs.iter().map(Job::host).collect::<Vec<_>>(), ["w0", "w0", "w0", "w1", "w1"]);
}

#[tokio::test]
async fn each_process_gets_the_sum_over_all_processes() {
    let (hosts, jobs) = start().await;
    // The lengths take one thread for the sum and several, and the last one is not a whole slice.
    for elements in [1, 1000, 700_001] {
        let sums = sum(&jobs, elements).await;
        for outcome in sums {
            let (sums, reduced) = outcome.unwrap();
            assert!(sums.iter().all(|sum| *sum == 15.0), "{elements}");
            assert_eq!((reduced.runs.len(), reduced.runs[0].contributors, reduced.runs[0].weight), (1, 5, 5));
        }
    }
    // Each host has sent one stream: three all-reduces, whatever the number of its processes.
    let sent: Vec<_> =
        hosts.agents.iter().map(|agent| agent.observer().stats()[0].stats.protocol.sent).collect();
    assert_eq!(sent[0], sent[1]);
    for job in jobs {
        job.close().await.unwrap();
    }
}

#[tokio::test]
async fn every_process_can_broadcast_to_all_others() {
    let (hosts, jobs) = start().await;
    for elements in [1, 1000, 100_000] {
        for root in 0..5 {
            let received = async |job: &Job| {
                let mut segment = job.segment(4 * elements).await.unwrap();
                let word = |at: usize| (at as u32).wrapping_mul(0x9e37_79b9) ^ job.rank();
                let words = segment.elements_mut::<i32>().unwrap().iter_mut().enumerate();
                words.for_each(|(at, to)| *to = word(at).cast_signed());
                job.start(&mut segment, &Operation::broadcast("words", root)).unwrap().await.unwrap();
                segment.elements::<i32>().unwrap().to_vec()
            };
            let all = join_all(jobs.iter().map(received)).await;
            let word = |at: usize| ((at as u32).wrapping_mul(0x9e37_79b9) ^ root).cast_signed();
            assert!(all[0].iter().enumerate().all(|(at, got)| *got == word(at)), "{elements} from {root}");
            assert!(all.iter().all(|received| *received == all[0]), "{elements} from {root}");
        }
    }
    // Host 0 has sent the words of three roots, and host 1 those of two.
    let sent = |host: usize| hosts.agents[host].observer().stats()[0].stats.protocol.sent;
    let slices: u64 = [1, 1000, 100_000_u64].iter().map(|elements| elements.div_ceil(256)).sum();
    assert_eq!(sent(0) - sent(1), slices);
}

#[tokio::test]
async fn each_process_gets_the_sums_of_its_own_part() {
    let (_hosts, jobs) = start().await;
    // The parts are uneven, and one rank has none.
    let parts = [(30_000, 0), (20_001, 1), (0, 2), (50_000, 3), (7, 4)];
    let len: u64 = parts.iter().map(|(count, _)| count).sum();
    let scattered = async |job: &Job| {
        let mut segment = filled(job, len as usize, 0.0).await;
        let values = segment.elements_mut::<f32>().unwrap().iter_mut().enumerate();
        values.for_each(|(at, value)| *value = (at % 1000) as f32 * (job.rank() + 1) as f32);
        let operation = Operation { parts: &parts, ..Operation::whole::<f32>() };
        let reduced = job.start(&mut segment, &operation).unwrap().await.unwrap();
        assert_eq!(reduced.runs[0].contributors, 5);
        segment.elements::<f32>().unwrap().to_vec()
    };
    let sums = join_all(jobs.iter().map(scattered)).await;
    let mut begin = 0;
    for ((count, owner), sums) in parts.iter().zip(&sums) {
        let own = begin..begin + *count as usize;
        begin = own.end;
        for at in own {
            let sum = (at % 1000) as f32 * 15.0;
            assert!((sums[at] - sum).abs() <= sum / 4096.0, "element {at} of rank {owner}");
        }
    }
}

#[tokio::test]
async fn ranks_whose_parts_differ_only_within_a_host_get_no_sums() {
    const PARTS: [(u64, u32); 5] = [(100, 0), (200, 1), (300, 2), (400, 3), (500, 4)];
    const OTHERS: [(u64, u32); 5] = [(200, 0), (100, 1), (300, 2), (400, 3), (500, 4)];
    let scattered = async |job: &Job, differs: bool| {
        let mut segment = filled(job, 1500, 1.0).await;
        let parts = if differs { &OTHERS } else { &PARTS };
        let operation = Operation { parts, ..Operation::whole::<f32>() };
        job.start(&mut segment, &operation).unwrap().await
    };
    // The other host's ranks differ, or a rank of the same host does.
    for differing in [3..5, 1..2] {
        let (_hosts, jobs) = start().await;
        let all = jobs.iter().map(|job| scattered(job, differing.contains(&job.rank())));
        let outcomes = join_all(all).await;
        assert!(outcomes.iter().all(Result::is_err), "{differing:?}: {outcomes:?}");
    }
}

#[tokio::test]
async fn parts_that_are_not_the_whole_tensor_are_refused() {
    let (_hosts, jobs) = start().await;
    let refused = async |job: &Job| {
        let mut segment = filled(job, 100, 1.0).await;
        let operation = Operation { parts: &[(50, 0), (49, 4)], ..Operation::whole::<f32>() };
        job.start(&mut segment, &operation).unwrap().await.unwrap_err().to_string()
    };
    for error in join_all(jobs.iter().map(refused)).await {
        assert!(error.contains("its parts have 99 elements, and the tensor has 100"), "{error}");
    }
}

#[tokio::test]
async fn a_broadcast_from_no_rank_of_the_job_or_of_other_elements_is_refused() {
    let (_hosts, jobs) = start().await;
    let refused = async |operation: Operation<'static>| {
        let mut segment = filled(&jobs[0], 100, 1.0).await;
        code(&jobs[0].start(&mut segment, &operation).unwrap().await.unwrap_err())
    };
    assert_eq!(refused(Operation::broadcast("words", 5)).await, Code::InvalidArgument);
    let floats = Operation { root: Some(0), ..Operation::whole::<f32>() };
    assert_eq!(refused(floats).await, Code::InvalidArgument);
}

#[tokio::test]
async fn processes_of_a_host_that_name_different_roots_fail_the_job() {
    let (_hosts, jobs) = start().await;
    let mut first = filled(&jobs[0], 100, 1.0).await;
    let mut second = filled(&jobs[1], 100, 1.0).await;
    let _waits = jobs[0].start(&mut first, &Operation::broadcast("words", 0)).unwrap();
    let error = jobs[1].start(&mut second, &Operation::broadcast("words", 3)).unwrap().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("a broadcast from rank 0") && text.contains("a broadcast from rank 3"), "{text}");
}

#[tokio::test]
async fn sums_of_every_type_are_right_with_weights_and_values_that_are_not_finite() {
    let (_hosts, mut jobs) = start().await;
    let weighted = async |job: &mut Job| {
        let mut values = [1.0, -2.0, 1e-30, 1e30];
        let weight = job.rank();
        reduce(job, &mut values, Operation { weight, ..Operation::whole::<f32>() })
            .await
            .map(|runs| (values, runs))
    };
    for outcome in join_all(jobs.iter_mut().map(weighted)).await {
        let (values, runs) = outcome.unwrap();
        assert_eq!(values, [10.0, -20.0, 10.0 * 1e-30, 10.0 * 1e30]);
        assert_eq!((runs[0].weight, runs[0].contributors), (10, 5));
    }
    let integers = async |job: &Job| {
        let mut segment = job.segment(16).await.unwrap();
        segment.elements_mut::<i64>().unwrap().copy_from_slice(&[i64::from(job.rank()), 1 << 50]);
        job.start(&mut segment, &Operation::whole::<i64>()).unwrap().await.unwrap();
        segment.elements::<i64>().unwrap().to_vec()
    };
    for sums in join_all(jobs.iter().map(integers)).await {
        assert_eq!(sums, [10, 5 << 50]);
    }
    let infinite = async |job: &Job| {
        let mut segment = filled(job, 300, 1.0).await;
        if job.rank() == 4 {
            segment.elements_mut::<f32>().unwrap()[7] = f32::INFINITY;
        }
        let reduced = job.start(&mut segment, &Operation::whole::<f32>()).unwrap().await.unwrap();
        (segment.elements::<f32>().unwrap().to_vec(), reduced.not_finite.unwrap())
    };
    for (sums, found) in join_all(jobs.iter().map(infinite)).await {
        let expected = |at| if at == 7 { f32::INFINITY } else { 5.0 };
        assert!(sums.iter().enumerate().all(|(at, sum)| *sum == expected(at)));
        assert_eq!((found.element, found.rank, found.processes), (7, 3, 2), "a process of the second host");
    }
}

#[tokio::test]
async fn all_reduces_that_processes_start_at_different_times_are_matched_by_number() {
    let (_hosts, jobs) = start().await;
    let mut segments = Vec::new();
    for job in &jobs {
        let mut own = Vec::new();
        for number in 0..20 {
            own.push(filled(job, 50 + number, number as f32).await);
        }
        segments.push(own);
    }
    // The processes start their operations one after the other, in another order for each host.
    let mut started = Vec::new();
    for rank in [4, 0, 2, 3, 1] {
        for segment in &mut segments[rank] {
            started.push(jobs[rank].start(segment, &Operation::whole::<f32>()).unwrap());
        }
    }
    for reduction in started {
        reduction.await.unwrap();
    }
    for (number, segment) in segments.iter().flat_map(|own| own.iter().enumerate()) {
        assert!(segment.elements::<f32>().unwrap().iter().all(|sum| *sum == 5.0 * number as f32));
    }
}

#[tokio::test]
async fn a_process_that_does_not_start_an_all_reduce_in_time_is_named_and_gets_no_sum_later() {
    let (_hosts, mut jobs) = start().await;
    let deadline = Some(Duration::from_millis(200));
    let short = Operation { deadline, name: "layer", ..Operation::whole::<f32>() };
    let late = jobs.remove(1);
    let mut segments = Vec::new();
    for job in &jobs {
        segments.push(filled(job, 10, 1.0).await);
    }
    let started: Vec<_> =
        jobs.iter().zip(&mut segments).map(|(job, segment)| job.start(segment, &short).unwrap()).collect();
    for (rank, outcome) in [0, 2, 3, 4].into_iter().zip(join_all(started).await) {
        let error = outcome.unwrap_err();
        assert_eq!(code(&error), Code::DeadlineExceeded, "{error}");
        if rank < 3 {
            assert!(error.to_string().contains("rank 1 of this host has not started it"), "{error}");
        }
    }
    // A sum that lacks the others of its host would not be a sum over all ranks.
    let mut own = filled(&late, 10, 1.0).await;
    let long = Operation { deadline: None, name: "layer", ..Operation::whole::<f32>() };
    let error = late.start(&mut own, &long).unwrap().await.unwrap_err();
    assert_eq!(code(&error), Code::DeadlineExceeded, "{error}");
    assert!(error.to_string().contains("ranks 0, 2 of this host had given it up"), "{error}");
    jobs.insert(1, late);
    for outcome in sum(&jobs, 10).await {
        assert_eq!(outcome.unwrap().0, [15.0; 10]);
    }
}

#[tokio::test]
async fn a_sum_without_a_host_that_has_given_it_up_is_an_error_on_the_other_hosts() {
    let (_hosts, mut jobs) = start().await;
    let deadline = Some(Duration::from_millis(200));
    let short = Operation { deadline, ..Operation::whole::<f32>() };
    let late = jobs.split_off(3);
    let mut segments = Vec::new();
    for job in &jobs {
        segments.push(filled(job, 1000, 1.0).await);
    }
    // Rank 1 has not started it when the deadline of ranks 0 and 2 passes.
    let [first, last, third] = &mut segments[..] else { panic!() };
    let started = [jobs[0].start(first, &short).unwrap(), jobs[2].start(third, &short).unwrap()];
    for outcome in join_all(started).await {
        assert_eq!(code(&outcome.unwrap_err()), Code::DeadlineExceeded);
    }
    let mut rest = Vec::new();
    for job in &late {
        rest.push(filled(job, 1000, 1.0).await);
    }
    let long = Operation::whole::<f32>();
    let mut started = vec![jobs[1].start(last, &long).unwrap()];
    started.extend(late.iter().zip(&mut rest).map(|(job, segment)| job.start(segment, &long).unwrap()));
    let mut errors = join_all(started).await.into_iter().map(Result::unwrap_err);
    assert_eq!(code(&errors.next().unwrap()), Code::DeadlineExceeded);
    for error in errors {
        assert_eq!(code(&error), Code::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("the host of ranks 0 to 2 had given it up"), "{error}");
    }
    jobs.extend(late);
    for outcome in sum(&jobs, 10).await {
        assert_eq!(outcome.unwrap().0, [15.0; 10]);
    }
}

#[tokio::test]
async fn deadlines_behind_an_all_reduce_that_a_process_does_not_start_pass_together() {
    let (_hosts, jobs) = start().await;
    let limit = Duration::from_millis(300);
    let short = Operation { deadline: Some(limit), ..Operation::whole::<f32>() };
    let mut segments = Vec::new();
    for number in 0..4 {
        segments.push(filled(&jobs[0], 10 + number, 1.0).await);
    }
    let began = Instant::now();
    let started: Vec<_> =
        segments.iter_mut().map(|segment| jobs[0].start(segment, &short).unwrap()).collect();
    for outcome in join_all(started).await {
        assert_eq!(code(&outcome.unwrap_err()), Code::DeadlineExceeded);
    }
    assert!(began.elapsed() < 3 * limit, "one after the other they would take 4 deadlines");
    // A later all-reduce has a deadline, too.
    let error = jobs[0].start(&mut segments[0], &short).unwrap().await.unwrap_err();
    assert_eq!(code(&error), Code::DeadlineExceeded);
}

#[tokio::test]
async fn an_all_reduce_that_is_refused_for_one_process_is_refused_for_all_of_its_host() {
    let (_hosts, jobs) = start().await;
    let heavy = Operation { weight: u32::MAX, ..Operation::whole::<f32>() };
    let mut segments = Vec::new();
    for job in &jobs[..3] {
        segments.push([filled(job, 10, 1.0).await, filled(job, 10, 1.0).await]);
    }
    let mut started = Vec::new();
    for (job, [first, second]) in jobs.iter().zip(&mut segments) {
        let operation = if job.rank() == 1 { &heavy } else { &Operation::whole::<f32>() };
        started.push((
            job.start(first, operation).unwrap(),
            job.start(second, &Operation::whole::<f32>()).unwrap(),
        ));
    }
    for (first, second) in started {
        assert_eq!(code(&first.await.unwrap_err()), Code::InvalidArgument);
        assert!(matches!(second.await, Err(ClientError::NotStarted)));
    }
    for outcome in sum(&jobs, 10).await {
        assert_eq!(outcome.unwrap().0, [15.0; 10]);
    }
}

#[tokio::test]
async fn processes_that_reduce_different_tensors_get_their_names() {
    let (mut hosts, jobs) = start().await;
    let mut segments = (filled(&jobs[0], 10, 1.0).await, filled(&jobs[1], 12, 1.0).await);
    let first =
        jobs[0].start(&mut segments.0, &Operation { name: "weight", ..Operation::whole::<f32>() }).unwrap();
    let second =
        jobs[1].start(&mut segments.1, &Operation { name: "bias", ..Operation::whole::<f32>() }).unwrap();
    let error = tokio::select! {
        error = second => error.unwrap_err(),
        error = first => error.unwrap_err(),
    };
    let text = error.to_string();
    assert!(
        text.contains("rank 0 \"weight\" of 10 f32") && text.contains("rank 1 \"bias\" of 12 f32"),
        "{text}"
    );
    hosts.directory.wait_for("w0 reports: its processes reduce different tensors").await;
}

#[tokio::test]
async fn a_process_that_dies_takes_its_host_out_of_the_job_and_is_named() {
    let (hosts, mut jobs) = start().await;
    let dead = jobs.remove(1);
    let mut segment = filled(&jobs[0], 10, 1.0).await;
    let waiting = jobs[0].start(&mut segment, &Operation::whole::<f32>()).unwrap();
    drop(dead);
    let error = waiting.await.unwrap_err().to_string();
    assert!(error.contains("the process of rank 1 is gone"), "{error}");
    drop(hosts);
}

#[tokio::test]
async fn a_host_joins_when_all_of_its_processes_have_come() {
    let hosts = Hosts::of_processes(PROCESSES).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let told_of = move |waiting: &Waiting| drop(tell.send(waiting.what.clone()));
    let first = join(hosts.socket(0), options(0, 0).on_waiting(told_of));
    let others =
        [(0, 1), (1, 0), (1, 1)].map(|(host, number)| join(hosts.socket(host), options(number, host)));
    let mut joining = Box::pin(async { tokio::join!(first, join_all(others)) });
    let missing = tokio::select! {
        what = told.recv() => what.unwrap(),
        _ = &mut joining => panic!("a process of w0 has not come"),
    };
    assert_eq!(missing, "process 2 of this host to join the job");
    assert_eq!(hosts.directory.heard(), ["w1 joins"]);
    let late = join(hosts.socket(0), options(2, 0));
    let ((first, others), late) = tokio::join!(joining, late);
    let jobs: Vec<_> = [first].into_iter().chain(others).chain([late]).map(Result::unwrap).collect();
    assert_eq!(hosts.directory.heard(), ["w0 joins", "w1 joins"]);
    for outcome in sum(&jobs, 10).await {
        assert_eq!(outcome.unwrap().0, [15.0; 10]);
    }
}

#[tokio::test]
async fn a_process_that_ends_before_the_others_have_come_is_replaced() {
    let hosts = Hosts::of_processes(PROCESSES).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let told_of = move |waiting: &Waiting| drop(tell.send(waiting.what.clone()));
    tokio::select! {
        joined = join(hosts.socket(0), options(0, 0).on_waiting(told_of)) => panic!("{joined:?}"),
        what = told.recv() => assert_eq!(what.unwrap(), "processes 1, 2 of this host to join the job"),
    }
    let jobs = join_all_processes(&hosts).await;
    for outcome in sum(&jobs, 10).await {
        assert_eq!(outcome.unwrap().0, [15.0; 10]);
    }
}

#[tokio::test]
async fn a_process_stops_waiting_for_the_others_of_its_host_when_the_job_is_over() {
    let hosts = Hosts::of_processes(PROCESSES).await;
    hosts.directory.forget();
    let error = join(hosts.socket(0), options(0, 0)).await.unwrap_err().to_string();
    assert!(error.contains("job \"star\" is over: it ended"), "{error}");
}

#[tokio::test]
async fn numbers_that_do_not_fit_together_are_refused() {
    let hosts = Hosts::of_processes(PROCESSES).await;
    let agent = Agent::connect(hosts.socket(0)).await.unwrap();
    let join = async |number, processes| {
        agent.join_with("star", TOKEN.into(), JoinOptions::default().process(number, processes)).await
    };
    for (number, processes) in [(3, 3), (0, 2000)] {
        assert_eq!(code(&join(number, processes).await.unwrap_err()), Code::InvalidArgument);
    }
    let jobs = join_all_processes(&hosts).await;
    assert_eq!(code(&join(1, 3).await.unwrap_err()), Code::AlreadyExists);
    let error = join(1, 2).await.unwrap_err();
    assert_eq!(code(&error), Code::InvalidArgument);
    assert!(error.to_string().contains("with 3 processes"), "{error}");
    drop(jobs);
}

#[tokio::test]
async fn another_process_takes_the_place_of_one_that_has_closed() {
    let (hosts, mut jobs) = start().await;
    sum(&jobs, 10).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
    jobs.remove(2).close().await.unwrap();
    jobs.insert(2, join(hosts.socket(0), options(2, 0)).await.unwrap());
    for outcome in sum(&jobs, 10).await {
        assert_eq!(outcome.unwrap().0, [15.0; 10]);
    }
}
