//! Jobs that continue after the loss of training processes, agents, or servers. A simulated
//! controller changes the job as the test orders.

use crate::hosts;
use crate::job;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::fabric::Fabric;
use crate::hosts::{code, reduce};
use crate::star::Meddle;
use tonic::Code;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::{self, job_event::Event};
use tributary_api::{FinishedSlice, TakeOver};
use tributary_client::{ClientError, Job, JoinOptions, Operation, Reduction};
use tributary_protocol::merge;
use tributary_wire::frame::{FrameHeader, emit, frame_len};
use tributary_wire::{FrameView, Header, Kind, Message, Rank, Seq};

fn honest() -> Meddle {
    Box::new(|_, _| {})
}

/// Sums an array of this value. Returns the sum and the number of members that it includes.
async fn sum(job: &mut Job, value: f32) -> Result<(f32, u32), ClientError> {
    let mut values = [value; 1000];
    let runs = reduce(job, &mut values, Operation::whole::<f32>()).await?;
    assert!(values.iter().all(|sum| *sum == values[0]) && runs.len() == 1, "{runs:?}");
    Ok((values[0], runs[0].contributors))
}

/// Ends a member's process. The other members continue without it.
async fn lose(fabric: &mut Fabric, rank: u8, process: Job, reason: &'static str) {
    drop(process);
    fabric.directory.wait_for(&format!("w{rank} leaves: its training process is gone")).await;
    go_on_without(fabric, rank, reason).await;
}

async fn go_on_without(fabric: &mut Fabric, rank: u8, reason: &'static str) {
    fabric.structure = fabric.structure.next();
    fabric.structure.ranks.retain(|other| *other != rank);
    fabric.structure.reason = reason;
    fabric.change().await;
}

#[tokio::test]
async fn those_who_are_left_go_on_with_what_they_have_begun() {
    let mut fabric = Fabric::start(3, honest()).await;
    let [mut first, mut second, third] = fabric.join_all(JoinOptions::default()).await;
    // The two workers wait for the third worker's contribution until that worker is gone.
    let loss = lose(&mut fabric, 2, third, "w2 is gone");
    let (a, b, ()) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 2.0), loss);
    assert_eq!((a.unwrap(), b.unwrap()), ((3.0, 2), (3.0, 2)));
    assert_eq!((first.ranks(), first.generation()), (vec![0, 1], 2));
    assert_eq!(first.lost(), BTreeMap::from([(2, "w2 is gone".to_owned())]));
    fabric.structure = fabric.structure.next();
    fabric.change().await;
    let (a, b) = tokio::join!(sum(&mut first, 5.0), sum(&mut second, 2.0));
    assert_eq!((a.unwrap(), b.unwrap()), ((7.0, 2), (7.0, 2)));
    assert_eq!(first.lost().len(), 1, "a later change has another reason, and is none for this");
}

#[tokio::test]
async fn one_that_is_detached_is_told_at_once_and_the_others_go_on() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default().elastic()).await;
    let (a, b) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0));
    a.and(b).unwrap();
    let change = async {
        fabric.structure = fabric.structure.next();
        fabric.structure.ranks = vec![0];
        let word = v1::JobDetached { generation: 2, data_adopted: true, reason: "it is slow".into() };
        fabric.directory.tell("w1", Event::Detached(word)).await;
    };
    // The worker also gets this answer to an all-reduce under way.
    let (told, ()) = tokio::join!(sum(&mut second, 1.0), change);
    for told in [told, sum(&mut second, 2.0).await] {
        let Err(ClientError::Detached(detached)) = told else { panic!("{told:?}") };
        assert_eq!((detached.generation, detached.data_adopted, &*detached.reason), (2, true, "it is slow"));
    }
    fabric.change().await;
    assert_eq!(sum(&mut first, 5.0).await.unwrap(), (5.0, 1));
    assert_eq!((second.ranks(), second.generation()), (vec![0, 1], 1), "as it was last in");
}

#[tokio::test]
async fn a_training_is_left_at_its_end_and_who_was_not_in_then_is_told_that_the_job_has_ended() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [first, mut second] = fabric.join_all(JoinOptions::default().elastic()).await;
    let word = v1::JobDetached { generation: 2, data_adopted: false, reason: "it is slow".into() };
    fabric.directory.tell("w1", Event::Detached(word)).await;
    first.finish().await.unwrap();
    fabric.directory.wait_for("w0 leaves at its end: ").await;
    fabric.directory.tell("w1", Event::Ended(v1::JobEnded {})).await;
    let ended = loop {
        match sum(&mut second, 1.0).await {
            // The member has not received the end yet.
            Err(ClientError::Detached(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(ended, Err(ClientError::JobEnded(_))), "{ended:?}");
    assert!(matches!(sum(&mut second, 1.0).await, Err(ClientError::JobEnded(_))));
}

#[tokio::test]
async fn nobody_moves_between_prepare_and_the_change() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    let (a, b) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0));
    a.and(b).unwrap();
    let progress = fabric.prepare().await;
    let (one, other) = (&progress["w0"], &progress["w1"]);
    assert_eq!((one, one.begun, one.idle), (other, 1, true));
    // The operation has one MAX slice and four SUM slices.
    assert_eq!((one.next_seqs.clone(), one.dues.len()), (vec![6], usize::try_from(job::WINDOW).unwrap()));

    let mut frozen = std::pin::pin!(async { tokio::join!(sum(&mut first, 2.0), sum(&mut second, 3.0)) });
    // The second request arrives after the all-reduces, which the frozen workers do not begin.
    tokio::select! {
        _ = &mut frozen => panic!("a frozen worker has reduced"),
        progress = fabric.prepare() => assert!(progress.values().all(|member| member.begun == 1)),
    }
    fabric.structure = fabric.structure.next();
    let ((a, b), ()) = tokio::join!(frozen, fabric.change());
    assert_eq!((a.unwrap(), b.unwrap()), ((5.0, 2), (5.0, 2)));
}

#[tokio::test]
async fn a_change_that_is_off_lets_them_go_on_where_they_are() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    fabric.prepare().await;
    let both = async { tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0)) };
    // A change to the present generation cancels the other change.
    let ((a, b), ()) = tokio::join!(both, fabric.change());
    assert_eq!((a.unwrap(), b.unwrap()), ((2.0, 2), (2.0, 2)));
    assert_eq!(first.generation(), 1);
}

#[tokio::test]
async fn members_proceed_to_where_the_furthest_one_is() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    let mut ahead = Box::pin(sum(&mut first, 1.0));
    let progress = loop {
        tokio::select! {
            _ = &mut ahead => panic!("it has reduced alone"),
            progress = fabric.prepare() => if progress["w0"].begun == 1 { break progress },
        }
        // The first worker had not begun at the time of the request.
        fabric.change().await;
    };
    assert_eq!((progress["w0"].idle, progress["w1"].idle, progress["w1"].begun), (false, true, 0));

    fabric.tell_workers(Event::Proceed(v1::Proceed { generation: 2, until: 1 })).await;
    let two_of_them = async {
        let first = sum(&mut second, 2.0).await.unwrap();
        (first, sum(&mut second, 3.0).await)
    };
    let mut behind = std::pin::pin!(two_of_them);
    let progress = tokio::select! {
        _ = &mut behind => panic!("it has gone further than it may"),
        progress = fabric.directory.progress(2) => progress,
    };
    assert!(progress.values().all(|member| member.begun == 1 && member.idle), "{progress:?}");
    assert_eq!(ahead.await.unwrap(), (3.0, 2));

    fabric.structure = fabric.structure.next();
    let (two, one, ()) = tokio::join!(behind, sum(&mut first, 4.0), fabric.change());
    assert_eq!((two.0, two.1.unwrap(), one.unwrap()), ((3.0, 2), (7.0, 2), (7.0, 2)));
}

/// Changes a frame's destination to a host that does not exist.
fn divert(frame: &mut [u8]) {
    frame[5] = 99;
}

/// Withholds results from a worker, starting with the slice `from`, until the returned flag is
/// cleared.
fn keep_from(rank: u16, from: Seq) -> (Meddle, Arc<AtomicBool>) {
    let keeps = Arc::new(AtomicBool::new(true));
    let meddling = Arc::clone(&keeps);
    let meddle = move |_, frame: &mut Vec<u8>| {
        let is_kept = FrameView::parse(frame).is_ok_and(|view| {
            let header = view.message().header();
            header.kind == Kind::Result && header.rank == Rank::new(rank) && header.seq.distance(from) >= 0
        });
        if is_kept && meddling.load(Ordering::Acquire) {
            divert(frame);
        }
    };
    (Box::new(meddle), keeps)
}

#[tokio::test]
async fn another_server_goes_on_where_one_was_lost() {
    // The first worker gets results that the second worker does not get.
    let (meddle, keeps) = keep_from(1, Seq(10));
    let mut fabric = Fabric::start_unicast(2, meddle).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default()).await;
    let gradient =
        |rank: u8| (0..25_600).map(|at| (at % 997) as f32 * f32::from(rank + 1)).collect::<Vec<_>>();
    let (mut a, mut b) = (gradient(0), gradient(1));
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let whole = || Operation::whole::<f32>();
    let mut both = Box::pin(async {
        tokio::join!(reduce(&mut first, &mut a, whole()), reduce(&mut second, &mut b, whole()))
    });

    let change = async {
        // Slice 9 is the last slice that both workers have; the first worker has at least 16 further results.
        fabric.wait_until(|results| results[0] >= 9 + 16 && results[1] == 9).await;
        fabric.relieve().await;
        let progress = fabric.prepare().await;
        let dues = |host: &str| progress[host].dues.iter().copied().map(Seq).collect::<Vec<_>>();
        let (one, other) = (dues("w0"), dues("w1"));
        let over = merge(job::WINDOW, &[(Rank::new(0), &one), (Rank::new(1), &other)]).unwrap();
        let mut seqs: Vec<_> = over.wanted.iter().map(|(seq, _)| seq.0).collect();
        seqs.sort_unstable();
        let wanted = seqs.len();
        assert!(wanted >= 16 && seqs.iter().copied().eq((10..).take(wanted)), "{seqs:?}");
        assert!(over.wanted.iter().all(|(_, owner)| *owner == Rank::new(0)));

        fabric.directory.tell("w0", Event::Provide(v1::Provide { generation: 2, seqs })).await;
        let (_, 2, Answer::Provided(provided)) = fabric.directory.answer().await else { panic!("nothing") };
        let finished: Vec<_> =
            provided.slices.iter().map(|slice| FinishedSlice::try_from(slice).unwrap()).collect();
        assert_eq!(finished.len(), wanted);
        keeps.store(false, Ordering::Release);
        fabric.structure = fabric.structure.next();
        fabric.take_over(TakeOver { dues: over.dues, finished }).await;
    };
    let ((one, other), ()) = tokio::join!(&mut both, change);
    assert_eq!(one.unwrap(), other.unwrap());
    drop(both);
    assert!(a == expected && b == expected);
    let (a, b) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 1.0));
    assert_eq!((a.unwrap(), b.unwrap()), ((2.0, 2), (2.0, 2)));
}

/// Withholds the server's results from two members, starting with the slice `from`, until the third
/// member has left. Then both members send these slices again. After both have sent a slice, the first member gets
/// their sum instead of the server's result.
fn divide(from: Seq, divided: Arc<AtomicU64>) -> Meddle {
    /// The data-plane id of the second generation.
    const SECOND: u16 = 8;
    let (mut gradients, mut given) = (HashMap::new(), HashSet::new());
    Box::new(move |sender, frame| {
        let Ok(view) = FrameView::parse(frame) else { return };
        let (header, values) = (*view.message().header(), view.message().values());
        let Header { kind, job, rank, seq, .. } = header;
        match (kind, values) {
            (Kind::Result, _) => {
                let is_kept = match job.get() {
                    SECOND => rank == Rank::new(0) && !given.contains(&seq),
                    _ => rank < Rank::new(2) && seq.distance(from) >= 0,
                };
                if is_kept {
                    divert(frame);
                }
            }
            (Kind::Gradient, Some(values)) if job.get() == SECOND => {
                let gradient = (header.totals, values.iter().collect::<Vec<_>>());
                gradients.insert((sender, seq), gradient);
                let both = gradients.get(&(0, seq)).zip(gradients.get(&(1, seq)));
                let Some((one, other)) = both.filter(|_| given.insert(seq)) else { return };
                let mut totals = one.0;
                totals.add(other.0);
                let values: Vec<_> = one.1.iter().zip(&other.1).map(|(a, b)| a.wrapping_add(*b)).collect();
                let [worker, server] = [0, job::SERVER_NUMBER].map(job::host);
                let addresses = FrameHeader {
                    source_mac: server.mac,
                    destination_mac: worker.mac,
                    source_ip: server.ip,
                    destination_ip: worker.ip,
                };
                let header =
                    Header { kind: Kind::Result, retransmit: false, rank: Rank::new(0), totals, ..header };
                let message = Message { header, hops: &[], values: Some(&values) };
                *frame = vec![0; frame_len(&message)];
                emit(&addresses, &message, frame).unwrap();
                divided.fetch_add(1, Ordering::Relaxed);
            }
            (Kind::Gradient, _) => {}
        }
    })
}

#[tokio::test]
async fn a_true_sum_of_those_who_stay_is_not_taken_in_place_of_the_servers() {
    let divided = Arc::new(AtomicU64::new(0));
    let mut fabric = Fabric::start_unicast(3, divide(Seq(10), Arc::clone(&divided))).await;
    let [mut first, mut second, mut third] = fabric.join_all(JoinOptions::default()).await;
    let gradient = |rank: u8| vec![f32::from(rank) + 1.0; 25_600];
    let (mut a, mut b, mut c) = (gradient(0), gradient(1), gradient(2));
    let whole = || Operation::whole::<f32>();
    let mut both = Box::pin(async {
        tokio::join!(reduce(&mut first, &mut a, whole()), reduce(&mut second, &mut b, whole()))
    });
    tokio::select! {
        _ = reduce(&mut third, &mut c, whole()) => panic!("the others have not sent all"),
        _ = &mut both => panic!("they have got all"),
        // The server has finished at least 16 slices that only the third worker has.
        () = fabric.wait_until(|results| results[0] == 9 && results[1] == 9 && results[2] >= 9 + 16) => {}
    }
    let ((one, other), ()) = tokio::join!(&mut both, lose(&mut fabric, 2, third, "w2 is gone"));
    assert_eq!(one.unwrap(), other.unwrap(), "both say over whom each part is summed");
    drop(both);
    assert!(a == b && divided.load(Ordering::Relaxed) >= 16);
    let of_three = a.iter().filter(|sum| **sum == 6.0).count();
    assert!(of_three >= 24 * 256 && a.iter().all(|sum| [3.0, 6.0].contains(sum)), "{of_three} are of three");
}

#[tokio::test]
async fn a_member_that_was_removed_is_told_why_and_may_come_back() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [mut first, mut second] = fabric.join_all(JoinOptions::default().elastic()).await;
    let removed = v1::JobRemoved { reason: "leaf1, its switch, is dead".into() };
    let (error, ()) =
        tokio::join!(sum(&mut second, 1.0), fabric.directory.tell("w1", Event::Removed(removed)));
    let error = error.unwrap_err();
    assert_eq!(code(&error), Code::Aborted);
    assert!(error.to_string().contains("goes on without this host: leaf1, its switch, is dead"), "{error}");
    fabric.structure = fabric.structure.next();
    fabric.structure.ranks = vec![0];
    fabric.change().await;
    assert_eq!(sum(&mut first, 1.0).await.unwrap(), (1.0, 1));

    drop(second);
    let mut second = join_again(&mut fabric, 1).await;
    let (a, b) = tokio::join!(synchronised(&mut first, 1.0), synchronised(&mut second, 2.0));
    assert_eq!((a, b), (1.0, 1.0));
    let (a, b) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 4.0));
    assert_eq!((a.unwrap(), b.unwrap()), ((5.0, 2), (5.0, 2)));
}

/// Removes a member from the job at the controller, and ends the member's process.
async fn remove(fabric: &mut Fabric, rank: u8, process: Job) {
    let removed = v1::JobRemoved { reason: "a test".into() };
    fabric.directory.tell(&format!("w{rank}"), Event::Removed(removed)).await;
    drop(process);
    go_on_without(fabric, rank, "").await;
}

/// Lets a process of this rank's host join the running job.
async fn join_again(fabric: &mut Fabric, rank: u8) -> Job {
    let socket = fabric.socket(rank.into());
    let joining = tokio::spawn(hosts::join(socket, JoinOptions::default().elastic()));
    fabric.directory.wait_for(&format!("w{rank} joins, elastic")).await;
    fabric.structure.ranks.push(rank);
    fabric.structure.ranks.sort_unstable();
    fabric.let_join(&[rank]).await;
    joining.await.unwrap().unwrap()
}

/// Synchronises this process with the others, checks that all parameters are equal, and returns their
/// value.
async fn synchronised(job: &mut Job, own: f32) -> f32 {
    let mut segment = job.segment(4000).await.unwrap();
    segment.elements_mut::<f32>().unwrap().fill(own);
    // A process that was already in the job gets the change as the answer to its next all-reduce.
    if job.regroup().is_none() {
        let error = job.all_reduce(&mut segment, Operation::whole::<f32>()).await.unwrap_err();
        assert!(matches!(error, ClientError::Regroup(_)), "{error}");
        assert!(
            segment.elements::<f32>().unwrap().iter().all(|value| *value == own),
            "elements are untouched"
        );
    }
    job.synchronise(&mut segment, Operation::whole::<f32>()).await.unwrap();
    assert_eq!(job.regroup(), None);
    let values = segment.elements::<f32>().unwrap();
    assert!(values.iter().all(|value| *value == values[0]));
    values[0]
}

#[tokio::test]
async fn all_members_take_over_the_leaders_parameters_when_one_has_joined() {
    let mut fabric = Fabric::start(3, honest()).await;
    let elastic = || JoinOptions::default().elastic();
    let [gone, mut second, mut third] = fabric.join_all(elastic()).await;
    remove(&mut fabric, 0, gone).await;
    let (a, b) = tokio::join!(sum(&mut second, 1.0), sum(&mut third, 1.0));
    assert_eq!((a.unwrap(), b.unwrap()), ((2.0, 2), (2.0, 2)));

    // The process has rank 0 again, and has no parameters that the others could use.
    let mut first = join_again(&mut fabric, 0).await;
    let regroup = first.regroup().unwrap();
    assert_eq!((regroup.leader, &regroup.joined[..], &regroup.ranks[..]), (1, &[0][..], &[0, 1, 2][..]));
    // The agent answers the all-reduce of a process that has not synchronised without starting it.
    let error = sum(&mut first, 9.0).await.unwrap_err();
    assert!(matches!(error, ClientError::Regroup(_)), "{error}");
    let (a, b, c) = tokio::join!(
        synchronised(&mut first, 10.0),
        synchronised(&mut second, 20.5),
        synchronised(&mut third, 30.0)
    );
    assert_eq!([a, b, c], [20.5; 3]);
    let (a, b, c) = tokio::join!(sum(&mut first, 1.0), sum(&mut second, 2.0), sum(&mut third, 4.0));
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()], [(7.0, 3); 3]);
}

#[tokio::test]
async fn a_joiner_that_has_not_synchronised_does_not_lead_when_another_joins() {
    let mut fabric = Fabric::start(3, honest()).await;
    let elastic = || JoinOptions::default().elastic();
    let [gone, also_gone, mut third] = fabric.join_all(elastic()).await;
    remove(&mut fabric, 0, gone).await;
    remove(&mut fabric, 1, also_gone).await;
    // The second joins, and then the first, before any process has started an all-reduce. Both have no parameters that the
    // others could use.
    let mut second = join_again(&mut fabric, 1).await;
    let mut first = join_again(&mut fabric, 0).await;
    let (a, b, c) = tokio::join!(
        synchronised(&mut first, 10.0),
        synchronised(&mut second, 20.0),
        synchronised(&mut third, 30.5)
    );
    assert_eq!([a, b, c], [30.5; 3]);
}

#[tokio::test]
async fn a_process_that_has_given_up_synchronising_must_synchronise_before_it_reduces() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [first, gone] = fabric.join_all(JoinOptions::default().elastic()).await;
    remove(&mut fabric, 1, gone).await;
    let second = join_again(&mut fabric, 1).await;
    let mut segment = second.segment(4).await.unwrap();
    let limit = Some(Duration::from_millis(100));
    let short = Operation { deadline: limit, ..Operation::whole::<f32>() };
    let error = second.synchronise(&mut segment, short).await.unwrap_err();
    assert_eq!(code(&error), Code::DeadlineExceeded, "{error}");
    let error = second.all_reduce(&mut segment, Operation::whole::<f32>()).await.unwrap_err();
    assert!(matches!(error, ClientError::Regroup(_)), "{error}");
    drop(first);
}

#[tokio::test]
async fn another_leader_takes_the_place_of_one_that_is_lost_while_they_synchronise() {
    let mut fabric = Fabric::start(3, honest()).await;
    let elastic = || JoinOptions::default().elastic();
    let [first, mut second, gone] = fabric.join_all(elastic()).await;
    remove(&mut fabric, 2, gone).await;
    let mut third = join_again(&mut fabric, 2).await;
    assert_eq!(third.regroup().unwrap().leader, 0);
    // The leader leaves before it has contributed. The others have started without this information.
    let loss = lose(&mut fabric, 0, first, "w0 is gone");
    let (b, c, ()) = tokio::join!(synchronised(&mut second, 5.0), synchronised(&mut third, 6.0), loss);
    assert_eq!((b, c), (5.0, 5.0));
}

#[tokio::test]
async fn an_all_reduce_that_waits_for_a_join_is_not_begun() {
    let mut fabric = Fabric::start(2, honest()).await;
    let elastic = || JoinOptions::default().elastic();
    let [mut first, gone] = fabric.join_all(elastic()).await;
    remove(&mut fabric, 1, gone).await;
    fabric.prepare().await;
    let (waiting, mut second) = {
        let mut waiting = Box::pin(sum(&mut first, 1.0));
        tokio::select! {
            _ = &mut waiting => panic!("a frozen worker has reduced"),
            _ = fabric.prepare() => {}
        }
        tokio::join!(waiting, join_again(&mut fabric, 1))
    };
    assert!(matches!(waiting.unwrap_err(), ClientError::Regroup(_)));
    let (a, b) = tokio::join!(synchronised(&mut first, 1.0), synchronised(&mut second, 2.0));
    assert_eq!((a, b), (1.0, 1.0));
}

/// Starts `count` all-reduces of one element.
async fn start(job: &Job, count: usize) -> Vec<Reduction> {
    let mut started = Vec::new();
    for _ in 0..count {
        let mut segment = job.segment(4).await.unwrap();
        segment.elements_mut::<f32>().unwrap().fill(1.0);
        started.push(job.start(&mut segment, &Operation::whole::<f32>()).unwrap());
    }
    started
}

/// Synchronises, and starts another all-reduce without waiting. Returns the parameters, and the
/// outcome of the other all-reduce.
async fn synchronised_and_more(job: &Job, own: f32) -> (f32, Result<f32, ClientError>) {
    let (mut state, mut behind) = (job.segment(4).await.unwrap(), job.segment(4).await.unwrap());
    state.elements_mut::<f32>().unwrap().fill(own);
    behind.elements_mut::<f32>().unwrap().fill(own);
    let whole = Operation::whole::<f32>;
    let more = async { job.start(&mut behind, &whole()).unwrap().await };
    let (synchronised, more) = tokio::join!(job.synchronise(&mut state, whole()), more);
    synchronised.unwrap();
    let sum = more.map(|_| behind.elements::<f32>().unwrap()[0]);
    (state.elements::<f32>().unwrap()[0], sum)
}

#[tokio::test]
async fn all_that_are_under_way_are_told_of_a_join_and_what_follows_the_synchronising_one_is_reduced() {
    let mut fabric = Fabric::start(2, honest()).await;
    let elastic = || JoinOptions::default().elastic();
    let [first, gone] = fabric.join_all(elastic()).await;
    remove(&mut fabric, 1, gone).await;
    fabric.prepare().await;
    let started = start(&first, 5).await;
    let second = join_again(&mut fabric, 1).await;
    for reduction in started {
        let Err(ClientError::Regroup(regroup)) = reduction.await else { panic!("it was reduced") };
        assert_eq!(regroup.joined, [1]);
    }
    let (a, b) = tokio::join!(synchronised_and_more(&first, 1.0), synchronised_and_more(&second, 2.0));
    assert_eq!((a.0, b.0), (1.0, 1.0));
    assert_eq!((a.1.unwrap(), b.1.unwrap()), (3.0, 3.0));
    assert_eq!((first.regroup(), second.regroup()), (None, None));
}

#[tokio::test]
async fn nothing_follows_an_all_reduce_that_should_have_synchronised() {
    let mut fabric = Fabric::start(3, honest()).await;
    let elastic = || JoinOptions::default().elastic();
    let [first, second, gone] = fabric.join_all(elastic()).await;
    remove(&mut fabric, 2, gone).await;
    let third = join_again(&mut fabric, 2).await;
    for reduction in start(&second, 2).await {
        assert!(matches!(reduction.await, Err(ClientError::Regroup(_))));
    }
    // The leader leaves before it has contributed.
    let lost = async {
        drop(first);
        fabric.directory.wait_for("w0 leaves").await;
        fabric.structure = fabric.structure.next();
        fabric.structure.ranks = vec![1, 2];
        fabric.change().await;
    };
    let (b, c, ()) =
        tokio::join!(synchronised_and_more(&second, 5.0), synchronised_and_more(&third, 6.0), lost);
    assert_eq!((b.0, c.0), (5.0, 5.0));
    for behind in [b.1, c.1] {
        assert!(matches!(behind, Err(ClientError::Regroup(_))), "{behind:?}");
    }
    let (b, c) = (start(&second, 3).await, start(&third, 3).await);
    for reduction in b.into_iter().chain(c) {
        assert_eq!(reduction.await.unwrap().runs[0].contributors, 2);
    }
}

#[tokio::test]
async fn all_that_are_under_way_end_when_their_process_is_left_out() {
    let mut fabric = Fabric::start(2, honest()).await;
    let [_first, second] = fabric.join_all(JoinOptions::default().elastic()).await;
    let started = start(&second, 5).await;
    let word = v1::JobDetached { generation: 2, data_adopted: false, reason: "it is slow".into() };
    fabric.directory.tell("w1", Event::Detached(word)).await;
    for reduction in started {
        assert!(matches!(reduction.await, Err(ClientError::Detached(_))));
    }
}
