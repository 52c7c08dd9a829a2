//! Tests of teams whose processes become slow and recover, step by step.

use proptest::prelude::*;
use tributary_planner::degraded::{Condition, Mode, STEADY_STEPS, Step, Team, Verdict};

const SHARE: f64 = 16.0;
const COMMUNICATION: f64 = 0.05;

/// A job whose processes take the times that the test sets.
struct Job {
    team: Team,
    /// The factor by which each process is slowed down.
    slowdowns: Vec<f64>,
    active: Vec<u16>,
    mode: Option<Mode>,
    theta: f64,
    /// The seconds by which the all-reduce takes longer while a slow process takes part.
    held_up: f64,
}

impl Job {
    fn new(processes: usize, theta: f64) -> Self {
        let mut job = Self {
            team: Team::default(),
            slowdowns: vec![1.0; processes],
            active: (0..processes as u16).collect(),
            mode: None,
            theta,
            held_up: 0.0,
        };
        job.arrange(job.active.clone(), None);
        job
    }

    fn arrange(&mut self, active: Vec<u16>, mode: Option<Mode>) {
        let detached = (0..self.slowdowns.len() as u16).filter(|rank| !active.contains(rank));
        self.team.arrange(active.iter().copied(), detached, mode);
        (self.active, self.mode) = (active, mode);
    }

    fn samples(&self, rank: u16) -> f64 {
        match self.mode {
            Some(Mode::Shrink) if self.active.contains(&rank) => {
                (SHARE * self.slowdowns.len() as f64 / self.active.len() as f64).round()
            }
            _ => SHARE,
        }
    }

    /// Returns the computing time of a process:
    /// 0.02 s for each step and 0.01 s for each sample, slowed down.
    fn compute(&self, rank: u16) -> f64 {
        self.slowdowns[usize::from(rank)] * (0.02 + 0.01 * self.samples(rank))
    }

    fn communication(&self) -> f64 {
        let disturbed = self.active.iter().any(|rank| self.slowdowns[usize::from(*rank)] > 1.0);
        COMMUNICATION + if disturbed { self.held_up } else { 0.0 }
    }

    /// Runs one step of all processes, and returns its time. `noise` is the factor of each process's time.
    fn step(&mut self, noise: impl Fn(u16) -> f64) -> f64 {
        let times: Vec<(u16, f64)> =
            (0..self.slowdowns.len() as u16).map(|rank| (rank, self.compute(rank) * noise(rank))).collect();
        let active = times.iter().filter(|(rank, _)| self.active.contains(rank));
        let end = active.map(|(_, compute)| *compute).fold(0.0, f64::max) + self.communication();
        for (rank, compute) in times {
            let reduce = self.active.contains(&rank).then_some(end - compute);
            let samples = self.samples(rank) as u32;
            self.team.note(rank, &Step { samples, compute, reduce });
        }
        end
    }

    /// Carries out the decision. Returns true if the group changes.
    fn act(&mut self) -> bool {
        let decision = self.team.decide(self.theta);
        match decision.verdict {
            Verdict::Change => {
                let best = &decision.candidates[decision.best.unwrap()];
                self.arrange(best.members.clone(), best.mode);
            }
            Verdict::Return(well) => {
                let mut active = [self.active.clone(), well].concat();
                active.sort_unstable();
                let mode = self.mode.filter(|_| active.len() < self.slowdowns.len());
                self.arrange(active, mode);
            }
            Verdict::Unmeasured(_) | Verdict::AllWell | Verdict::NoGain => return false,
        }
        true
    }

    /// Runs steps until the group changes, and returns their number; `None` if it does not change within
    /// `most` steps.
    fn steps_to_a_change(&mut self, most: usize) -> Option<usize> {
        (1..=most).find(|_| {
            self.step(|_| 1.0);
            self.act()
        })
    }
}

#[test]
fn one_of_eight_is_detached_and_comes_back_when_it_is_well() {
    let mut job = Job::new(8, 0.125);
    assert_eq!(job.steps_to_a_change(20), None);
    job.slowdowns[3] = 4.0;
    let steps = job.steps_to_a_change(20).unwrap();
    assert!((STEADY_STEPS as usize..=STEADY_STEPS as usize + 2).contains(&steps), "{steps} steps");
    assert_eq!((&*job.active, job.mode), (&[0, 1, 2, 4, 5, 6, 7][..], Some(Mode::Detach)));
    assert_eq!(job.steps_to_a_change(50), None, "it stays out as long as it is slow");
    job.slowdowns[3] = 1.1;
    assert!(job.steps_to_a_change(20).is_some());
    assert_eq!((job.active.len(), job.mode), (8, None));
    assert_eq!(job.steps_to_a_change(50), None);
}

#[test]
fn predictions_are_what_steps_take_then() {
    for (theta, slow, expected) in [(0.125, 1, 7), (0.1, 1, 7), (0.1, 4, 4)] {
        let mut job = Job::new(8, theta);
        (0..slow).for_each(|rank| job.slowdowns[rank] = 4.0);
        while !job.act() {
            let took = job.step(|_| 1.0);
            let decision = job.team.decide(theta);
            assert!(decision.today <= took * 1.05);
        }
        assert_eq!(job.active.len(), expected);
        let mut before = Job::new(8, theta);
        before.slowdowns = job.slowdowns.clone();
        for _ in 0..30 {
            before.step(|_| 1.0);
        }
        let decision = before.team.decide(theta);
        let predicted = decision.candidates[decision.best.unwrap()].seconds;
        let took = job.step(|_| 1.0);
        assert!((predicted / took - 1.0).abs() < 0.15, "θ {theta}, {slow} slow: {predicted} and {took}");
    }
}

#[test]
fn a_slow_hosts_agent_holds_the_all_reduce_up_only_while_it_is_in() {
    for well_at_first in [20, 0] {
        let mut job = Job::new(8, 0.1);
        assert!(well_at_first == 0 || job.steps_to_a_change(well_at_first).is_none());
        (0..4).for_each(|rank| job.slowdowns[rank] = 4.0);
        // In some steps, the agent runs without delay.
        let held_up = [0.4, 0.5, 0.0, 0.4];
        let predicted = (0..).find_map(|step| {
            job.held_up = held_up[step % held_up.len()];
            job.step(|_| 1.0);
            let decision = job.team.decide(job.theta);
            job.act().then(|| decision.candidates[decision.best.unwrap()].seconds)
        });
        let (predicted, took) = (predicted.unwrap(), job.step(|_| 1.0));
        assert!((predicted / took - 1.0).abs() < 0.15, "{predicted} and {took}");
    }
}

#[test]
fn nobody_is_blamed_for_an_all_reduce_that_is_slow_for_another_reason() {
    let mut team = Team::default();
    team.arrange(0..8, [], None);
    for round in 0..60 {
        let (slow, reduce) = if round < 30 { (0.001, 0.001) } else { (0.004, 1.0) };
        for rank in 0..8 {
            let compute = if rank == 3 { slow } else { 0.001 };
            team.note(rank, &Step { samples: 16, compute, reduce: Some(reduce) });
        }
    }
    assert_eq!(team.decide(0.125).verdict, Verdict::NoGain);
}

#[test]
fn nobody_is_taken_out_where_the_all_reduce_is_what_takes_the_time() {
    let mut job = Job::new(8, 0.125);
    let mut team = Team::default();
    team.arrange(0..8, [], None);
    for _ in 0..30 {
        for rank in 0..8 {
            let compute = if rank == 3 { 0.004 } else { 0.001 };
            team.note(rank, &Step { samples: 16, compute, reduce: Some(1.0) });
        }
    }
    assert_eq!(team.decide(0.125).verdict, Verdict::NoGain);
    assert!(!job.act(), "nothing is known of this one");
}

#[test]
fn a_hiccup_moves_nobody() {
    let mut job = Job::new(4, 0.25);
    for step in 0..100u32 {
        job.step(|rank| if rank == 1 && step % 20 == 10 { 30.0 } else { 1.0 });
        assert!(!job.act(), "step {step}");
    }
}

#[test]
fn a_second_slow_one_turns_detaching_into_shrinking() {
    let mut job = Job::new(10, 0.1);
    job.slowdowns[0] = 3.0;
    job.steps_to_a_change(20).unwrap();
    assert_eq!(job.mode, Some(Mode::Detach));
    job.slowdowns[9] = 3.0;
    job.steps_to_a_change(20).unwrap();
    assert_eq!((job.mode, job.active.len()), (Some(Mode::Shrink), 8));
}

#[test]
fn what_is_known_of_a_process_is_not_known_of_the_next_one_in_its_place() {
    let mut job = Job::new(8, 0.125);
    job.slowdowns[3] = 4.0;
    job.steps_to_a_change(20).unwrap();
    job.team.forget(3);
    assert_eq!(job.team.detached().count(), 0);
    assert_eq!(job.team.decide(0.125).verdict, Verdict::AllWell);
    assert!(
        !job.team.note(3, &Step { samples: 16, compute: 9.0, reduce: None }),
        "it is neither in nor detached"
    );
}

proptest! {
    /// If the times of processes vary only by chance, all processes stay in the job.
    #[test]
    fn nobody_is_taken_out_for_chance(processes in 2usize..12, noise in proptest::collection::vec(0.8..1.25f64, 64)) {
        let mut job = Job::new(processes, 0.3);
        for step in 0..60usize {
            job.step(|rank| noise[(step * 7 + usize::from(rank) * 13) % noise.len()]);
            prop_assert!(!job.act());
        }
    }

    /// For any measurements, a change is to one of the candidates, and makes steps shorter by at least a
    /// tenth.
    #[test]
    fn a_change_is_worth_it(
        steps in proptest::collection::vec((0u16..6, 1u32..64, 1e-3..10.0f64, 0.0..1.0f64), 0..300), theta in 0.0..1.0f64,
    ) {
        let mut team = Team::default();
        team.arrange(0..6, [], None);
        for (rank, samples, compute, reduce) in steps {
            team.note(rank, &Step { samples, compute, reduce: Some(reduce) });
        }
        let decision = team.decide(theta);
        if decision.verdict == Verdict::Change {
            let best = &decision.candidates[decision.best.unwrap()];
            prop_assert!(best.eligible && best.seconds <= 0.9 * decision.today && best.members.len() < 6);
            let degraded = team.members().filter(|one| one.detector.condition() == Condition::Degraded);
            let out = (0..6).filter(|rank| !best.members.contains(rank)).collect::<Vec<_>>();
            let degraded: Vec<_> = degraded.map(|one| one.rank).collect();
            prop_assert!(out.iter().all(|rank| degraded.contains(rank)));
        }
    }
}
