//! Many all-reduces of one process that are under way at the same time.

use std::time::Duration;

use crate::hosts::code;
use crate::pair::{Hosts, sum};
use crate::raw::{File, Process};
use tonic::Code;
use tributary_client::{ClientError, Job, Operation, Reduction, Segment};
use tributary_host_agent::Limits;

/// Creates segments of these lengths in elements. Each segment is filled with its number.
async fn segments(job: &Job, lengths: &[usize]) -> Vec<Segment> {
    let mut segments = Vec::new();
    for (number, elements) in lengths.iter().enumerate() {
        let mut segment = job.segment(4 * elements).await.unwrap();
        segment.elements_mut::<f32>().unwrap().fill(number as f32);
        segments.push(segment);
    }
    segments
}

fn start(job: &Job, segments: &mut [Segment]) -> Vec<Reduction> {
    segments.iter_mut().map(|segment| job.start(segment, &Operation::whole::<f32>()).unwrap()).collect()
}

fn are_doubled(segments: &[Segment]) {
    for (number, segment) in segments.iter().enumerate() {
        let sums = segment.elements::<f32>().unwrap();
        assert!(sums.iter().all(|sum| *sum == 2.0 * number as f32), "{number}: {sums:?}");
    }
}

#[tokio::test]
async fn all_reduces_are_done_in_the_order_of_their_starts_and_awaited_in_any() {
    let hosts = Hosts::start().await;
    let [first, second] = hosts.join_both().await;
    // The lengths are partly equal and partly different, so that sums of elements from different segments would show.
    let lengths: Vec<usize> =
        (0..60).map(|number| if number % 3 == 0 { 1000 } else { 1 + 97 * number }).collect();
    let (mut a, mut b) = tokio::join!(segments(&first, &lengths), segments(&second, &lengths));
    let started = [start(&first, &mut a), start(&second, &mut b)];
    assert!(matches!(first.start(&mut a[7], &Operation::whole::<f32>()), Err(ClientError::SegmentInUse)));
    for reduction in started.into_iter().flat_map(|started| started.into_iter().rev()) {
        let reduced = reduction.await.unwrap();
        assert_eq!((reduced.runs.len(), reduced.runs[0].contributors), (1, 2));
        assert!(reduced.in_agent > Duration::ZERO);
    }
    are_doubled(&a);
    are_doubled(&b);
    first.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_share_a_job() {
    const THREADS: usize = 4;
    let hosts = Hosts::start().await;
    let mut threads = Vec::new();
    // The jobs are kept until all sums are done. A process that drops its job without closing it counts as dead, and
    // the job ends with it.
    let jobs = hosts.join_both().await;
    for job in &jobs {
        for mut segment in segments(job, &[100; THREADS]).await {
            let job = job.clone();
            threads.push(std::thread::spawn(move || {
                for _ in 0..20 {
                    segment.elements_mut::<f32>().unwrap().fill(1.0);
                    job.start(&mut segment, &Operation::whole::<f32>()).unwrap().wait().unwrap();
                    assert_eq!(segment.elements::<f32>().unwrap(), [2.0; 100]);
                }
            }));
        }
    }
    let waiting =
        tokio::task::spawn_blocking(|| threads.into_iter().try_for_each(std::thread::JoinHandle::join));
    waiting.await.unwrap().unwrap();
    drop(jobs);
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_goes_on_and_gives_its_segment_back() {
    let hosts = Hosts::start().await;
    let [first, second] = hosts.join_both().await;
    let (mut a, mut b) = tokio::join!(segments(&first, &[10; 3]), segments(&second, &[10; 3]));
    drop(start(&first, &mut a));
    assert!(a[0].is_in_use() && matches!(a[0].elements::<f32>(), Err(ClientError::SegmentInUse)));
    for reduction in start(&second, &mut b) {
        reduction.await.unwrap();
    }
    while a.iter().any(Segment::is_in_use) {
        tokio::task::yield_now().await;
    }
    are_doubled(&a);
    are_doubled(&b);
}

#[tokio::test]
async fn nothing_behind_one_that_is_refused_takes_its_place() {
    let hosts = Hosts::start().await;
    let [mut first, mut second] = hosts.join_both().await;
    let mut own = segments(&first, &[10; 4]).await;
    let outside = Operation { elements: Some(5..11), ..Operation::whole::<f32>() };
    let good = first.start(&mut own[0], &Operation::whole::<f32>()).unwrap();
    let refused = first.start(&mut own[1], &outside).unwrap();
    let behind = start(&first, &mut own[2..]);
    assert_eq!(code(&refused.await.unwrap_err()), Code::OutOfRange);
    for reduction in behind {
        assert!(matches!(reduction.await, Err(ClientError::NotStarted)));
    }
    assert!(own[1..].iter().all(|segment| !segment.is_in_use()));
    // The earlier all-reduces are done. The next all-reduce is the same on both ranks.
    assert_eq!(sum(&mut second, &[0.0; 10]).await.unwrap(), [0.0; 10]);
    good.await.unwrap();
    let (a, b) = tokio::join!(sum(&mut first, &[4.0; 10]), sum(&mut second, &[4.0; 10]));
    assert_eq!((a.unwrap(), b.unwrap()), (vec![8.0; 10], vec![8.0; 10]));
}

#[tokio::test]
async fn those_behind_one_that_is_given_up_have_had_its_time_and_go_on_for_the_others() {
    let hosts = Hosts::start().await;
    let [mut first, mut second] = hosts.join_both().await;
    let mut own = segments(&first, &[10; 3]).await;
    let limit = Duration::from_millis(50);
    let operation = Operation { deadline: Some(limit), ..Operation::whole::<f32>() };
    let began = std::time::Instant::now();
    let started: Vec<_> = own.iter_mut().map(|segment| first.start(segment, &operation).unwrap()).collect();
    for reduction in started {
        assert_eq!(code(&reduction.await.unwrap_err()), Code::DeadlineExceeded);
        assert!(began.elapsed() >= limit);
    }
    // The bounds of the first were sent, so that it has a sum. The others had sent nothing.
    sum(&mut second, &[1.0; 10]).await.unwrap();
    for _ in 0..2 {
        let error = sum(&mut second, &[1.0; 10]).await.unwrap_err();
        assert_eq!(code(&error), Code::FailedPrecondition);
        assert!(error.to_string().contains("rank 0 had given it up"), "{error}");
    }
    let (a, b) = tokio::join!(sum(&mut first, &[4.0; 10]), sum(&mut second, &[4.0; 10]));
    assert_eq!((a.unwrap(), b.unwrap()), (vec![8.0; 10], vec![8.0; 10]));
}

#[tokio::test]
async fn with_a_process_goes_all_that_it_has_under_way() {
    const MIB: u64 = 1 << 20;
    let limits = Limits::of_this_machine().with_memory(40 * MIB);
    let mut hosts = Hosts::limited(&limits).await;
    let [first, mut second] = hosts.join_both().await;
    let mut own = segments(&first, &[64 << 10; 40]).await;
    let started = start(&first, &mut own);
    hosts.has_sent(0).await;
    drop(first);
    hosts.directory.wait_for("w0 leaves: its training process is gone").await;
    for reduction in started {
        reduction.await.unwrap_err();
    }
    assert_eq!(code(&sum(&mut second, &[1.0]).await.unwrap_err()), Code::Aborted);
    // Another session takes most of the memory.
    let mut process = Process::train(&hosts.socket(0)).await.unwrap();
    let file = File::of(2 * MIB);
    let segment = process.open(&file, 2 * MIB).await.unwrap();
    while process.begin_and_wait(segment, MIB * 7 / 16).await.is_some() {}
}
