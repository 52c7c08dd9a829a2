//! Tests of a job without sessions.

use std::num::{NonZeroU16, NonZeroU64};

use super::*;
use crate::server::spec::PolicyKind;

fn job(policy: PolicyKind, workers: u16) -> (Job, JobStats) {
    let (workers, epoch) = (NonZeroU16::new(workers).unwrap(), NonZeroU64::new(10).unwrap());
    let spec = JobSpec { decay: 1.0, ..JobSpec::new("test", workers, policy, epoch, 1.0) };
    (Job::new(spec, 0, vec![0.0; 2]).unwrap(), JobStats::default())
}

/// Returns the steps among the outputs.
fn steps(outputs: &Outputs) -> Vec<(Worker, Step)> {
    let step = |output: &Output| match output {
        Output::Send(worker, Message::Step(step)) => Some((*worker, step.clone())),
        _ => None,
    };
    outputs.iter().filter_map(step).collect()
}

fn workers(outputs: &Outputs) -> Vec<Worker> {
    steps(outputs).iter().map(|(worker, _)| *worker).collect()
}

fn gradient(iteration: u64, values: [f32; 2]) -> Gradient {
    Gradient { iteration, pulled: 0, values: Some(values.to_vec()) }
}

#[test]
fn training_starts_when_all_are_there_or_without_the_missing() {
    let (mut job, mut stats) = job(PolicyKind::Bsp, 3);
    assert!(
        job.join(2, None, Instant::now(), &mut stats).is_empty()
            && job.join(0, None, Instant::now(), &mut stats).is_empty()
    );
    let end = job.deadline().unwrap();
    assert!(job.conclude(end - Duration::from_millis(1), &mut stats).is_empty());
    assert_eq!(job.awaited(), Awaited { workers: [1].into(), start: Some(end) });
    assert_eq!(workers(&job.conclude(end, &mut stats)), [0, 2]);
    assert_eq!(job.awaited(), Awaited { workers: [0, 2].into(), start: None });
    assert_eq!(workers(&job.join(1, None, Instant::now(), &mut stats)), [1]);
}

#[test]
fn a_round_is_one_update_by_the_mean() {
    let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
    job.join(0, None, Instant::now(), &mut stats);
    assert_eq!(workers(&job.join(1, None, Instant::now(), &mut stats)), [0, 1]);
    assert!(job.push(1, gradient(0, [1.0, 3.0]), Instant::now(), &mut stats).unwrap().is_empty());
    let released = job.push(0, gradient(0, [3.0, 1.0]), Instant::now(), &mut stats).unwrap();
    assert_eq!(workers(&released), [0, 1]);
    assert_eq!((job.parameters(), job.updates()), (&[-2.0, -2.0][..], 1));
    assert_eq!((steps(&released)[1].1.iteration, steps(&released)[1].1.released_by), (1, 0));
}

#[test]
fn a_gradient_that_comes_again_changes_nothing() {
    let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
    job.join(0, None, Instant::now(), &mut stats);
    job.join(1, None, Instant::now(), &mut stats);
    for _ in 0..3 {
        assert!(job.push(0, gradient(0, [1.0; 2]), Instant::now(), &mut stats).unwrap().is_empty());
    }
    job.push(1, gradient(0, [1.0; 2]), Instant::now(), &mut stats).unwrap();
    let again = job.push(1, gradient(0, [1.0; 2]), Instant::now(), &mut stats).unwrap();
    assert_eq!((workers(&again), steps(&again)[0].1.iteration), (vec![1], 1));
    assert_eq!((job.parameters()[0], job.updates()), (-1.0, 1));
    let ahead = job.push(1, gradient(5, [1.0; 2]), Instant::now(), &mut stats);
    assert_eq!(ahead, Err(InvalidMessage::Iteration { expected: 1, got: 5 }));
}

#[test]
fn what_a_worker_leaves_behind_is_asked_for_again_or_used() {
    let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
    job.join(0, None, Instant::now(), &mut stats);
    job.join(1, None, Instant::now(), &mut stats);
    job.push(0, gradient(0, [1.0; 2]), Instant::now(), &mut stats).unwrap();
    assert!(job.leave(0, &mut stats).is_empty());
    assert_eq!(
        steps(&job.join(0, None, Instant::now(), &mut stats))[0].1.iteration,
        0,
        "its gradient was not used"
    );
    job.push(0, gradient(0, [1.0; 2]), Instant::now(), &mut stats).unwrap();
    assert_eq!(workers(&job.leave(1, &mut stats)), [0]);
    assert_eq!(job.updates(), 1);
}

#[test]
fn nobody_trains_alone_after_all_have_lost_the_server() {
    let (mut job, mut stats) = job(PolicyKind::Bsp, 2);
    let now = Instant::now();
    job.join(0, None, now, &mut stats);
    job.join(1, None, now, &mut stats);
    // The workers leave one after the other, as their connections end.
    job.leave(1, &mut stats);
    job.leave(0, &mut stats);
    assert!(job.join(1, None, now, &mut stats).is_empty());
    assert_eq!(workers(&job.join(0, None, now, &mut stats)), [0, 1]);
    // One worker comes back before the server knows that the other one has left.
    job.push(0, gradient(0, [1.0; 2]), now, &mut stats).unwrap();
    assert!(job.gather_again(&mut stats).is_empty() && job.join(1, None, now, &mut stats).is_empty());
    assert!(job.conclude(now, &mut stats).is_empty(), "what is left behind is used");
    let both = job.join(0, None, now, &mut stats);
    assert_eq!(steps(&both).iter().map(|(_, step)| step.iteration).collect::<Vec<_>>(), [0, 0]);
    job.push(1, gradient(0, [3.0; 2]), now, &mut stats).unwrap();
    job.push(0, gradient(0, [1.0; 2]), now, &mut stats).unwrap();
    assert_eq!((job.parameters(), job.updates()), (&[-2.0, -2.0][..], 1));
}

#[test]
fn a_model_that_diverges_is_noticed() {
    let (mut job, mut stats) = job(PolicyKind::Asp, 1);
    job.join(0, None, Instant::now(), &mut stats);
    job.push(0, gradient(0, [f32::MAX, 0.0]), Instant::now(), &mut stats).unwrap();
    assert!(!stats.diverged);
    job.push(0, gradient(1, [f32::MAX, 0.0]), Instant::now(), &mut stats).unwrap();
    assert!(stats.diverged && job.parameters()[0] == f32::NEG_INFINITY);
}

#[test]
fn a_restored_job_goes_on_where_the_snapshot_was() {
    let (mut job, mut stats) = job(PolicyKind::Asp, 1);
    job.join(0, None, Instant::now(), &mut stats);
    job.push(0, gradient(0, [1.0, 2.0]), Instant::now(), &mut stats).unwrap();
    let mut restored = Job::restore(job.spec.clone(), job.snapshot()).unwrap();
    let steps = steps(&restored.join(0, None, Instant::now(), &mut JobStats::default()));
    assert_eq!((steps[0].1.iteration, steps[0].1.updates), (1, 1));
    assert_eq!(restored.parameters(), [-1.0, -2.0]);
    assert!(restored.check_range(0, 2).is_ok() && restored.check_range(1, 2).is_err());
}
