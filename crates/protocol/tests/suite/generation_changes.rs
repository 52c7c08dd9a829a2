//! Tests of a single worker that goes through generations:
//! where it stops, what it reports, and how it continues.

use std::time::Duration;

use tributary_protocol::{
    AllReduce, CollectiveError, ConfigError, GradientData, JointAllReduce, Missing, OperationEvent,
    OperationId, Sums, Time, Worker, WorkerConfig, WorkerProgress,
};
use tributary_wire::{Header, Rank, Seq, Totals};

use crate::alone::{ME, Slice, answer, config, give, integers, job, sent, seqs, served};

const NOW: Time = Time::ZERO;
const OTHER: Rank = Rank::new(8);

/// Makes a worker that has begun one operation of `slices` and has the result of its bounds.
/// Also returns the slices that it has sent then.
fn under_way(window: u32, slices: usize) -> (Worker, Vec<Slice>) {
    let mut worker = Worker::new(config(window)).unwrap();
    worker.start_all_reduce(integers(slices)).unwrap();
    let max = sent(&mut worker, NOW);
    answer(&mut worker, NOW, &max[0]);
    let sums = sent(&mut worker, NOW);
    (worker, sums)
}

/// Answers all slices that the worker sends, until it sends no more.
fn finish(worker: &mut Worker, mut slices: Vec<Slice>) {
    while !slices.is_empty() {
        slices.iter().for_each(|slice| answer(worker, NOW, slice));
        slices = sent(worker, NOW);
    }
}

fn completed(worker: &mut Worker) -> Vec<OperationId> {
    let next = |worker: &mut Worker| match worker.poll_event()? {
        OperationEvent::Completed { operation, .. } => Some(operation),
        OperationEvent::Failed { error, .. } => panic!("{error}"),
    };
    std::iter::from_fn(|| next(worker)).collect()
}

#[test]
fn a_frozen_worker_takes_nothing_sends_nothing_and_begins_nothing() {
    let (mut worker, sums) = under_way(4, 6);
    worker.freeze();
    let before = worker.progress();
    answer(&mut worker, NOW, &sums[0]);
    assert_eq!(worker.start_all_reduce(integers(1)), Ok(OperationId(1)));
    worker.handle_timeout(NOW + Duration::from_secs(9));
    assert_eq!((sent(&mut worker, NOW), worker.poll_timeout()), (vec![], None));
    assert_eq!(worker.progress(), before);
    assert_eq!(worker.stats().foreign, 1);

    worker.change_generation(NOW, job(6), &[ME]).unwrap();
    let after = sent(&mut worker, NOW);
    assert_eq!(seqs(&after), seqs(&sums));
    assert!(after.iter().all(|(header, _)| header.retransmit && header.job == job(6)));
    assert_eq!(worker.progress().begun, 2);
    finish(&mut worker, after);
    assert_eq!(completed(&mut worker), [OperationId(0), OperationId(1)]);
}

#[test]
fn a_worker_tells_where_it_stands() {
    let start = Seq(u32::MAX);
    let mut worker = Worker::new(WorkerConfig { start, begun: 7, ..config(4) }).unwrap();
    let fresh = vec![Seq(0), Seq(1), Seq(2), Seq(u32::MAX)];
    assert_eq!(worker.progress(), WorkerProgress { begun: 7, next: vec![start], idle: true, dues: fresh });
    assert_eq!(worker.start_all_reduce(integers(4)), Ok(OperationId(7)));
    let max = sent(&mut worker, NOW);
    answer(&mut worker, NOW, &max[0]);
    let sums = sent(&mut worker, NOW);
    answer(&mut worker, NOW, &sums[1]);
    let dues = vec![Seq(0), Seq(5), Seq(2), Seq(3)];
    assert_eq!(worker.progress(), WorkerProgress { begun: 8, next: vec![Seq(4)], idle: false, dues });
}

#[test]
fn a_worker_proceeds_to_a_boundary_and_no_further() {
    let (mut worker, _) = under_way(4, 6);
    worker.freeze();
    for _ in 0..2 {
        worker.start_all_reduce(integers(1)).unwrap();
    }
    worker.proceed(NOW, 2);
    let again = sent(&mut worker, NOW);
    assert!(!worker.is_frozen() && again.iter().all(|(header, _)| header.retransmit && header.job == job(5)));
    finish(&mut worker, again);
    assert_eq!(completed(&mut worker), [OperationId(0), OperationId(1)]);
    let WorkerProgress { begun, next, idle, dues } = worker.progress();
    assert!(worker.is_frozen() && idle);
    assert_eq!((begun, next, dues), (2, vec![Seq(10)], [12, 13, 10, 11].map(Seq).to_vec()));

    // Other members may join at a boundary.
    worker.change_generation(NOW, job(6), &[ME, OTHER]).unwrap();
    assert_eq!(seqs(&sent(&mut worker, NOW)), [10]);
    assert_eq!(worker.progress().begun, 3);
}

#[test]
fn who_is_at_the_boundary_stays_there_and_who_has_not_begun_waits_for_its_process() {
    let mut worker = Worker::new(config(4)).unwrap();
    worker.freeze();
    worker.proceed(NOW, 0);
    assert!(worker.is_frozen());
    worker.proceed(NOW, 1);
    assert!(!worker.is_frozen());
    worker.start_all_reduce(integers(1)).unwrap();
    worker.start_all_reduce(integers(1)).unwrap();
    let max = sent(&mut worker, NOW);
    finish(&mut worker, max);
    assert!(worker.is_frozen() && worker.progress().idle && !worker.is_idle());
    // This change is cancelled.
    worker.proceed(NOW, u64::MAX);
    let max = sent(&mut worker, NOW);
    finish(&mut worker, max);
    assert!(!worker.is_frozen() && worker.is_idle());
}

#[test]
fn nobody_joins_inside_an_operation_and_a_generation_has_a_job_id_of_its_own() {
    let (mut worker, _) = under_way(4, 6);
    let both = [ME, OTHER];
    assert_eq!(worker.change_generation(NOW, job(6), &both), Err(ConfigError::JoinInside(OTHER)));
    worker.freeze();
    assert_eq!(worker.change_generation(NOW, job(6), &both), Err(ConfigError::JoinInside(OTHER)));
    assert_eq!(worker.change_generation(NOW, job(5), &[ME]), Err(ConfigError::SameJob(job(5))));
    assert!(worker.is_frozen(), "the old generation stays");
    let mut idle = Worker::new(config(4)).unwrap();
    let error = idle.change_generation(NOW, job(6), &both).unwrap_err();
    assert_eq!(error, ConfigError::JoinInside(OTHER), "it has not told where it stands");
}

#[test]
fn the_last_result_of_each_slot_is_kept_as_it_came() {
    let (mut worker, sums) = under_way(4, 4);
    // No value is infinite. The largest value of the first block is 127, which has 7 bits.
    let lanes: Vec<i32> = worker.finished(Seq(1)).unwrap().values().iter().take(3).collect();
    assert_eq!(lanes, [0, 7 << 16 | i32::from(ME.get()), 0]);
    let kept = sums[1].clone();
    finish(&mut worker, sums);
    assert_eq!(completed(&mut worker), [OperationId(0)]);
    assert_eq!(worker.finished(Seq(1)), None, "its slot has got another one");
    let slice = worker.finished(kept.0.seq).unwrap();
    assert_eq!((slice.seq, slice.operator, slice.totals), (Seq(3), kept.0.operator, kept.0.totals));
    assert!(slice.values().iter().eq(kept.1));
    assert_eq!(worker.finished(Seq(6)), None);
}

#[test]
fn a_sum_is_believed_with_the_servers_word_only_whatever_generation_it_is_of() {
    let mut worker = Worker::new(config(4)).unwrap();
    worker.start_all_reduce(integers(3)).unwrap();
    let max = sent(&mut worker, NOW);
    answer(&mut worker, NOW, &max[0]);
    let sums = sent(&mut worker, NOW);
    worker.change_generation(NOW, job(6), &[ME]).unwrap();
    let again = sent(&mut worker, NOW);
    assert_eq!(seqs(&again), [2, 3, 4]);

    // A switch has kept a correct sum of the previous generation, which the server has not received.
    let kept = |(header, values): &Slice| (Header { job: job(6), ..*header }, values.clone());
    give(&mut worker, NOW, &kept(&sums[0]));
    assert_eq!((worker.stats().mismatched, worker.progress().dues[2]), (1, Seq(2)));
    // The voucher of one slice is not valid for another slice.
    let served = served(&sums[0], job(6));
    let mut other = kept(&sums[1]);
    other.0.totals.tag = served.0.totals.tag;
    give(&mut worker, NOW, &other);
    assert_eq!((worker.stats().mismatched, worker.progress().dues[3]), (2, Seq(3)));
    // A switch has a correct sum of this generation, but the server has finished the sum of the previous generation.
    give(&mut worker, NOW, &again[2]);
    assert_eq!((worker.stats().mismatched, worker.progress().dues[0]), (3, Seq(4)));

    assert_ne!(served.0.totals.tag, sums[0].0.totals.tag);
    give(&mut worker, NOW, &served);
    assert_eq!(worker.progress().dues[2], Seq(6));
    // For a server that takes over, the result is kept in the form in which its own generation has summed it.
    let kept = worker.finished(Seq(2)).unwrap();
    assert_eq!((kept.job, kept.totals), (job(5), sums[0].0.totals));
    again[1..].iter().for_each(|slice| answer(&mut worker, NOW, slice));
    assert_eq!(completed(&mut worker), [OperationId(0)]);
}

#[test]
fn after_a_change_a_worker_asks_at_once_however_long_it_has_waited() {
    let (mut worker, sums) = under_way(16, 40);
    let mut now = NOW;
    for _ in 0..20 {
        now = worker.poll_timeout().unwrap();
        worker.handle_timeout(now);
        sent(&mut worker, now);
    }
    // The timeout is a quarter less than the maximum to which timeouts back off.
    assert!(worker.poll_timeout().unwrap() - now >= Duration::from_micros(187_500));
    worker.change_generation(now, job(6), &[ME]).unwrap();
    assert_eq!(seqs(&sent(&mut worker, now)), seqs(&sums));
    assert!(worker.poll_timeout().unwrap() - now <= Duration::from_millis(10));
}

#[test]
fn what_a_worker_holds_does_not_grow_with_generations() {
    let members_come_and_go = |worker: &mut Worker, ids: std::ops::Range<u16>| {
        ids.map(|id| {
            worker.freeze();
            let members: &[Rank] = if id % 2 == 0 { &[ME] } else { &[ME, OTHER] };
            worker.change_generation(NOW, job(id), members).unwrap();
            format!("{worker:?}").len()
        })
        .max()
        .unwrap()
    };
    let mut idle = Worker::new(config(4)).unwrap();
    let few = members_come_and_go(&mut idle, 6..20);
    let many = members_come_and_go(&mut idle, 20..500);
    assert!(many < few + 100, "{few} and {many} characters");

    let (mut worker, _) = under_way(4, 6);
    let mut held_after = |ids: std::ops::Range<u16>| {
        for id in ids {
            worker.change_generation(NOW, job(id), &[ME]).unwrap();
            sent(&mut worker, NOW);
        }
        format!("{worker:?}").len()
    };
    let (few, many) = (held_after(6..5000), held_after(5000..9000));
    assert!(
        many < few + few / 10,
        "{few} and {many} characters: what waits for a result may be of any of 4096"
    );
}

#[test]
fn operations_that_wait_can_be_taken_back() {
    let mut worker = Worker::new(config(4)).unwrap();
    worker.freeze();
    for _ in 0..3 {
        worker.start_all_reduce(integers(1)).unwrap();
    }
    worker.abandon(OperationId(1));
    assert_eq!(worker.withdraw_waiting(), [OperationId(0), OperationId(2)]);
    worker.change_generation(NOW, job(6), &[ME, OTHER]).unwrap();
    assert_eq!(sent(&mut worker, NOW), []);
    assert_eq!(worker.start_all_reduce(integers(1)), Ok(OperationId(0)));
}

fn failure(worker: &mut Worker) -> (OperationId, CollectiveError) {
    match worker.poll_event() {
        Some(OperationEvent::Failed { operation, error }) => (operation, error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_gives_up_is_told_what_was_missing_and_the_job_goes_on() {
    let (mut worker, sums) = under_way(4, 6);
    worker.start_all_reduce(integers(1)).unwrap();
    answer(&mut worker, NOW, &sums[0]);
    worker.abandon(OperationId(0));
    let (operation, error) = failure(&mut worker);
    let missing = Missing::Results { missing: 5, slices: 7, first: Seq(3), sent: 1 };
    assert_eq!(error, CollectiveError::Abandoned { tensor: "counts".to_owned(), missing });
    assert_eq!((operation, worker.unfinished()), (OperationId(0), 2));
    assert!(worker.has_given_up());
    assert!(error.to_string().contains("5 of its 7 slices have no result; slice 3 is the first"), "{error}");

    // The other members count on the contributions whose bounds were announced.
    let mut later = sums[1..].to_vec();
    later.extend(sent(&mut worker, NOW));
    let one = |(header, values): &Slice| header.totals.weight == 1 && values[255] != 0;
    assert!(later.iter().filter(|(header, _)| header.seq.0 <= 7).all(one));
    finish(&mut worker, later);
    assert_eq!(completed(&mut worker), [OperationId(1)]);
    assert!(!worker.has_given_up());
    worker.abandon(OperationId(0));
    worker.abandon(OperationId(1));
    assert_eq!(worker.poll_event(), None, "what has ended cannot be given up");
}

#[test]
fn what_is_given_up_before_it_is_sent_is_left_out() {
    let (mut worker, sums) = under_way(1, 1);
    // One operation begins, but waits for its slot. The other operation waits for the end of a freeze.
    worker.start_all_reduce(integers(1)).unwrap();
    worker.freeze();
    worker.start_all_reduce(integers(1)).unwrap();
    worker.start_all_reduce(integers(1)).unwrap();
    worker.abandon(OperationId(1));
    worker.abandon(OperationId(2));
    let error = failure(&mut worker).1.to_string();
    assert!(
        error.contains("2 of its 2 slices have no result; slice 3 is the first, sent 0 times"),
        "{error}"
    );
    let (operation, error) = failure(&mut worker);
    assert_eq!(operation, OperationId(2));
    assert!(error.to_string().contains("it has not begun"), "{error}");

    worker.change_generation(NOW, job(6), &[ME]).unwrap();
    let mut weights = Vec::new();
    loop {
        let slices = sent(&mut worker, NOW);
        let Some(slice @ (header, values)) = slices.first() else { break };
        let Totals { weight, contributors, .. } = header.totals;
        assert!(contributors == 1 && (weight == 1 || values[1..] == [0; 255]));
        weights.push((header.seq.0, weight));
        answer(&mut worker, NOW, slice);
    }
    // The operations that are withheld have a rest slice, because their first lane is not 0.
    let (before, withheld, after) = ([(2, 1)], (3..9).map(|seq| (seq, 0)), [(9, 1), (10, 1)]);
    assert_eq!(weights, before.into_iter().chain(withheld).chain(after).collect::<Vec<_>>());
    assert_eq!(sums.len(), 1);
    assert_eq!(completed(&mut worker), [OperationId(0), OperationId(3)]);
}

#[test]
fn a_large_operation_that_is_given_up_keeps_to_what_it_has_announced() {
    // There are two slices of bounds. With a window of one, only the first one has been sent.
    let mut worker = Worker::new(config(1)).unwrap();
    let data = GradientData::I32(vec![3; 256 * 43]);
    worker.start_all_reduce(AllReduce { name: "counts".to_owned(), data, weight: 2 }).unwrap();
    let first = sent(&mut worker, NOW);
    worker.abandon(OperationId(0));
    assert!(matches!(failure(&mut worker).1, CollectiveError::Abandoned { .. }));
    let (mut slices, mut given) = (first, Vec::new());
    while let Some(slice @ (header, values)) = slices.first() {
        assert_eq!(header.totals.weight == 0, values[1..].iter().all(|value| *value == 0));
        given.push(header.totals.weight);
        answer(&mut worker, NOW, slice);
        slices = sent(&mut worker, NOW);
    }
    // The second MAX slice bounds the last SUM slice, which has a rest slice.
    let mut expected = vec![2; 2 + 43 + 1];
    (expected[1], expected[44], expected[45]) = (0, 0, 0);
    assert_eq!(given, expected);
    assert!(worker.is_idle() && worker.poll_event().is_none());
    let next = worker.start_all_reduce(integers(1)).unwrap();
    let max = sent(&mut worker, NOW);
    finish(&mut worker, max);
    let Some(OperationEvent::Completed { operation, reduced }) = worker.poll_event() else {
        panic!("not done")
    };
    assert_eq!((operation, reduced.sums), (next, Sums::I32((0..256).collect())));
}

#[test]
fn a_contribution_that_is_withheld_stays_withheld_when_the_caller_gives_up() {
    let mut worker = Worker::new(config(4)).unwrap();
    let operation = JointAllReduce { is_withheld: true, ..integers(2).into() };
    let operation = worker.start_joint(operation).unwrap();
    let max = sent(&mut worker, NOW);
    worker.abandon(operation);
    let mut slices = max;
    while let Some(slice) = slices.pop() {
        assert_eq!(slice.0.totals.weight, 0, "{slice:?}");
        answer(&mut worker, NOW, &slice);
        slices.extend(sent(&mut worker, NOW));
    }
    assert!(worker.is_idle());
}
