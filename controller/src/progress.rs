//! What the training processes are doing, as their hosts tell.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tributary_api::v1::JobProgress;

/// A process that has waited so long for a result, without any that came, waits for somebody who is not there: most
/// operations get results all the time.
const STALL: Duration = Duration::from_millis(700);
/// What a host has told longer ago says nothing of the present.
const FRESH: Duration = Duration::from_secs(2);

/// What is known of each job's processes, by the job's name and the host.
#[derive(Debug, Default)]
pub(crate) struct Progress(BTreeMap<(String, String), Told>);

/// What a host has told last of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// All-reduces that have ended well.
    pub(crate) operations: u64,
    /// The time that the process last took between two of them.
    pub(crate) step: Duration,
    /// How long it has been waiting for a result that others have not given.
    pub(crate) stalled: Duration,
    pub(crate) at: Instant,
}

impl Progress {
    /// A host has told something.
    pub(crate) fn note(&mut self, host: &str, jobs: &[JobProgress], now: Instant) {
        for job in jobs {
            let told = Told {
                operations: job.operations,
                step: Duration::from_nanos(job.step_nanoseconds),
                stalled: Duration::from_millis(job.stalled_milliseconds),
                at: now,
            };
            self.0.insert((job.job.clone(), host.to_owned()), told);
        }
    }

    /// For how long a process of the job has waited for somebody who is not there; `None`: none does.
    pub(crate) fn stall(&self, job: &str, now: Instant) -> Option<Duration> {
        let stalls =
            self.of(job).filter(|(_, told)| told.stalled >= STALL && now.duration_since(told.at) < FRESH);
        stalls.map(|(_, told)| told.stalled).max()
    }

    /// What each host has told of a job.
    pub(crate) fn of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = (&'a str, Told)> {
        self.0
            .iter()
            .filter(move |((name, _), _)| name == job)
            .map(|((_, host), told)| (host.as_str(), *told))
    }
}
