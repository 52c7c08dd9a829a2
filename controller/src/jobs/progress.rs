//! The progress of a job, from the reports of its participants' hosts.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tributary_api::v1;
use tributary_planner::degraded::Verdict;
use tributary_topology::NodeKey;
use tributary_wire::Rank;

use super::decision_inputs::STUCK_PATIENCE;
use super::detachment::OnDegraded;
use super::job::{Job, JobState};
use super::participant::ParticipantId;
use super::progress_report::{ProcessReport, ProgressReport, ServerReport};

/// Time that a process must have waited for a result to count as stalled.
/// During most operations, results arrive all the time.
const STALL: Duration = Duration::from_millis(700);
/// Age after which a host's report on a process is outdated.
const FRESH: Duration = Duration::from_secs(2);

/// Age after which a server's report of the ranks that wait for a result is outdated.
const HEARD: Duration = Duration::from_millis(1500);

impl Job {
    /// Notes a host's heartbeat.
    /// Only reports on the host's own participants in this job count. Each participant keeps its last report.
    pub(super) fn note_heartbeat(
        &mut self,
        (key, host): (NodeKey, &str),
        heartbeat: &v1::Heartbeat,
        now: Instant,
    ) {
        let server = ParticipantId::Server(host.to_owned());
        if self.participants.contains_key(&server)
            && let Some(served) = heartbeat.served.iter().find(|served| served.job == self.record.name)
        {
            let ranks = served.asking_ranks.iter().filter_map(|rank| u16::try_from(*rank).ok());
            let report = ServerReport { asking: ranks.map(Rank::new).collect(), at: now };
            self.keep_report(&server, ProgressReport::Server(report));
        }
        let member = self.record.request.workers.iter().find(|member| member.host == key);
        let Some(rank) = member.map(|member| Rank::new(member.rank)) else { return };
        let worker = ParticipantId::Worker(rank);
        if self.participants.contains_key(&worker)
            && let Some(progress) = heartbeat.jobs.iter().find(|progress| progress.job == self.record.name)
        {
            let report = ProcessReport {
                operations: progress.operations,
                step: Duration::from_nanos(progress.step_nanoseconds),
                waits: Duration::from_millis(progress.stalled_milliseconds),
                stalled: Duration::from_millis(progress.stalled_in_generation_milliseconds),
                at: now,
            };
            self.keep_report(&worker, ProgressReport::Worker(report));
            if self.note_progress(rank, progress) {
                self.look.send_replace(());
            }
        }
    }

    /// Notes the progress of a rank's process. Returns true if the progress may require a change of the
    /// job.
    fn note_progress(&mut self, rank: Rank, progress: &v1::JobProgress) -> bool {
        let OnDegraded { auto, theta } = self.record.terms.on_degraded;
        let news = *self.state() == JobState::Running && self.measured.note(rank.get(), progress);
        let is_degraded =
            || matches!(self.measured.team().decide(theta).verdict, Verdict::Change | Verdict::Return(_));
        Duration::from_millis(progress.stalled_in_generation_milliseconds) >= STUCK_PATIENCE
            || news && auto && is_degraded()
    }

    fn keep_report(&mut self, id: &ParticipantId, report: ProgressReport) {
        if let Some(participant) = self.participants.get_mut(id) {
            participant.report = Some(report);
        }
    }

    /// Returns the last report on the worker with this rank.
    pub(crate) fn process_report(&self, rank: Rank) -> Option<ProcessReport> {
        match self.participants.get(&ParticipantId::Worker(rank))?.report {
            Some(ProgressReport::Worker(report)) => Some(report),
            _ => None,
        }
    }

    /// Returns the time of the last report on a participant.
    pub(crate) fn last_report(&self, id: &ParticipantId) -> Option<Instant> {
        self.participants.get(id)?.report.as_ref().map(ProgressReport::at)
    }

    /// Returns the time that each process of the present generation has waited for a result in that
    /// generation.
    /// The value is `None` for a process without a recent report.
    fn stalls(&self, now: Instant) -> impl Iterator<Item = Option<Duration>> {
        self.record.generation().ranks().map(move |rank| {
            let report = self.process_report(rank)?;
            (now.duration_since(report.at) < FRESH).then_some(report.stalled)
        })
    }

    /// Returns the longest time that a process has waited for a result in the present generation.
    /// Returns `None` if no process is stalled.
    pub(crate) fn stall(&self, now: Instant) -> Option<Duration> {
        self.stalls(now).flatten().filter(|stalled| *stalled >= STALL).max()
    }

    /// Returns the time for which all processes have waited for a result in the present generation.
    /// Returns `None` if at least one process is not stalled or has no recent report.
    pub(crate) fn stuck(&self, now: Instant) -> Option<Duration> {
        let shortest = self.stalls(now).try_fold(Duration::MAX, |all, one| Some(all.min(one?)));
        shortest.filter(|shortest| *shortest >= STALL)
    }

    /// Returns the ranks that wait for a result and whose requests reach the server, from the server's last
    /// report.
    /// The set is empty if the report is outdated.
    pub(crate) fn asking(&self, now: Instant) -> BTreeSet<Rank> {
        let server = ParticipantId::Server(self.record.generation().plan.server.name.clone());
        match self.participants.get(&server).and_then(|server| server.report.as_ref()) {
            Some(ProgressReport::Server(report)) if now.duration_since(report.at) < HEARD => {
                report.asking.clone()
            }
            _ => BTreeSet::new(),
        }
    }
}
