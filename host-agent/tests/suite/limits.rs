//! Processes that try to make an agent hold too many resources. The agent survives and reports the
//! limit, and another process's job continues.

use std::time::Duration;

use crate::directory::TOKEN;
use crate::pair::{Hosts, sum};
use crate::raw::{File, Process, refused};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::UnixStream;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::Code;
use tributary_api::agent::v1;
use tributary_client::{ClientError, ErrorKind, Job, Operation, Segment};
use tributary_host_agent::Limits;

/// More bytes of memory than any machine has.
const HUGE: u64 = 1 << 48;
const MIB: u64 = 1 << 20;
/// A test that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks that both ranks of the job get a sum, in spite of other processes' requests to their
/// agents.
async fn works([first, second]: &mut [Job; 2]) {
    let values = vec![1.5; 10_000];
    let (a, b) = tokio::join!(sum(first, &values), sum(second, &values));
    assert_eq!(a.unwrap(), vec![3.0; 10_000]);
    assert_eq!(b.unwrap(), vec![3.0; 10_000]);
}

fn usual() -> Limits {
    Limits::of_this_machine()
}

#[tokio::test]
async fn an_agent_that_was_restarted_counts_as_unreachable() {
    let hosts = Hosts::start().await;
    // Like an agent after its restart, the other host's agent does not know the session.
    let before = Process::train(&hosts.socket(0)).await.unwrap();
    let mut after = Process::train(&hosts.socket(1)).await.unwrap();
    after.take_session_of(&before);
    let Err(status) = after.close(0).await else { panic!("the agent knows the session") };
    let error = ClientError::Refused { code: status.code(), message: status.message().into() };
    assert_eq!(error.kind(), ErrorKind::AgentUnreachable);
    assert!(status.message().contains("it has been restarted"), "{status}");
}

#[tokio::test]
async fn a_size_without_memory_behind_it_is_not_believed() {
    let hosts = Hosts::start().await;
    let mut jobs = hosts.join_both().await;
    let mut process = Process::train(&hosts.socket(0)).await.unwrap();
    let sparse = File::sparse(HUGE);
    refused(process.open(&sparse, HUGE).await, Code::ResourceExhausted, "--max-segment");
    let sparse = File::sparse(1 << 30);
    refused(process.open(&sparse, 1 << 30).await, Code::InvalidArgument, "fallocate");
    works(&mut jobs).await;
}

#[tokio::test]
async fn shared_memory_whose_process_ended_before_it_was_open_is_freed() {
    let at_start = File::of(MIB);
    at_start.let_go();
    let hosts = Hosts::start().await;
    let mut jobs = hosts.join_both().await;
    gone(&at_start).await;
    let (held, at_end) = (File::of(MIB), File::of(MIB));
    let process = Process::train(&hosts.socket(0)).await.unwrap();
    at_end.let_go();
    drop(process);
    gone(&at_end).await;
    assert!(held.has_name());
    works(&mut jobs).await;
}

/// Waits until the file's name is removed.
async fn gone(file: &File) {
    timeout(PATIENCE, async {
        while file.has_name() {
            yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn without_a_limit_of_segments_memory_has_one() {
    let limits = Limits { segment_bytes: u64::MAX, mapped_bytes: u64::MAX, ..usual().with_memory(64 * MIB) };
    let hosts = Hosts::limited(&limits).await;
    let mut jobs = hosts.join_both().await;
    let mut process = Process::train(&hosts.socket(0)).await.unwrap();
    refused(process.open(&File::sparse(HUGE), HUGE).await, Code::InvalidArgument, "fallocate");
    // The file has all of this memory, but a training would take several times as much.
    let file = File::of(16 * MIB);
    let segment = process.open(&file, 16 * MIB).await.unwrap();
    refused(process.begin(segment, 4 * MIB).await, Code::ResourceExhausted, "--max-session-memory");
    works(&mut jobs).await;
}

#[tokio::test]
async fn an_all_reduce_that_needs_too_much_is_refused_and_a_smaller_one_is_not() {
    let limits = Limits { session_memory: MIB, ..usual() };
    let hosts = Hosts::limited(&limits).await;
    let open = async |rank| Process::join(&hosts.socket(rank), TOKEN).await.unwrap();
    let (mut first, mut second) = tokio::join!(open(0), open(1));
    let files = [File::of(MIB), File::of(MIB)];
    let segment = first.open(&files[0], MIB).await.unwrap();
    assert_eq!(second.open(&files[1], MIB).await.unwrap(), segment);
    let all = MIB / 4;
    refused(first.reduce(segment, all).await, Code::ResourceExhausted, "--max-session-memory");
    refused(first.reduce(segment, HUGE).await, Code::OutOfRange, "not all inside");
    refused(first.reduce(segment, u64::MAX).await, Code::OutOfRange, "not all inside");
    let (a, b) = tokio::join!(first.reduce(segment, all / 4), second.reduce(segment, all / 4));
    assert_eq!(a.unwrap().runs, b.unwrap().runs);
}

#[tokio::test]
async fn what_is_left_of_the_agents_memory_goes_to_whoever_comes_first() {
    let hosts = Hosts::limited(&usual().with_memory(128 * MIB)).await;
    let mut jobs = hosts.join_both().await;
    works(&mut jobs).await;
    // The steps wait for an unreachable server, and hold their memory as long as their process wishes.
    let file = File::of(MIB);
    let (first, mut waiting) = (Process::train(&hosts.socket(0)).await.unwrap(), Vec::new());
    let refusal = loop {
        let mut process = first.another().await.unwrap();
        let segment = process.open(&file, MIB).await.unwrap();
        match process.begin_and_wait(segment, MIB / 4).await {
            None => waiting.push(process),
            Some(refusal) => break refusal,
        }
        assert!(waiting.len() < 100, "nothing is refused");
    };
    refused::<()>(Err(refusal), Code::ResourceExhausted, "--max-memory");
    assert!(!waiting.is_empty());
    works(&mut jobs).await;
    // The memory of a process becomes free when the process ends.
    drop(waiting);
    let mut process = first.another().await.unwrap();
    let segment = process.open(&file, MIB).await.unwrap();
    while process.begin_and_wait(segment, MIB / 4).await.is_some() {}
}

#[tokio::test]
async fn sessions_are_as_many_as_there_may_be() {
    // One user's processes may have six of eight sessions. The job has one of the six.
    let hosts = Hosts::limited(&Limits { sessions: 8, ..usual() }).await;
    let mut jobs = hosts.join_both().await;
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(Process::train(&hosts.socket(0)).await.unwrap());
    }
    for _ in 0..20 {
        refused(Process::train(&hosts.socket(0)).await, Code::ResourceExhausted, "--max-sessions");
        refused(Process::join(&hosts.socket(0), TOKEN).await, Code::ResourceExhausted, "--max-sessions");
    }
    works(&mut jobs).await;
    drop(open.pop());
    while Process::train(&hosts.socket(0)).await.is_err() {}
}

#[tokio::test]
async fn segments_that_a_process_drops_make_room_for_others() {
    let hosts = Hosts::limited(&Limits { segments: 4, ..usual() }).await;
    let [first, _second] = hosts.join_both().await;
    let many = async {
        for _ in 0..100 {
            // The agent receives the release in the background.
            while first.segment(64).await.is_err() {
                yield_now().await;
            }
        }
    };
    timeout(PATIENCE, many).await.unwrap();
}

#[tokio::test]
async fn segments_are_as_many_as_there_may_be() {
    let hosts = Hosts::limited(&Limits { segments: 4, descriptors: 40, ..usual() }).await;
    let mut jobs = hosts.join_both().await;
    let file = File::of(64);
    let mut full = Process::train(&hosts.socket(0)).await.unwrap();
    for _ in 0..4 {
        full.open(&file, 64).await.unwrap();
    }
    refused(full.open(&file, 64).await, Code::ResourceExhausted, "--max-segments");
    full.close(2).await.unwrap();
    full.open(&file, 64).await.unwrap();
    // Many sessions on one connection use up the user's share of file descriptors, but not the agent's own descriptors.
    let mut others = Vec::new();
    let refusal = 'full: loop {
        let mut process = full.another().await.unwrap();
        for _ in 0..4 {
            if let Err(refusal) = process.open(&file, 64).await {
                break 'full refusal;
            }
        }
        others.push(process);
    };
    refused::<()>(Err(refusal), Code::ResourceExhausted, "LimitNOFILE");
    drop(others);
    // The job needs its own call for each sum.
    full.close(1).await.unwrap();
    works(&mut jobs).await;
}

#[tokio::test]
async fn calls_that_wait_are_as_many_as_there_may_be() {
    let hosts = Hosts::limited(&Limits { calls: 3, ..usual() }).await;
    let mut jobs = hosts.join_both().await;
    let mut process = Process::train(&hosts.socket(0)).await.unwrap();
    let file = File::of(64);
    let segment = process.open(&file, 64).await.unwrap();
    // No call ends before its server answers. So three calls run, and the agent refuses the others.
    let mut calls = FuturesUnordered::from_iter((0..10).map(|_| process.spawn_begin(segment, 16)));
    for _ in 0..7 {
        refused(calls.next().await.unwrap().unwrap(), Code::ResourceExhausted, "--max-calls");
    }
    works(&mut jobs).await;
}

#[tokio::test]
async fn all_reduces_that_there_is_no_room_for_wait_for_those_before_them() {
    // Each all-reduce takes slightly more than 128 KiB. The last all-reduce could never begin.
    let limits = Limits { calls: 4, session_memory: MIB / 2, ..usual() };
    let hosts = Hosts::limited(&limits).await;
    let [first, second] = hosts.join_both().await;
    let reduce = async |job: &Job| {
        let mut segments = Vec::new();
        for _ in 0..40 {
            segments.push(job.segment(64 << 10).await.unwrap());
        }
        let mut large = job.segment(MIB as usize).await.unwrap();
        let start = |(number, segment): (usize, &mut Segment)| {
            segment.elements_mut::<f32>().unwrap().fill(number as f32);
            job.start(segment, &Operation::whole::<f32>()).unwrap()
        };
        let started: Vec<_> = segments.iter_mut().enumerate().map(start).collect();
        let error = job.start(&mut large, &Operation::whole::<f32>()).unwrap().await.unwrap_err();
        assert!(error.to_string().contains("--max-session-memory"), "{error}");
        for (number, (reduction, segment)) in started.into_iter().zip(&segments).enumerate() {
            reduction.await.unwrap();
            assert!(segment.elements::<f32>().unwrap().iter().all(|sum| *sum == 2.0 * number as f32));
        }
    };
    // The process that has all results must not leave while the other process waits for its last result.
    tokio::join!(reduce(&first), reduce(&second));
}

#[tokio::test]
async fn bytes_of_two_all_reduces_under_way_do_not_overlap() {
    let hosts = Hosts::start().await;
    let socket = hosts.socket(0);
    let (process, second) = tokio::join!(Process::join(&socket, TOKEN), hosts.join(1, TOKEN));
    let (mut process, mut second) = (process.unwrap(), second.unwrap());
    let file = File::of(4096);
    let segment = process.open(&file, 4096).await.unwrap();
    // Adjacent ranges are allowed. A range that begins inside another range is refused, and no later all-reduce is
    // started.
    let asked = process.reduce_all(segment, &[(0, 100), (400, 100), (396, 1), (2000, 100)]);
    let both = async {
        for _ in 0..2 {
            sum(&mut second, &[1.0; 100]).await.unwrap();
        }
    };
    let (mut said, ()) = tokio::join!(asked, both);
    refused(said.remove(&2).unwrap(), Code::InvalidArgument, "overlap");
    assert!(said.remove(&3).is_none_or(|answer| answer.is_err()));
    said.into_values().for_each(|answer| drop(answer.unwrap()));
    // Afterwards the bytes are usable again, also through another segment number.
    let again = process.open(&file, 4096).await.unwrap();
    let (answer, sums) = tokio::join!(process.reduce(again, 100), sum(&mut second, &[1.0; 100]));
    answer.unwrap();
    sums.unwrap();
}

#[tokio::test]
async fn connections_are_as_many_as_there_may_be() {
    // One user's processes may have 30 of 40 file descriptors. The job has 6, and its process 2 during a sum.
    let hosts = Hosts::limited(&Limits { descriptors: 40, ..usual() }).await;
    let mut jobs = hosts.join_both().await;
    let mut open = Vec::new();
    let refusal = loop {
        match Process::train(&hosts.socket(0)).await {
            Ok(process) => open.push(process),
            Err(refusal) => break refusal,
        }
        assert!(open.len() < 100, "nothing is refused");
    };
    // The refusal is an HTTP/2 frame, because the limits leave no session for this process.
    assert!(format!("{refusal:?}").contains("LimitNOFILE"), "{refusal:?}");
    // Processes that open connections and read nothing must not keep the refusal from others.
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(UnixStream::connect(hosts.socket(0)).await.unwrap());
    }
    let words = hosts.join(0, TOKEN).await.unwrap_err().to_string();
    assert!(words.contains("broke") && words.contains("LimitNOFILE"), "{words}");
    drop(open.pop());
    while Process::train(&hosts.socket(0)).await.is_err() {}
    drop(open);
    works(&mut jobs).await;
}

#[tokio::test]
async fn segments_are_as_large_together_as_they_may_be_and_count_once() {
    // One user's processes may have three quarters of the limit.
    let hosts = Hosts::limited(&Limits { mapped_bytes: 4 * 4096, ..usual() }).await;
    let socket = hosts.socket(0);
    let (process, second) = tokio::join!(Process::join(&socket, TOKEN), hosts.join(1, TOKEN));
    let (mut process, _second) = (process.unwrap(), second.unwrap());
    let files = [4096, 4096, 4096, 4096].map(File::of);
    let mut open = Vec::new();
    for file in &files[..3] {
        open.push(process.open(file, 4096).await.unwrap());
    }
    refused(process.open(&files[3], 4096).await, Code::ResourceExhausted, "close segments");
    let again = process.open(&files[0], 4096).await.unwrap();
    // The agent releases the mapping when no session has the file open any more.
    process.close(open[0]).await.unwrap();
    refused(process.open(&files[3], 4096).await, Code::ResourceExhausted, "close segments");
    process.close(again).await.unwrap();
    while process.open(&files[3], 4096).await.is_err() {}
}

#[tokio::test]
async fn a_segment_that_shrinks_under_way_harms_its_own_process_only() {
    let hosts = Hosts::start().await;
    let socket = hosts.socket(0);
    let (process, second) = tokio::join!(Process::join(&socket, TOKEN), hosts.join(1, TOKEN));
    let (mut process, mut second) = (process.unwrap(), second.unwrap());
    let file = File::of(4096);
    let segment = process.open(&file, 4096).await.unwrap();
    let call = process.spawn_reduce(segment, 1024);
    hosts.has_sent(0).await;
    file.shrink_to(100);
    assert_eq!(sum(&mut second, &[1.0; 1024]).await.unwrap(), [1.0; 1024]);
    refused(call.await.unwrap(), Code::FailedPrecondition, "shorter");
    assert_eq!(file.len(), 100, "the agent has not made it longer again");
    // The agent also notices the shorter file before it reads, and other segments remain usable.
    refused(process.reduce(segment, 1024).await, Code::FailedPrecondition, "cannot be used");
    let file = File::of(4096);
    let segment = process.open(&file, 4096).await.unwrap();
    let (a, b) = tokio::join!(process.reduce(segment, 1024), sum(&mut second, &[1.0; 1024]));
    a.unwrap();
    b.unwrap();
}

#[tokio::test]
async fn names_and_lists_have_a_length() {
    let hosts = Hosts::start().await;
    let mut jobs = hosts.join_both().await;
    let socket = hosts.socket(0);
    let long = "x".repeat(300);
    let join =
        |job: &str, token: Vec<u8>| v1::OpenJobRequest { job: job.to_owned(), token, ..Default::default() };
    refused(Process::join_as(&socket, join(&long, Vec::new())).await, Code::InvalidArgument, "300 bytes");
    refused(Process::join_as(&socket, join("star", vec![0; 1 << 20])).await, Code::OutOfRange, "limit");
    let train = |job: &str, servers: Vec<String>| v1::OpenTrainingRequest {
        job: job.to_owned(),
        servers,
        patience_milliseconds: u64::MAX,
        ..v1::OpenTrainingRequest::default()
    };
    let unreachable = || vec!["127.0.0.1:1".to_owned()];
    refused(
        Process::train_as(&socket, train(&long, unreachable())).await,
        Code::InvalidArgument,
        "300 bytes",
    );
    let many = vec!["127.0.0.1:1".to_owned(); 65];
    refused(Process::train_as(&socket, train("job", many)).await, Code::InvalidArgument, "65 servers");
    let names = vec![long.clone()];
    refused(Process::train_as(&socket, train("job", names)).await, Code::InvalidArgument, "300 bytes");
    // A process may choose unlimited patience, because it holds no more than a session may hold.
    let mut patient = Process::train_as(&socket, train("job", Vec::new())).await.unwrap();
    let file = File::of(64);
    let segment = patient.open(&file, 64).await.unwrap();
    assert!(patient.begin_and_wait(segment, 16).await.is_none());
    let mut process = Process::train(&socket).await.unwrap();
    let segment = process.open(&file, 64).await.unwrap();
    refused(process.reduce(segment, 16).await, Code::FailedPrecondition, "open a job");
    works(&mut jobs).await;
}

#[tokio::test]
async fn a_tensors_name_has_a_length() {
    let hosts = Hosts::start().await;
    let open = async |rank| Process::join(&hosts.socket(rank), TOKEN).await.unwrap();
    let (mut first, mut second) = tokio::join!(open(0), open(1));
    let files = [File::of(64), File::of(64)];
    let segment = first.open(&files[0], 64).await.unwrap();
    second.open(&files[1], 64).await.unwrap();
    let refusal = first.reduce_as(segment, 16, &"x".repeat(1025)).await;
    refused(refusal, Code::InvalidArgument, "1025 bytes");
    let longest = "x".repeat(1024);
    let (a, b) =
        tokio::join!(first.reduce_as(segment, 16, &longest), second.reduce_as(segment, 16, &longest));
    a.unwrap();
    b.unwrap();
}
