//! The durations of the steps of a job's processes, as reported by their hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tributary_api::v1;
use tributary_planner::degraded::{Step, Team};

use super::detachment::Expectation;
use super::generation::Generation;

/// The measured steps of a job's processes.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    team: Team,
    /// The number of steps already counted, by rank. It is needed because hosts repeat the last steps in
    /// each report.
    seen: BTreeMap<u16, u64>,
    pub(crate) last_change: Option<LastChange>,
}

/// The last change that was made because of degraded processes.
#[derive(Debug, Clone)]
pub(crate) struct LastChange {
    /// The generation to which the job changed.
    pub(crate) generation: u32,
    pub(crate) reason: String,
    pub(crate) expected: Expectation,
    pub(crate) at: Instant,
}

impl Measured {
    pub(crate) fn team(&self) -> &Team {
        &self.team
    }

    /// Notes the members of the job's new generation.
    pub(super) fn arrange(&mut self, generation: &Generation) {
        let detachment = &generation.detachment;
        let detached = detachment.ranks.iter().map(|rank| rank.get());
        self.team.arrange(generation.ranks().map(|rank| rank.get()), detached, detachment.mode);
    }

    /// Forgets the steps of a rank, because another process has taken its place.
    pub(super) fn forget(&mut self, rank: u16) {
        self.team.forget(rank);
        self.seen.remove(&rank);
    }

    /// Notes a host's report on a rank. Returns true if the process has made a step since the last report.
    pub(super) fn note(&mut self, rank: u16, progress: &v1::JobProgress) -> bool {
        let seen = self.seen.insert(rank, progress.steps).unwrap_or_default();
        // A count that has decreased comes from a new process.
        let new = if progress.steps < seen { progress.steps } else { progress.steps - seen };
        let told = &progress.last_steps;
        let new = usize::try_from(new).map_or(told.len(), |new| new.min(told.len()));
        for step in &told[told.len() - new..] {
            self.team.note(rank, &measured(step));
        }
        new > 0
    }
}

fn measured(step: &v1::TrainingStep) -> Step {
    let seconds = |nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64();
    Step {
        samples: step.samples,
        compute: seconds(step.compute_nanoseconds),
        reduce: step.reduce_nanoseconds.map(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(steps: u64, last: &[u64]) -> v1::JobProgress {
        let step = |milliseconds: &u64| v1::TrainingStep {
            samples: 16,
            compute_nanoseconds: milliseconds * 1_000_000,
            reduce_nanoseconds: Some(1_000_000),
        };
        v1::JobProgress { steps, last_steps: last.iter().map(step).collect(), ..v1::JobProgress::default() }
    }

    #[test]
    fn each_step_counts_once_however_often_it_is_told() {
        let mut measured = Measured::default();
        measured.team.arrange([0, 1], [], None);
        let steps = |measured: &Measured| measured.team.members().next().unwrap().profile.steps();
        assert!(measured.note(0, &progress(2, &[100, 110])));
        assert!(!measured.note(0, &progress(2, &[100, 110])));
        assert!(measured.note(0, &progress(3, &[100, 110, 120])));
        assert_eq!(steps(&measured), 3);
        // The process has made more steps than a report contains.
        assert!(measured.note(0, &progress(9, &[130, 140])));
        assert_eq!(steps(&measured), 5);
        // A new process has taken its place.
        assert!(measured.note(0, &progress(1, &[100])));
        assert_eq!(steps(&measured), 6);
    }
}
