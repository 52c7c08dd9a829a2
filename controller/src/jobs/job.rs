//! One job: its life from the creation to the end.
//! `membership` has the part that changes when a process joins or leaves, and `next_generation` the part that changes when
//! the job gets another structure.

mod membership;
mod next_generation;

use std::collections::BTreeMap;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::job_event::Event;
use tributary_wire::Rank;

use super::error::JobError;
use super::generation::Stage;
use super::invitations::Invitations;
use super::measured::Measured;
use super::participant::{Participant, ParticipantId, SessionId};
use super::profiles::Profiles;
use super::record::JobRecord;
pub(crate) use membership::{Joined, Joining};
pub(crate) use next_generation::Answered;

/// The state of a job.
///
/// ```text
/// Queued --slots have come free--> Created
/// Created --all have joined--> Installing --tables are written--> Running --EndJob--> Ended
///    |                              |                                |
///    +------------------------------+-- no member left, a fault -----+--> Failed
/// ```
///
/// A job returns from Installing to Created if a member leaves or a switch of its plan dies meanwhile.
/// A running job has also Ended when its last member leaves at the end of its training. EndJob may come in any state.
/// Ended and Failed are final. A running job can change its generation without leaving the state Running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobState {
    /// The job waits for slots that other jobs have.
    Queued,
    /// The job waits for its members to join.
    Created,
    /// The controller is writing the job's first tables.
    Installing,
    /// The controller has sent its members the start event.
    Running,
    /// The job's owner has ended it, or its training has finished.
    Ended,
    /// The job failed before its end, for the given reason.
    Failed(String),
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    state: JobState,
    pub(crate) participants: BTreeMap<ParticipantId, Participant>,
    /// Hosts that the job has invited to be its server.
    pub(crate) invitations: Invitations,
    sessions: SessionId,
    /// The time at which the job was created, admitted from the queue, or taken up by a restarted
    /// controller.
    pub(crate) since: Instant,
    /// The time at which the present generation began.
    pub(super) advanced: Instant,
    /// Wakes the job's reconciler, which then decides again.
    pub(crate) look: watch::Sender<()>,
    /// True if a worker has reached the end of its training. The job then admits no more workers.
    pub(crate) at_its_end: bool,
    /// True if the job's owner has ended it. Its training cannot start another run of it.
    pub(crate) ended_permanently: bool,
    /// Description of the resources for which the job is queued, as text for users.
    pub(crate) waits: String,
    /// The reason why the last attempt to change the generation failed; empty if no problem exists.
    pub(crate) setback: String,
    /// The measured steps of the job's processes.
    pub(crate) measured: Measured,
    /// The profiles of the job's gradients, and the schedule on which the workers send the gradients.
    pub(crate) profiles: Profiles,
    /// Passes members' answers to the task that changes the generation; `None` if no change is in progress.
    answers: Option<mpsc::UnboundedSender<Answered>>,
    /// The next generation's number, and the reason for the change.
    /// The generation becomes the present one when the journal has stored the change.
    announced: Option<(u32, String)>,
}

impl Job {
    /// Creates a job that waits for its members.
    pub(crate) fn new(record: JobRecord, now: Instant) -> Self {
        Self {
            record,
            state: JobState::Created,
            participants: BTreeMap::new(),
            invitations: Invitations::default(),
            sessions: 0,
            since: now,
            advanced: now,
            look: watch::Sender::new(()),
            at_its_end: false,
            ended_permanently: false,
            waits: String::new(),
            setback: String::new(),
            measured: Measured::default(),
            profiles: Profiles::default(),
            answers: None,
            announced: None,
        }
    }

    /// Recreates a job that ran under an earlier controller. Its members must reconnect.
    pub(crate) fn take_up(record: JobRecord, elastic: bool, now: Instant) -> Self {
        let mut job = Self::new(record, now);
        job.state = JobState::Running;
        let plan = &job.record.generation().plan;
        let worker = |worker: &tributary_planner::WorkerRoute| {
            (ParticipantId::Worker(Rank::new(worker.rank)), Participant::awaited(&worker.name, elastic, now))
        };
        let mut participants: BTreeMap<_, _> = plan.workers.iter().map(worker).collect();
        let server = plan.server.name.clone();
        participants
            .insert(ParticipantId::Server(server.clone()), Participant::awaited(&server, elastic, now));
        job.participants = participants;
        job.measured.arrange(job.record.generation());
        job
    }

    pub(crate) fn state(&self) -> &JobState {
        &self.state
    }

    /// Returns true unless the job has ended or failed.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, JobState::Ended | JobState::Failed(_))
    }

    /// Returns true if the job is over and a restarted training may begin another run of it.
    pub(crate) fn may_run_again(&self) -> bool {
        !self.is_alive() && !self.ended_permanently
    }

    /// Returns true if the job is alive, or if switches may still have state of it.
    pub(crate) fn holds_resources(&self) -> bool {
        self.is_alive() || !self.record.holds_nothing()
    }

    /// Checks that the job is not over.
    pub(crate) fn check_alive(&self) -> Result<(), JobError> {
        let how = match &self.state {
            JobState::Ended => "has ended".to_owned(),
            JobState::Failed(reason) => format!("failed because {reason}"),
            JobState::Queued | JobState::Created | JobState::Installing | JobState::Running => return Ok(()),
        };
        Err(JobError::Over { job: self.record.name.clone(), how })
    }

    /// Notes why the job has not changed its generation; empty if no problem exists.
    /// Returns true if the reason differs from the last one and the job is alive. A job that is over has no next
    /// generation.
    pub(crate) fn note_setback(&mut self, setback: String) -> bool {
        self.is_alive() && std::mem::replace(&mut self.setback, setback) != self.setback
    }

    /// Queues the job. `waits` describes the missing resources, as text for users.
    pub(crate) fn enqueue(&mut self, waits: String) {
        if matches!(self.state, JobState::Queued | JobState::Created) {
            self.state = JobState::Queued;
            self.waits = waits;
        }
    }

    /// Admits the job from the queue: it has its slots, and waits for its members.
    pub(crate) fn admit(&mut self, now: Instant) {
        if self.state == JobState::Queued {
            self.state = JobState::Created;
            self.since = now;
            self.waits.clear();
            self.look.send_replace(());
        }
    }

    /// Notes that the controller has begun to write the job's first tables.
    pub(crate) fn installing(&mut self) {
        if self.state == JobState::Created {
            self.state = JobState::Installing;
        }
    }

    /// Fails the job. Returns false if the job was already over.
    pub(crate) fn fail(&mut self, failure: v1::JobFailed) -> bool {
        self.finish(JobState::Failed(failure.reason.clone()), &Event::Failed(failure))
    }

    /// Ends the job. Returns false if the job was already over.
    pub(crate) fn end(&mut self) -> bool {
        self.finish(JobState::Ended, &Event::Ended(v1::JobEnded {}))
    }

    fn finish(&mut self, state: JobState, event: &Event) -> bool {
        if !self.is_alive() {
            return false;
        }
        self.state = state;
        self.answers = None;
        self.setback.clear();
        for generation in &mut self.record.generations {
            generation.stage = Stage::Retired;
        }
        // The participants' streams end after this event.
        for participant in std::mem::take(&mut self.participants).into_values() {
            participant.dismiss(event.clone());
        }
        self.look.send_replace(());
        true
    }
}

#[cfg(test)]
mod tests;
