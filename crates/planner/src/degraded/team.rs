//! The processes of one job, and the decision about slow processes.

use std::collections::{BTreeMap, BTreeSet};

use super::choice::{Candidate, Communication, Performance, SelectionInput, candidates, mode};
use super::detector::{Condition, Detector, STEADY_STEPS, WELL_BELOW};
use super::profile::{Step, StepProfile};
use super::{Mode, WORTH_IT};

/// The recorded steps of the processes of one job, and the set of processes that take part.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Team {
    processes: BTreeMap<u16, Process>,
    active: BTreeSet<u16>,
    detached: BTreeSet<u16>,
    /// The treatment of the data of detached processes.
    mode: Option<Mode>,
    /// The seconds of the all-reduce when no active process was slow the last time.
    undisturbed: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Process {
    profile: StepProfile,
    detector: Detector,
}

/// The pace of the active processes.
#[derive(Debug, Clone, Copy)]
struct TeamPace {
    /// The number of samples of each process in a step if all processes take part.
    share: f64,
    /// The median of the processes' times for `share` samples, in seconds.
    /// Of an even number of times, it is the lower of the middle two. So if half of the processes are slow, the median
    /// does not hide that.
    median: f64,
}

/// The present state of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TeamMember<'a> {
    /// The rank of the process.
    pub rank: u16,
    /// True if the process takes part in the job; otherwise it is detached.
    pub is_active: bool,
    /// The times of the process's steps.
    pub profile: &'a StepProfile,
    /// The condition of the process, and the number of steps in this condition.
    pub detector: &'a Detector,
    /// Its time for its share of the samples, divided by the median; `None` if it is unknown.
    pub ratio: Option<f64>,
}

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No change, because these processes have not made enough steps yet.
    Unmeasured(Vec<u16>),
    /// No change, because no active process is degraded.
    AllWell,
    /// No change, because the best candidate is not worth a change, or is the present group.
    NoGain,
    /// These processes have recovered and return to the job.
    Return(Vec<u16>),
    /// The best candidate becomes the job's group.
    Change,
}

/// A decision about a team, and the figures behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamDecision {
    /// The outcome of the decision.
    pub verdict: Verdict,
    /// The number of degraded processes among all processes that could take part.
    pub degraded: usize,
    /// The number of processes that could take part: the active and the detached processes.
    pub all: usize,
    /// The mode that θ demands for the data of the excluded processes.
    pub mode: Mode,
    /// The number of samples of each process in a step if all processes take part.
    pub share: f64,
    /// The time of an all-reduce.
    pub communication: Communication,
    /// The seconds that a step takes in the present group.
    pub today: f64,
    /// All candidate groups; empty if a process has not made enough steps.
    pub candidates: Vec<Candidate>,
    /// The index of the eligible candidate whose step takes the least time.
    pub best: Option<usize>,
}

impl TeamDecision {
    /// Returns true if the candidate's step takes at most [`WORTH_IT`] of the present time.
    /// It assumes the present time of the all-reduce. If all-reduces have become slow for another reason, they will
    /// stay slow.
    fn is_worth_it(&self, candidate: &Candidate) -> bool {
        candidate.compute + self.communication.today <= WORTH_IT * self.today
    }
}

impl Team {
    /// Sets the active processes, the detached processes, and the treatment of the detached processes'
    /// data.
    ///
    /// The records of all other processes are deleted.
    pub fn arrange(
        &mut self,
        active: impl IntoIterator<Item = u16>,
        detached: impl IntoIterator<Item = u16>,
        mode: Option<Mode>,
    ) {
        self.active = active.into_iter().collect();
        self.detached = detached.into_iter().collect();
        self.mode = mode;
        let (active, detached) = (&self.active, &self.detached);
        self.processes.retain(|rank, _| active.contains(rank) || detached.contains(rank));
    }

    /// Deletes the records of a process that another process has replaced.
    pub fn forget(&mut self, rank: u16) {
        self.processes.remove(&rank);
        self.detached.remove(&rank);
    }

    /// Records a step of a process.
    /// Returns true if the condition of the process has changed. Steps of processes that are neither active nor
    /// detached are ignored.
    pub fn note(&mut self, rank: u16, step: &Step) -> bool {
        if !self.active.contains(&rank) && !self.detached.contains(&rank) {
            return false;
        }
        self.processes.entry(rank).or_default().profile.note(step);
        let Some(pace) = self.pace() else { return false };
        let is_slow = |rank: &u16| self.ratio(pace, *rank).is_none_or(|ratio| ratio >= WELL_BELOW);
        if !self.active.iter().any(is_slow) {
            self.undisturbed = self.reduce_of_the_last();
        }
        let Some(ratio) = self.ratio(pace, rank) else { return false };
        self.processes.get_mut(&rank).is_some_and(|process| process.detector.note(ratio))
    }

    /// Returns the state of all processes, by rank.
    pub fn members(&self) -> impl Iterator<Item = TeamMember<'_>> {
        let pace = self.pace();
        self.processes.iter().map(move |(rank, Process { profile, detector })| TeamMember {
            rank: *rank,
            is_active: self.active.contains(rank),
            profile,
            detector,
            ratio: pace.and_then(|pace| self.ratio(pace, *rank)),
        })
    }

    /// Returns the ranks of detached processes.
    pub fn detached(&self) -> impl Iterator<Item = u16> + '_ {
        self.detached.iter().copied()
    }

    /// Returns the treatment of the data of detached processes; `None` without detached processes.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Decides which processes should take part.
    /// `theta` is the largest share of degraded processes to detach.
    pub fn decide(&self, theta: f64) -> TeamDecision {
        let processes = self.performances();
        let degraded = processes.iter().filter(|one| one.degraded).count();
        let all = processes.len();
        let (share, communication) = (self.share().unwrap_or(0.0), self.communication());
        let mut decision = TeamDecision {
            verdict: Verdict::AllWell,
            degraded,
            all,
            mode: mode(degraded, all, theta),
            share,
            communication,
            today: self.today(&processes, share, communication.today),
            candidates: Vec::new(),
            best: None,
        };
        let unmeasured: Vec<u16> =
            self.active.iter().copied().filter(|rank| !self.is_measured(*rank)).collect();
        if !unmeasured.is_empty() {
            decision.verdict = Verdict::Unmeasured(unmeasured);
            return decision;
        }
        decision.candidates =
            candidates(&SelectionInput { processes: &processes, share, communication, theta });
        let eligible = decision.candidates.iter().enumerate().filter(|(_, one)| one.eligible);
        // On a tie, the largest group wins, because it comes first.
        decision.best =
            eligible.min_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds)).map(|(place, _)| place);
        decision.verdict = self.verdict(&processes, &decision);
        decision
    }

    fn verdict(&self, processes: &[Performance], decision: &TeamDecision) -> Verdict {
        let well: Vec<u16> = processes
            .iter()
            .filter(|one| !one.degraded && self.detached.contains(&one.rank))
            .map(|one| one.rank)
            .collect();
        if !well.is_empty() {
            return Verdict::Return(well);
        }
        if !processes.iter().any(|one| one.degraded && self.active.contains(&one.rank)) {
            return Verdict::AllWell;
        }
        let best = decision.best.map(|place| &decision.candidates[place]);
        match best {
            Some(best) if best.mode.is_some() && decision.is_worth_it(best) => Verdict::Change,
            _ => Verdict::NoGain,
        }
    }

    fn is_measured(&self, rank: u16) -> bool {
        self.processes.get(&rank).is_some_and(|process| process.profile.steps() >= u64::from(STEADY_STEPS))
    }

    fn performances(&self) -> Vec<Performance> {
        let one = |(rank, process): (&u16, &Process)| {
            Some(Performance {
                rank: *rank,
                model: process.profile.model()?,
                degraded: process.detector.condition() == Condition::Degraded,
            })
        };
        self.processes.iter().filter_map(one).collect()
    }

    /// Returns the number of samples of each process in a step if all processes take part.
    /// It is the number of samples in the present step, divided by the number of processes whose data are used.
    fn share(&self) -> Option<f64> {
        let last = |rank: &u16| self.processes.get(rank)?.profile.last().map(|(samples, _)| samples);
        let samples: Vec<f64> = self.active.iter().filter_map(last).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let shares = match self.mode {
            Some(Mode::Shrink) => self.active.len() + self.detached.len(),
            Some(Mode::Detach) | None => self.active.len(),
        };
        (!samples.is_empty()).then(|| mean * self.active.len() as f64 / shares as f64)
    }

    fn communication(&self) -> Communication {
        let today = self.reduce_of_the_last().unwrap_or(0.0);
        let undisturbed = self.undisturbed.or_else(|| self.least_reduce()).unwrap_or(today);
        Communication { today, undisturbed: undisturbed.min(today) }
    }

    /// Returns the shortest recent time of an all-reduce.
    /// It serves a team that has had a slow process from the start.
    fn least_reduce(&self) -> Option<f64> {
        let least = |rank: &u16| self.processes.get(rank)?.profile.least_reduce();
        self.active.iter().filter_map(least).min_by(f64::total_cmp)
    }

    /// Returns the time of the all-reduce after its last member has started it.
    /// An all-reduce ends at the same time for all members, and begins for each member when that member starts it. So
    /// the shortest time contains no wait for others.
    fn reduce_of_the_last(&self) -> Option<f64> {
        let reduce = |rank: &u16| self.processes.get(rank)?.profile.reduce();
        self.active.iter().filter_map(reduce).min_by(f64::total_cmp)
    }

    fn today(&self, processes: &[Performance], share: f64, communication: f64) -> f64 {
        let (active, all) = (self.active.len(), self.active.len() + self.detached.len());
        let samples = match self.mode {
            Some(Mode::Shrink) => share * all as f64 / active.max(1) as f64,
            Some(Mode::Detach) | None => share,
        };
        let active = processes.iter().filter(|one| self.active.contains(&one.rank));
        active.map(|one| one.model.at(samples)).fold(0.0, f64::max) + communication
    }

    /// Returns a process's time for its share, divided by the median.
    fn ratio(&self, pace: TeamPace, rank: u16) -> Option<f64> {
        Some(self.time(rank, pace.share)? / pace.median)
    }

    fn pace(&self) -> Option<TeamPace> {
        let share = self.share()?;
        let mut times: Vec<f64> = self.active.iter().filter_map(|rank| self.time(*rank, share)).collect();
        // A single process cannot be slower than others.
        if times.len() * 2 < self.active.len() || (times.len() < 2 && self.detached.is_empty()) {
            return None;
        }
        times.sort_by(f64::total_cmp);
        let median = *times.get((times.len().checked_sub(1)?) / 2)?;
        Some(TeamPace { share, median })
    }

    fn time(&self, rank: u16, samples: f64) -> Option<f64> {
        Some(self.processes.get(&rank)?.profile.model()?.at(samples))
    }
}
