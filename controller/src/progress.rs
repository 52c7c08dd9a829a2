//! The progress of jobs, as their members' hosts report it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tributary_api::v1::{Heartbeat, ServedJob};
use tributary_wire::Rank;

/// A process that has waited this long for a result in vain waits for somebody who is not there: most operations get
/// results all the time.
const STALL: Duration = Duration::from_millis(700);
/// A host's report that is older than this says nothing about the present.
const FRESH: Duration = Duration::from_secs(2);

/// A server's report of which ranks it hears is worth nothing once it is older than this.
const HEARD: Duration = Duration::from_millis(1500);

/// What is known of each job's members, by the job's name and the host.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    processes: BTreeMap<(String, String), ProcessReport>,
    servers: BTreeMap<(String, String), ServerReport>,
}

/// The last report of a job's server.
#[derive(Debug)]
struct ServerReport {
    /// Ranks that wait for a result and are heard by the server.
    asking: BTreeSet<Rank>,
    at: Instant,
}

/// The last report of a host on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessReport {
    /// All-reduces that have succeeded.
    pub(crate) operations: u64,
    /// The time that the process last spent between two of them.
    pub(crate) step: Duration,
    /// How long it has been waiting for a result in vain.
    pub(crate) waits: Duration,
    /// The same, but at most the time that the job has had its present structure.
    pub(crate) stalled: Duration,
    pub(crate) at: Instant,
}

impl Progress {
    /// Notes a host's report.
    pub(crate) fn note(&mut self, host: &str, heartbeat: &Heartbeat, now: Instant) {
        for ServedJob { job, asking_ranks } in &heartbeat.served {
            let ranks = asking_ranks.iter().filter_map(|rank| u16::try_from(*rank).ok());
            let report = ServerReport { asking: ranks.map(Rank::new).collect(), at: now };
            self.servers.insert((job.clone(), host.to_owned()), report);
        }
        for job in &heartbeat.jobs {
            let report = ProcessReport {
                operations: job.operations,
                step: Duration::from_nanos(job.step_nanoseconds),
                waits: Duration::from_millis(job.stalled_milliseconds),
                stalled: Duration::from_millis(job.stalled_in_generation_milliseconds),
                at: now,
            };
            self.processes.insert((job.job.clone(), host.to_owned()), report);
        }
    }

    /// How long a process of the job has waited, in the present structure, for somebody who is not there; `None`:
    /// none does.
    pub(crate) fn stall(&self, job: &str, now: Instant) -> Option<Duration> {
        let stalls = self
            .of(job)
            .filter(|(_, report)| report.stalled >= STALL && now.duration_since(report.at) < FRESH);
        stalls.map(|(_, report)| report.stalled).max()
    }

    /// How long all of these hosts' processes have waited in vain for a result in the job's present structure;
    /// `None`: one of them does not wait, or has reported nothing lately.
    pub(crate) fn stuck<'a>(
        &self,
        job: &str,
        hosts: impl IntoIterator<Item = &'a str>,
        now: Instant,
    ) -> Option<Duration> {
        let stalled = |host: &str| {
            let report = self.processes.get(&(job.to_owned(), host.to_owned()))?;
            (now.duration_since(report.at) < FRESH).then_some(report.stalled)
        };
        let shortest = hosts.into_iter().map(stalled).try_fold(Duration::MAX, |all, one| Some(all.min(one?)));
        shortest.filter(|shortest| *shortest >= STALL)
    }

    /// Ranks of a job that wait for a result and are heard by its server, if it has just said so.
    pub(crate) fn asking(&self, job: &str, server: &str, now: Instant) -> BTreeSet<Rank> {
        let report = self.servers.get(&(job.to_owned(), server.to_owned()));
        let lately = report.filter(|report| now.duration_since(report.at) < HEARD);
        lately.map(|report| report.asking.clone()).unwrap_or_default()
    }

    /// When a host last reported that it has a training process in the job.
    pub(crate) fn process_reported(&self, job: &str, host: &str) -> Option<Instant> {
        self.processes.get(&(job.to_owned(), host.to_owned())).map(|report| report.at)
    }

    /// When a host last reported that it serves the job.
    pub(crate) fn server_reported(&self, job: &str, host: &str) -> Option<Instant> {
        self.servers.get(&(job.to_owned(), host.to_owned())).map(|report| report.at)
    }

    /// The last report of each host with a process in the job.
    pub(crate) fn of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = (&'a str, ProcessReport)> {
        self.processes
            .iter()
            .filter(move |((name, _), _)| name == job)
            .map(|((_, host), report)| (host.as_str(), *report))
    }
}
