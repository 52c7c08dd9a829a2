//! Tests of a single worker:
//! what it sends, when it sends retransmit requests, and which results it accepts.

use std::time::Duration;

use tributary_protocol::{
    AllReduce, ConfigError, GradientData, OperationEvent, OperationId, StartError, Sums, Time, Worker,
    WorkerConfig,
};
use tributary_wire::{Header, Operator, Rank, SliceWidth};

use crate::alone::{ME, answer, config, give, integers, job, sent, seqs, served};

#[test]
fn sums_wait_for_their_bounds_and_each_slice_for_the_one_a_window_before() {
    let mut worker = Worker::new(config(4)).unwrap();
    worker.start_all_reduce(integers(6)).unwrap();
    let max = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&max), [1]);
    assert_eq!(max[0].0.operator, Operator::Max);
    answer(&mut worker, Time::ZERO, &max[0]);
    let sums = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&sums), [2, 3, 4, 5]);
    assert!(sums.iter().all(|(header, _)| header.operator == Operator::Sum));
    answer(&mut worker, Time::ZERO, &sums[1]);
    let next = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&next), [7], "6 has to wait for 2");
    for slice in [&sums[0], &sums[2], &sums[3], &next[0]] {
        answer(&mut worker, Time::ZERO, slice);
    }
    let last = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&last), [6]);
    assert_eq!((worker.poll_event(), worker.is_idle()), (None, false));
    answer(&mut worker, Time::ZERO, &last[0]);
    let Some(OperationEvent::Completed { operation, reduced }) = worker.poll_event() else {
        panic!("not done")
    };
    assert_eq!(operation, OperationId(0));
    assert_eq!(reduced.sums, Sums::I32((0..6 * 256).collect()));
    assert!(worker.is_idle() && worker.poll_timeout().is_none());
}

#[test]
fn nothing_and_one_element_can_be_reduced() {
    let mut worker = Worker::new(config(4)).unwrap();
    for (len, slices) in [(0, 1), (1, 2)] {
        let data = GradientData::F32(vec![0.75; len]);
        worker.start_all_reduce(AllReduce { name: "bias".to_owned(), data, weight: 3 }).unwrap();
        for _ in 0..slices {
            let slice = sent(&mut worker, Time::ZERO);
            answer(&mut worker, Time::ZERO, &slice[0]);
        }
        let Some(OperationEvent::Completed { reduced, .. }) = worker.poll_event() else { panic!("not done") };
        assert_eq!(reduced.sums, Sums::F32(vec![2.25; len]));
        assert_eq!((reduced.weight, reduced.contributors), (3, 1));
    }
}

#[test]
fn an_operation_begins_once_the_bounds_of_the_one_before_it_are_agreed_on() {
    let mut worker = Worker::new(config(8)).unwrap();
    worker.start_all_reduce(integers(2)).unwrap();
    worker.start_all_reduce(integers(1)).unwrap();
    let max = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&max), [1]);
    // The number of slices of the first operation follows from its bounds.
    answer(&mut worker, Time::ZERO, &max[0]);
    assert_eq!(seqs(&sent(&mut worker, Time::ZERO)), [2, 3, 4]);
    assert_eq!(worker.progress().begun, 2);
}

#[test]
fn silence_is_answered_by_asking_again() {
    let mut worker = Worker::new(config(4)).unwrap();
    worker.start_all_reduce(integers(4)).unwrap();
    let max = sent(&mut worker, Time::ZERO);
    let deadline = worker.poll_timeout().unwrap();
    worker.handle_timeout(Time::from_nanos(deadline.as_nanos() - 1));
    assert_eq!(sent(&mut worker, deadline), []);
    worker.handle_timeout(deadline);
    let again = sent(&mut worker, deadline);
    assert_eq!(again, [(Header { retransmit: true, ..max[0].0 }, max[0].1.clone())]);
    assert!(worker.poll_timeout().unwrap() > deadline);
    assert_eq!((worker.stats().timeouts, worker.stats().retransmitted), (1, 1));
}

#[test]
fn a_slice_that_others_overtake_is_sent_again_before_any_timeout() {
    let mut worker = Worker::new(config(16)).unwrap();
    worker.start_all_reduce(integers(100)).unwrap();
    let millis = |ms| Time::ZERO + Duration::from_millis(ms);
    sent(&mut worker, Time::ZERO).iter().for_each(|max| answer(&mut worker, millis(1), max));
    let mut slices = sent(&mut worker, millis(1));
    let lost = slices.remove(0);
    let mut again = Vec::new();
    // Every 100 µs, one result comes and one more slice is sent. There is never silence.
    for step in 0..90 {
        let now = millis(2) + Duration::from_micros(100 * step);
        if worker.poll_timeout().is_some_and(|deadline| deadline <= now) {
            worker.handle_timeout(now);
        }
        answer(&mut worker, now, &slices.remove(0));
        slices.extend(sent(&mut worker, now));
        again.extend(slices.extract_if(.., |(header, _)| header.retransmit));
        if !again.is_empty() {
            break;
        }
    }
    assert_eq!(seqs(&again), seqs(&[lost]));
    assert_eq!((worker.stats().gaps, worker.stats().timeouts), (1, 0));
}

#[test]
fn a_damaged_result_is_asked_for_again_and_a_second_one_is_an_error() {
    let mut worker = Worker::new(config(4)).unwrap();
    for heals in [true, false] {
        worker.start_all_reduce(integers(1)).unwrap();
        let max = sent(&mut worker, Time::ZERO);
        answer(&mut worker, Time::ZERO, &max[0]);
        let sum = sent(&mut worker, Time::ZERO);
        let mut damaged = sum[0].clone();
        damaged.1[9] ^= 1 << 20;
        answer(&mut worker, Time::ZERO, &damaged);
        assert_eq!(worker.poll_event(), None);
        assert_eq!(seqs(&sent(&mut worker, Time::ZERO)), seqs(&sum));
        answer(&mut worker, Time::ZERO, if heals { &sum[0] } else { &damaged });
        match worker.poll_event() {
            Some(OperationEvent::Completed { .. }) => assert!(heals),
            Some(OperationEvent::Failed { error, .. }) => {
                assert!(!heals);
                assert!(error.to_string().contains("the network's sum of slice 4 is wrong"), "{error}");
            }
            None => panic!("no outcome"),
        }
    }
    assert_eq!(worker.stats().mismatched, 3);
}

#[test]
fn a_new_generation_has_everything_unanswered_sent_again() {
    let mut worker = Worker::new(config(4)).unwrap();
    worker.start_all_reduce(integers(4)).unwrap();
    let max = sent(&mut worker, Time::ZERO);
    answer(&mut worker, Time::ZERO, &max[0]);
    let before = sent(&mut worker, Time::ZERO);
    assert_eq!(worker.change_generation(Time::ZERO, job(6), &[]), Err(ConfigError::NoMembers));
    worker.change_generation(Time::ZERO, job(6), &[ME]).unwrap();
    let after = sent(&mut worker, Time::ZERO);
    assert_eq!(seqs(&after), seqs(&before));
    assert!(after.iter().all(|(header, _)| header.retransmit && header.job == job(6)));
    answer(&mut worker, Time::ZERO, &before[0]);
    assert_eq!(worker.stats().foreign, 1, "a result of the old generation");
    after.iter().for_each(|slice| answer(&mut worker, Time::ZERO, slice));
    assert!(matches!(worker.poll_event(), Some(OperationEvent::Completed { .. })));
}

#[test]
fn a_weight_that_leaves_the_others_no_room_is_refused() {
    let members = vec![Rank::new(0), ME];
    let mut worker = Worker::new(WorkerConfig { members, ..config(4) }).unwrap();
    let heavy = AllReduce { weight: (1 << 29) + 1, ..integers(1) };
    let error = worker.start_all_reduce(heavy).unwrap_err();
    assert!(matches!(error, StartError::Weight { members: 2, most: 0x2000_0000, .. }), "{error}");
    assert!(worker.is_idle());
}

#[test]
fn who_is_no_member_cannot_take_part() {
    let members = vec![Rank::new(0)];
    assert_eq!(Worker::new(WorkerConfig { members, ..config(4) }).unwrap_err(), ConfigError::NotAMember(ME));
}

#[test]
fn a_worker_refuses_the_result_of_an_earlier_operation_with_the_same_sequence_numbers() {
    for confidential in [false, true] {
        // Sequence numbers repeat after 2^32 slices of a generation. In everything else, these operations are equal.
        let worker = |begun| Worker::new(WorkerConfig { begun, confidential, ..config(4) }).unwrap();
        let [mut earlier, mut later] = [worker(0), worker(1 << 32)];
        for worker in [&mut earlier, &mut later] {
            worker.start_all_reduce(integers(1)).unwrap();
        }
        for part in 1..=2 {
            let [old, new] = [&mut earlier, &mut later].map(|worker| sent(worker, Time::ZERO).remove(0));
            assert_eq!(old.0.seq, new.0.seq);
            let is_hidden = confidential && old.0.operator == Operator::Sum;
            assert_eq!(old.1 != new.1, is_hidden, "masks of slice {}", old.0.seq);
            give(&mut later, Time::ZERO, &served(&old, job(5)));
            assert_eq!(later.stats().mismatched, part);
            answer(&mut earlier, Time::ZERO, &old);
            answer(&mut later, Time::ZERO, &new);
        }
        let Some(OperationEvent::Completed { reduced, .. }) = later.poll_event() else { panic!("not done") };
        assert_eq!(reduced.sums, Sums::I32((0..256).collect()));
    }
}

fn finish(worker: &mut Worker) {
    while !worker.is_idle() {
        sent(worker, Time::ZERO).iter().for_each(|slice| answer(worker, Time::ZERO, slice));
    }
}

#[test]
fn an_all_reduce_takes_the_memory_that_it_says() {
    /// The bytes of memory of the worker itself and of this test.
    const BESIDES: u64 = 64 << 10;
    let halves = GradientData::F16(vec![1.0; 4000 * 256]);
    let wild = GradientData::F32((0..4000 * 256).map(|i| if i % 64 == 0 { 1e9 } else { 1e-3 }).collect());
    for data in [integers(4000).data, halves, wild] {
        let mut worker = Worker::new(config(4)).unwrap();
        let memory = AllReduce { data: data.clone(), ..integers(0) }.tensor().memory(SliceWidth::ETHERNET);
        let mut reduced = None;
        let allocated = allocation_counter::measure(|| {
            worker.start_all_reduce(AllReduce { data: data.clone(), ..integers(0) }).unwrap();
            finish(&mut worker);
            reduced = worker.poll_event();
        });
        assert!(matches!(reduced, Some(OperationEvent::Completed { .. })), "not completed");
        assert!(allocated.bytes_max <= memory + BESIDES, "{allocated:?}, {memory} said");
        // Memory for runs is needed only if members leave, and memory for further limbs only if values differ much.
        let further = 4000 * (4 * 256 + 4 * 200);
        assert!(allocated.bytes_max + further >= memory / 10 * 9, "{allocated:?}, {memory} said");
    }
}

#[test]
fn what_has_no_weight_is_not_in_the_sums() {
    for data in [GradientData::F32(vec![-5.0; 700]), GradientData::F32(vec![-0.0; 700])] {
        let mut worker = Worker::new(config(4)).unwrap();
        worker.start_all_reduce(AllReduce { data, weight: 0, ..integers(0) }).unwrap();
        finish(&mut worker);
        let Some(OperationEvent::Completed { reduced, .. }) = worker.poll_event() else { panic!("no sums") };
        let Sums::F32(sums) = reduced.sums else { panic!("sums of floats are f32") };
        assert!(sums.len() == 700 && sums.iter().all(|sum| sum.to_bits() == 0), "not all of them 0");
    }
}
