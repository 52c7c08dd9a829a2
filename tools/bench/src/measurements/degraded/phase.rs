//! One training on the lab, with some of its workers slowed down.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use tokio::time::timeout;
use tributary_api::v1;
use tributary_bench::statistics::Summary;
use tributary_lab::{Lab, Slowdown};

use super::event::WorkerEvent;
use super::processes::Processes;
use tributary::lab::{Record, explain, restart_job, slow_station};

/// Time limit for the next event. A slowed-down worker's step takes a small part of this time.
const PATIENCE: Duration = Duration::from_secs(90);
/// More steps than any phase makes that does not wait for the end of the training.
const ENDLESS: u32 = 1_000_000;

/// Specification of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Ranks of the workers that are slowed down.
    pub(super) slow: &'static [usize],
    /// θ of the job; `None` if the job does not react to slow workers.
    pub(super) theta: Option<f64>,
    pub(super) goal: Goal,
}

/// The condition that ends a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// All steps are done.
    Trained,
    /// The final group of members has made this many steps.
    Measured(usize),
    /// After the steps of `Measured`, all workers return to full speed.
    ///
    /// When all are in the job again, they make this
    /// many steps.
    Returned(usize),
}

/// The results of a phase.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    /// Hosts that were slowed down.
    pub(super) slow: Vec<String>,
    pub(super) theta: Option<f64>,
    /// The treatment of the data of workers that were left out.
    pub(super) mode: Option<&'static str>,
    /// Size of the group that was measured.
    pub(super) members: usize,
    /// Number of times that a worker was briefly out of the job without having been detached.
    pub(super) outages: usize,
    /// Samples that all members process in a step.
    pub(super) samples: u32,
    /// The median step time, in seconds.
    pub(super) step_s: f64,
    /// Number of steps from which the median is computed.
    pub(super) steps: usize,
    /// The step time that the controller's model predicts.
    ///
    /// If the members change, the model predicts it before the change.
    pub(super) predicted_s: f64,
    /// If the members change, the model's step time of the previous group.
    pub(super) predicted_before_s: Option<f64>,
    /// Number of steps before the members changed.
    pub(super) steps_until_change: Option<usize>,
    /// Number of steps from the return to full speed until the left-out workers were in the job again.
    pub(super) steps_until_return: Option<usize>,
    /// Accuracy of the model after all steps.
    pub(super) accuracy: Option<f64>,
    /// True if all members had the same model after all steps.
    pub(super) same_bits: Option<bool>,
    /// The controller's final verdict on slow workers.
    pub(super) verdict: String,
}

/// The lab on which phases run, and the settings that all phases share.
pub(super) struct Stage<'a> {
    pub(super) lab: &'a Lab,
    pub(super) record: &'a mut Record,
    /// Factor by which the slow workers are slowed down.
    pub(super) factor: Slowdown,
    /// Steps of a training that runs to its end.
    pub(super) steps: u32,
    /// Other arguments of the training processes.
    pub(super) arguments: Vec<String>,
}

impl Stage<'_> {
    /// Runs a phase, with a separate job.
    ///
    /// # Errors
    /// The job cannot be created, a process ends by itself, or no event arrives within the time limit.
    pub(super) async fn run(&mut self, spec: &Spec, tell: impl Fn(String)) -> Result<Phase> {
        restart_job(self.lab, self.record, spec.theta)?;
        self.slow(spec.slow, self.factor).await?;
        let steps = if spec.goal == Goal::Trained { self.steps } else { ENDLESS };
        let arguments = [&self.arguments[..], &["--steps".to_owned(), steps.to_string()]].concat();
        let processes = Processes::start(self.lab, self.record, &arguments)?;
        let mut progress = PhaseProgress::new(self.record.workers.len(), processes);
        let phase = self.observe(spec, &mut progress, tell).await;
        progress.processes.kill().await?;
        self.slow(spec.slow, Slowdown::new(1.0)?).await?;
        phase
    }

    async fn observe(
        &self,
        spec: &Spec,
        progress: &mut PhaseProgress,
        tell: impl Fn(String),
    ) -> Result<Phase> {
        let (all, relieved) = (0..self.record.workers.len(), spec.theta.is_some());
        let group: Vec<usize> = all.filter(|rank| !relieved || !spec.slow.contains(rank)).collect();
        let steps = match spec.goal {
            Goal::Trained => None,
            Goal::Measured(steps) | Goal::Returned(steps) => Some(steps),
        };
        progress
            .until(&tell, |progress| match steps {
                None => progress.all_done(),
                Some(steps) => progress.measured() >= steps && progress.members == group,
            })
            .await?;
        let explained = explain(self.lab, self.record)?;
        let mut phase = self.phase(spec, progress, &explained)?;
        if let Goal::Returned(steps) = spec.goal {
            self.slow(spec.slow, Slowdown::new(1.0)?).await?;
            let (made, all) = (progress.steps.len(), self.record.workers.len());
            progress
                .until(&tell, |progress| progress.members.len() == all && progress.measured() >= steps)
                .await?;
            phase.steps_until_return = Some(progress.since - made);
        }
        Ok(phase)
    }

    fn phase(
        &self,
        spec: &Spec,
        progress: &PhaseProgress,
        explained: &v1::ExplainJobResponse,
    ) -> Result<Phase> {
        let measured = &progress.steps[progress.steps.len() - progress.measured()..];
        let seconds: Vec<f64> = measured.iter().map(|step| step.seconds).collect();
        let change = explained.last_change.as_ref();
        ensure!(
            spec.theta.is_none() || change.is_some(),
            "{}: the controller has made no change: {}",
            spec.name,
            explained.verdict
        );
        Ok(Phase {
            name: spec.name,
            slow: spec.slow.iter().map(|rank| self.record.workers[*rank].host.clone()).collect(),
            theta: spec.theta,
            mode: match explained.mode() {
                v1::DegradedMode::Unspecified => None,
                v1::DegradedMode::Detach => Some("detach"),
                v1::DegradedMode::Shrink => Some("shrink"),
            },
            members: progress.members.len(),
            outages: progress.outages,
            samples: measured.last().context("no step was measured")?.samples,
            step_s: Summary::of(&seconds)?.median,
            steps: seconds.len(),
            predicted_s: change.map_or(explained.today_seconds, |change| change.predicted_seconds),
            predicted_before_s: change.map(|change| change.before_seconds),
            steps_until_change: change.map(|_| progress.since),
            steps_until_return: None,
            accuracy: progress.done.values().next().map(|(accuracy, _)| *accuracy),
            same_bits: progress.same_bits(),
            verdict: explained.verdict.clone(),
        })
    }

    async fn slow(&self, ranks: &[usize], factor: Slowdown) -> Result<()> {
        for rank in ranks {
            let worker = self.record.workers.get(*rank).context("the topology has too few workers")?;
            slow_station(self.lab, &worker.host, factor).await?;
        }
        Ok(())
    }
}

/// A step as measured by rank 0, which is never slowed down.
struct Step {
    seconds: f64,
    samples: u32,
}

/// The events and measurements of a phase up to the present.
struct PhaseProgress {
    processes: Processes,
    /// The steps of rank 0.
    steps: Vec<Step>,
    /// Number of steps before the last change of the members.
    since: usize,
    /// Ranks that are in the job.
    members: Vec<usize>,
    /// Number of times that a worker was out of the job without having been detached.
    outages: usize,
    /// Accuracy and digest of each member that has made all steps, by rank.
    done: BTreeMap<usize, (f64, u64)>,
}

impl PhaseProgress {
    fn new(ranks: usize, processes: Processes) -> Self {
        let members = (0..ranks).collect();
        Self { processes, steps: Vec::new(), since: 0, members, outages: 0, done: BTreeMap::new() }
    }

    /// Handles the workers' events until `holds` returns true.
    async fn until(&mut self, tell: impl Fn(String), holds: impl Fn(&Self) -> bool) -> Result<()> {
        while !holds(self) {
            let Ok(said) = timeout(PATIENCE, self.processes.next()).await else {
                bail!("no process has reported anything for {PATIENCE:?}");
            };
            let (rank, event) = said?;
            self.note(rank, event);
            tell(format!("{} members, {} steps", self.members.len(), self.steps.len()));
        }
        Ok(())
    }

    fn note(&mut self, rank: usize, event: WorkerEvent) {
        match event {
            WorkerEvent::Step { seconds, samples, .. } if rank == 0 => {
                self.steps.push(Step { seconds, samples });
            }
            WorkerEvent::Regrouped { members, .. } if rank == 0 => {
                self.since = self.steps.len();
                self.members = members.into_iter().map(usize::from).collect();
            }
            WorkerEvent::Out => self.outages += 1,
            WorkerEvent::Done { accuracy, digest } => drop(self.done.insert(rank, (accuracy, digest))),
            WorkerEvent::Step { .. } | WorkerEvent::Regrouped { .. } | WorkerEvent::Detached { .. } => {}
        }
    }

    /// Returns the number of steps of the present group that count for its step time.
    ///
    /// The first step does not count, because the group was formed during it.
    fn measured(&self) -> usize {
        self.steps.len().saturating_sub(self.since + 1)
    }

    fn all_done(&self) -> bool {
        self.members.iter().all(|rank| self.done.contains_key(rank))
    }

    fn same_bits(&self) -> Option<bool> {
        let mut digests = self.done.values().map(|(_, digest)| digest);
        let first = digests.next()?;
        Some(digests.all(|digest| digest == first))
    }
}
