//! What goes on in jobs, as their members' hosts tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tributary_api::v1::{Heartbeat, ServedJob};
use tributary_wire::Rank;

/// A process that has waited so long for a result, without any that came, waits for somebody who is not there: most
/// operations get results all the time.
const STALL: Duration = Duration::from_millis(700);
/// What a host has told longer ago says nothing of the present.
const FRESH: Duration = Duration::from_secs(2);

/// That frames of a rank come to the server says nothing any more when it was told so long ago.
const HEARD: Duration = Duration::from_millis(1500);

/// What is known of each job's members, by the job's name and the host.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    processes: BTreeMap<(String, String), Told>,
    servers: BTreeMap<(String, String), Heard>,
}

/// What a job's server has told last.
#[derive(Debug)]
struct Heard {
    /// Who waits for a result, and is heard by the server.
    asking: BTreeSet<Rank>,
    at: Instant,
}

/// What a host has told last of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// All-reduces that have ended well.
    pub(crate) operations: u64,
    /// The time that the process last took between two of them.
    pub(crate) step: Duration,
    /// How long it has been waiting for a result while none came.
    pub(crate) waits: Duration,
    /// The same, but not longer than the job has had its present structure.
    pub(crate) stalled: Duration,
    pub(crate) at: Instant,
}

impl Progress {
    /// A host has told something.
    pub(crate) fn note(&mut self, host: &str, heartbeat: &Heartbeat, now: Instant) {
        for ServedJob { job, asking_ranks } in &heartbeat.served {
            let ranks = asking_ranks.iter().filter_map(|rank| u16::try_from(*rank).ok());
            let heard = Heard { asking: ranks.map(Rank::new).collect(), at: now };
            self.servers.insert((job.clone(), host.to_owned()), heard);
        }
        for job in &heartbeat.jobs {
            let told = Told {
                operations: job.operations,
                step: Duration::from_nanos(job.step_nanoseconds),
                waits: Duration::from_millis(job.stalled_milliseconds),
                stalled: Duration::from_millis(job.stalled_in_generation_milliseconds),
                at: now,
            };
            self.processes.insert((job.job.clone(), host.to_owned()), told);
        }
    }

    /// For how long a process of the job has waited in its present structure for somebody who is not there; `None`: none does.
    pub(crate) fn stall(&self, job: &str, now: Instant) -> Option<Duration> {
        let stalls =
            self.of(job).filter(|(_, told)| told.stalled >= STALL && now.duration_since(told.at) < FRESH);
        stalls.map(|(_, told)| told.stalled).max()
    }

    /// For how long all of these hosts' processes have waited in the job's present structure for a result while none came;
    /// `None`: one of them does not wait, or has told nothing lately.
    pub(crate) fn stuck<'a>(
        &self,
        job: &str,
        hosts: impl IntoIterator<Item = &'a str>,
        now: Instant,
    ) -> Option<Duration> {
        let stalled = |host: &str| {
            let told = self.processes.get(&(job.to_owned(), host.to_owned()))?;
            (now.duration_since(told.at) < FRESH).then_some(told.stalled)
        };
        let shortest = hosts.into_iter().map(stalled).try_fold(Duration::MAX, |all, one| Some(all.min(one?)));
        shortest.filter(|shortest| *shortest >= STALL)
    }

    /// Who of a job waits for a result and is heard by its server, as that has just told.
    pub(crate) fn asking(&self, job: &str, server: &str, now: Instant) -> BTreeSet<Rank> {
        let heard = self.servers.get(&(job.to_owned(), server.to_owned()));
        let lately = heard.filter(|heard| now.duration_since(heard.at) < HEARD);
        lately.map(|heard| heard.asking.clone()).unwrap_or_default()
    }

    /// When a host has told the last time that it has a training process in the job.
    pub(crate) fn process_told(&self, job: &str, host: &str) -> Option<Instant> {
        self.processes.get(&(job.to_owned(), host.to_owned())).map(|told| told.at)
    }

    /// When a host has told the last time that it serves the job.
    pub(crate) fn server_told(&self, job: &str, host: &str) -> Option<Instant> {
        self.servers.get(&(job.to_owned(), host.to_owned())).map(|heard| heard.at)
    }

    /// What each host has told of a job's process there.
    pub(crate) fn of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = (&'a str, Told)> {
        self.processes
            .iter()
            .filter(move |((name, _), _)| name == job)
            .map(|((_, host), told)| (host.as_str(), *told))
    }
}
