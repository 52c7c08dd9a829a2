//! Carries out the calls of jobs' members.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::Stream;
use tributary_api::v1;
use tributary_api::v1::EventKind;
use tributary_planner::WorkerRoute;
use tributary_wire::Rank;

use super::Manager;
use crate::jobs::{Answered, JobError, JobKey, JobState, Joined, Joining, ParticipantId, SessionId};
use crate::wrong_sum::{Worker, WrongSumReport};

impl Manager {
    /// Lets a host's process join a job, or reconnect to it.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        joining: &Joining<'_>,
    ) -> Result<MemberEvents, JobError> {
        let mut state = self.state();
        let key = state.jobs.authorize(name, token).inspect_err(|error| {
            if joining.resume > 0 && matches!(error, JobError::NoSuchJob(_)) {
                self.orphans.note(name, joining.host);
            }
        })?;
        let no_such_job = || JobError::NoSuchJob(name.to_owned());
        let job = state.jobs.get_mut(key).ok_or_else(no_such_job)?;
        let Joined { participant: id, session, events } = job.join(&self.topology(), joining)?;
        let place = job.place(&id);
        tracing::info!(job = name, host = joining.host, place, resumes = joining.resume, "joined");
        let words =
            if joining.resume > 0 { format!("came back as {place}") } else { format!("joined as {place}") };
        self.events.of_member(EventKind::MemberJoined, name, joining.host, &words);
        Ok(MemberEvents { events, manager: self.clone(), job: key, participant: id, session })
    }

    /// Passes a member's answer to the task that changes the job's generation.
    pub(crate) fn answer(
        &self,
        name: &str,
        token: &[u8],
        host: &str,
        id: impl Fn(&ParticipantId) -> bool,
        answer: (u32, v1::answer_request::Answer),
    ) -> Result<(), JobError> {
        let mut state = self.state();
        let key = state.jobs.authorize(name, token)?;
        let job = state.jobs.get_mut(key).ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
        let ids = job.participants_of(host)?;
        let Some(id) = ids.into_iter().find(|one| id(one)) else {
            return Err(JobError::NotAsked(name.to_owned()));
        };
        let (generation, answer) = answer;
        let taken = job.answer(Answered { participant: id, generation, answer });
        if taken { Ok(()) } else { Err(JobError::NotAsked(name.to_owned())) }
    }

    /// Removes a member that leaves. The job continues without it, unless the job is rigid.
    pub(crate) fn leave(
        &self,
        request: &v1::LeaveRequest,
        is_meant: impl Fn(&ParticipantId) -> bool,
    ) -> Result<(), JobError> {
        let v1::LeaveRequest { job: name, token, host, reason, at_end, .. } = request;
        let mut state = self.state();
        let key = state.jobs.authorize(name, token)?;
        let job = state.jobs.get_mut(key).ok_or_else(|| JobError::NoSuchJob(name.clone()))?;
        // If the host gives no role, its training process leaves, because workers order before servers.
        let id = job.participants_of(host)?.into_iter().find(|id| is_meant(id));
        if let Some(id) = id {
            let place = job.place(&id);
            tracing::info!(job = name, host, place, reason, "left");
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            self.events.of_member(EventKind::MemberLeft, name, host, &format!("{place} left{why}"));
            if *at_end {
                job.come_to_end(&id);
            }
            job.leave(&id, reason, Instant::now());
        }
        Ok(())
    }

    /// Fails the job because a member has reported an error.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        host: &str,
        what: &str,
    ) -> Result<(), JobError> {
        let key = {
            let state = self.state();
            let key = state.jobs.authorize(name, token)?;
            state.jobs.get(key).map_or(Ok(()), |job| job.participants_of(host).map(drop))?;
            key
        };
        self.fail(key, &format!("host {host:?} {what}"));
        Ok(())
    }

    /// Accepts a worker's report of its contribution to an all-reduce with a wrong sum.
    /// The job fails when all of its workers have reported, or some time after the first report. The returned channel
    /// delivers the verdict.
    pub(crate) fn report_wrong_sum(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        host: &str,
        report: WrongSumReport,
    ) -> Result<watch::Receiver<Option<String>>, JobError> {
        let (key, rank, members) = {
            let state = self.state();
            let key = state.jobs.authorize(name, token)?;
            let job = state.jobs.get(key).ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
            if let JobState::Failed(reason) = job.state() {
                // A failed job has no members, so the host is not checked. Every caller with the token may read the
                // reason.
                return Ok(watch::Sender::new(Some(reason.clone())).subscribe());
            }
            let rank = job.rank_of(host)?;
            let counts = job.record.process_counts();
            let worker = |route: &WorkerRoute| {
                let rank = Rank::new(route.rank);
                (rank, Worker { host: route.name.clone(), ranks: counts.ranks_of(rank) })
            };
            (key, rank, job.record.generation().plan.workers.iter().map(worker).collect())
        };
        let (is_first, verdict) = self.diagnoses.note(key, members, rank, report);
        if is_first {
            self.runtime.spawn(Arc::clone(self).conclude(key));
        }
        Ok(verdict)
    }

    /// Waits for the members' reports, and fails the job with the verdict.
    async fn conclude(self: Arc<Self>, key: JobKey) {
        let verdict = self.diagnoses.verdict(key).await;
        self.finish(key, v1::JobFailed { reason: verdict.clone(), wrong_sum: true });
        self.diagnoses.close(key, verdict);
    }

    /// Notes that a member's stream has broken.
    fn lose(&self, key: JobKey, id: &ParticipantId, session: SessionId) {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return };
        let place = job.place(id);
        if let Some(host) = job.lose(id, session, Instant::now()) {
            let words = format!("the connection of {place} has broken");
            self.events.of_member(EventKind::MemberLost, &job.record.name, &host, &words);
        }
    }
}

/// The stream of events for one member. Dropping it reports that the member's stream has broken.
#[derive(Debug)]
pub(crate) struct MemberEvents {
    events: mpsc::Receiver<v1::JobEvent>,
    manager: Arc<Manager>,
    job: JobKey,
    participant: ParticipantId,
    session: SessionId,
}

impl Stream for MemberEvents {
    type Item = Result<v1::JobEvent, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context).map(|event| event.map(Ok))
    }
}

impl Drop for MemberEvents {
    fn drop(&mut self) {
        // If the stream ended normally, the job is over and this call has no effect.
        self.manager.lose(self.job, &self.participant, self.session);
    }
}
