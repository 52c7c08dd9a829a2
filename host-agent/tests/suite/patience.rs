//! Waits and their reports: deadlines of all-reduces, and controllers that are unreachable or hang.

use crate::hosts;
use std::time::{Duration, Instant};

use crate::fabric::Fabric;
use crate::hosts::{code, reduce};
use crate::line::Condition;
use tokio::sync::mpsc;
use tonic::Code;
use tributary_api::v1::{self, job_event::Event};
use tributary_client::{ClientError, Job, JoinOptions, Operation, Waiting};
use tributary_wire::SliceWidth;

async fn sum(job: &mut Job, value: f32) -> Result<f32, ClientError> {
    let mut values = [value; 1000];
    reduce(job, &mut values, Operation::whole::<f32>()).await?;
    Ok(values[0])
}

/// Starts an all-reduce in which the other members take no part. Returns its error.
async fn give_up(job: &mut Job) -> String {
    let mut values = [1.0; 1000];
    let deadline = Some(Duration::from_millis(50));
    let operation = Operation { name: "w1", deadline, ..Operation::whole::<f32>() };
    let error = reduce(job, &mut values, operation).await.unwrap_err();
    assert_eq!(code(&error), Code::DeadlineExceeded, "{error}");
    assert_eq!(values, [1.0; 1000], "elements of a sum that there is not");
    error.to_string()
}

#[tokio::test]
async fn an_all_reduce_that_takes_too_long_says_what_is_missing_and_the_job_goes_on() {
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    fabric.directory.is_set_back("the disk is full");
    let error = give_up(&mut first).await;
    let absent = "not waiting for a result when its agent told last: rank 1 (w1): look";
    let setback = "; the job cannot change over: the disk is full";
    let words = [
        "\"w1\"",
        "5 of its 5 slices have no result",
        "it was given 50ms",
        "no result of slice 1,",
        absent,
        setback,
    ];
    for words in words {
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
    // The other member's all-reduce ends, and both members take part in the next one.
    let operation = Operation { name: "w1", ..Operation::whole::<f32>() };
    reduce(&mut second, &mut [1.0; 1000], operation).await.unwrap();
    let (a, b) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 2.0));
    assert_eq!((a.unwrap(), b.unwrap()), (3.0, 3.0));
}

#[tokio::test]
async fn those_under_way_behind_one_that_is_given_up_do_not_wait_for_their_times_one_after_the_other() {
    const LIMIT: Duration = Duration::from_secs(1);
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let [first, mut second] = fabric.join_all(JoinOptions::default()).await;
    let mut segments = Vec::new();
    for _ in 0..20 {
        segments.push(first.segment(4).await.unwrap());
    }
    let operation = Operation { deadline: Some(LIMIT), ..Operation::whole::<f32>() };
    let began = Instant::now();
    let under_way: Vec<_> =
        segments.iter_mut().map(|segment| first.start(segment, &operation).unwrap()).collect();
    for reduction in under_way {
        assert_eq!(code(&reduction.await.unwrap_err()), Code::DeadlineExceeded);
    }
    assert!((LIMIT..10 * LIMIT).contains(&began.elapsed()), "{:?}", began.elapsed());
    // An all-reduce that is started later has its own deadline, even if it must wait for the earlier ones.
    let mut segment = first.segment(4).await.unwrap();
    let late = first.start(&mut segment, &operation).unwrap();
    // The all-reduces whose bounds the first member has not sent have no sum.
    for _ in 0..20 {
        let outcome = reduce(&mut second, &mut [1.0], Operation::whole::<f32>()).await;
        assert!(outcome.is_ok() || code(&outcome.unwrap_err()) == Code::FailedPrecondition);
    }
    reduce(&mut second, &mut [1.0], Operation::whole::<f32>()).await.unwrap();
    late.await.unwrap();
}

#[tokio::test]
async fn members_that_give_different_things_are_told_what_the_controller_makes_of_it() {
    let gave = ["w0 gave weight, 10 of f32 at 1", "w1 gave bias, 10 of f32 at 1"];
    let not_told = "The controller, which would say which rank gave what, was not told: the controller cannot be reached to \
                    take a report";
    for (condition, words) in [(Condition::Whole, gave), (Condition::Cut, [not_told; 2])] {
        let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
        let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
        fabric.line.set(condition);
        // Both ranks reduce equal tensors in a different order.
        let [weight, bias] = ["weight", "bias"].map(|name| Operation { name, ..Operation::whole::<f32>() });
        let (mut a, mut b) = ([1.0; 10], [1.0; 10]);
        let (a, b) = tokio::join!(reduce(&mut first, &mut a, weight), reduce(&mut second, &mut b, bias));
        for (outcome, words) in [a, b].into_iter().zip(words) {
            let error = outcome.unwrap_err();
            assert_eq!(code(&error), Code::FailedPrecondition, "{error}");
            assert!(error.to_string().contains(words), "{words:?} is not in: {error}");
        }
    }
}

#[tokio::test]
async fn a_wrong_sum_that_fails_the_job_fails_what_is_under_way_at_a_member_that_has_not_noticed() {
    for (wrong_sum, told, words) in [
        (true, Code::FailedPrecondition, "collective \"w\": ranks 0 and 1 differ"),
        (false, Code::Aborted, "failed: ranks 0 and 1 differ"),
    ] {
        let (sent, mut gradients) = mpsc::unbounded_channel();
        let meddle = move |from, frame: &mut Vec<u8>| {
            if from == 0 && frame.len() > SliceWidth::ETHERNET.bytes() {
                // The test may be over and may have dropped the receiver.
                let _ = sent.send(());
            }
        };
        let mut fabric = Fabric::start(2, Box::new(meddle)).await;
        let [mut first, _second] = fabric.join_all(JoinOptions::default()).await;
        let failure = Event::Failed(v1::JobFailed { reason: "ranks 0 and 1 differ".into(), wrong_sum });
        let operation = Operation { name: "w", ..Operation::whole::<f32>() };
        let mut values = [1.0; 1000];
        let (reduced, ()) = tokio::join!(reduce(&mut first, &mut values, operation), async {
            gradients.recv().await.unwrap();
            fabric.directory.tell("w0", failure).await;
        });
        let error = reduced.unwrap_err();
        assert_eq!(code(&error), told, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        // No member runs an all-reduce that is started after the job's end.
        let later = sum(&mut first, 1.0).await.unwrap_err();
        assert_eq!(code(&later), Code::Aborted, "{later}");
        assert!(later.to_string().contains("ranks 0 and 1 differ"), "{later}");
    }
}

#[tokio::test]
async fn a_deadline_that_passes_during_a_change_says_so_and_that_the_controller_is_away() {
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    fabric.prepare().await;
    let error = give_up(&mut first).await;
    for words in ["it has not begun", "the job has been changing over to another generation for"] {
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
    fabric.line.set(Condition::Cut);
    // The agent notices the cut after some time.
    while !give_up(&mut second).await.contains("the controller has been unreachable for") {}

    fabric.line.set(Condition::Whole);
    fabric.directory.wait_for("w0 comes back in generation 1").await;
}

#[tokio::test]
async fn a_process_is_told_what_it_is_waiting_for() {
    let fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    fabric.directory.waits_for("host w1, which has not joined");
    fabric.directory.is_set_back("the disk is full");
    let (tell, mut told) = mpsc::unbounded_channel::<Waiting>();
    let options = JoinOptions::default().on_waiting(move |waiting| drop(tell.send(waiting.clone())));
    let first = tokio::spawn(hosts::join(fabric.socket(0), options));
    let waiting = told.recv().await.unwrap();
    let what = "the job to start; the controller waits for host w1, which has not joined; the job cannot change over: the disk \
                is full";
    assert_eq!(waiting.what, what);
    assert!(waiting.time >= Duration::from_secs(2));

    let mut second = hosts::join(fabric.socket(1), JoinOptions::default()).await.unwrap();
    let mut first = first.await.unwrap().unwrap();
    fabric.directory.waits_for("host w1, which has given nothing");
    let mut reducing = std::pin::pin!(sum(&mut first, 1.0));
    let waiting = loop {
        tokio::select! {
            reduced = &mut reducing => panic!("{reduced:?} without the others"),
            // Some reports may remain from the wait for the start.
            waiting = told.recv() => match waiting.unwrap() {
                waiting if waiting.what.contains("to start") => {}
                waiting => break waiting.to_string(),
            },
        }
    };
    for words in ["no result of slice 1", "; the controller waits for host w1, which has given nothing"] {
        assert!(waiting.starts_with("waiting for ") && waiting.contains(words), "{waiting}");
    }
    let (a, b) = tokio::join!(reducing, sum(&mut second, 2.0));
    assert_eq!((a.unwrap(), b.unwrap()), (3.0, 3.0));
}

#[tokio::test]
async fn processes_notice_nothing_of_a_controller_that_is_away_and_the_agents_come_back_to_it() {
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    fabric.line.set(Condition::Cut);
    for value in [1.0, 2.0] {
        let (a, b) = tokio::join!(sum(&mut first, value), sum(&mut second, 1.0));
        assert_eq!((a.unwrap(), b.unwrap()), (value + 1.0, value + 1.0));
    }
    fabric.line.set(Condition::Whole);
    fabric.come_back().await;
    fabric.structure = fabric.structure.next();
    fabric.change().await;
    let (a, b) = tokio::join!(sum(&mut first, 3.0), sum(&mut second, 3.0));
    assert_eq!((a.unwrap(), b.unwrap(), first.generation()), (6.0, 6.0, 2));

    // The controller has forgotten the job, so the members cannot join again.
    fabric.directory.forget();
    fabric.directory.hang_up("w0");
    fabric.directory.hang_up("w1");
    let error = loop {
        match tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0)) {
            (Ok(_), _) => {}
            (Err(error), _) => break error,
        }
    };
    assert_eq!(code(&error), Code::Aborted);
    assert!(error.to_string().contains("the job is over: it was ended"), "{error}");
}

#[tokio::test]
async fn a_controller_that_hangs_holds_up_neither_a_process_that_goes_nor_the_end_of_an_agent() {
    let mut fabric = Fabric::start(2, Box::new(|_, _| {})).await;
    let [first, mut second] = fabric.join_all(JoinOptions::default()).await;
    fabric.line.set(Condition::Stopped);
    drop(first);
    let agent = fabric.agents.remove(1);
    let (stopped, ()) = tokio::join!(sum(&mut second, 1.0), agent.shutdown());
    assert!(matches!(code(&stopped.unwrap_err()), Code::Aborted | Code::Unavailable));
    assert!(!fabric.socket(1).exists());
}
