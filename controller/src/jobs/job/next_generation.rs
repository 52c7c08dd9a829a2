//! The step to a job's next generation: the announcement, the members' answers, and their
//! configurations.

use std::borrow::Cow;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::job_event::Event;
use tributary_topology::Topology;

use super::{Job, JobState};
use crate::jobs::generation::{Beginning, Generation, Stage};
use crate::jobs::member::{server_config, worker_config};
use crate::jobs::participant::ParticipantId;
use crate::jobs::record::JobRecord;

/// A member's answer to a change of generation.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) participant: ParticipantId,
    pub(crate) generation: u32,
    pub(crate) answer: Answer,
}

impl Job {
    /// Returns the configuration of a participant in `generation`; `None` if it is not a member of
    /// `generation`.
    pub(crate) fn config(
        &self,
        topology: &Topology,
        generation: &Generation,
        id: &ParticipantId,
    ) -> Option<v1::JobConfig> {
        let config = match id {
            ParticipantId::Worker(rank) => worker_config(topology, &self.record, generation, *rank),
            ParticipantId::Server(host) if *host == generation.plan.server.name => {
                server_config(topology, &self.record, generation, None)
            }
            ParticipantId::Server(_) => None,
        };
        config.as_ref().map(Into::into)
    }

    /// Returns the event for a member that reconnects: the configuration of the present generation.
    pub(super) fn present(&self, topology: &Topology, id: &ParticipantId) -> Option<Event> {
        let generation = self.record.generation();
        match self.state {
            JobState::Running => self.config(topology, generation, id).map(Event::Change),
            _ => None,
        }
    }

    /// Sends the present generation to its members again.
    /// Members that stopped for a change then continue after the change was cancelled.
    pub(crate) fn thaw(&mut self, topology: &Topology) {
        let started = self.participants.iter().filter(|(_, participant)| participant.started);
        let ids: Vec<_> = started.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let Some(event) = self.present(topology, &id) else { continue };
            if let Some(participant) = self.participants.get_mut(&id) {
                participant.tell(event);
            }
        }
    }

    /// Returns the event for workers that are detached in the present generation.
    pub(crate) fn word_of_detachment(&self) -> v1::JobDetached {
        let generation = self.record.generation();
        v1::JobDetached {
            generation: generation.number,
            data_adopted: !generation.detachment.adopted().is_empty(),
            reason: self.record.last_change.clone(),
        }
    }

    /// Returns a channel that receives members' answers from now on, for the task that changes the
    /// generation.
    pub(crate) fn take_answers(&mut self) -> mpsc::UnboundedReceiver<Answered> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.answers = Some(sender);
        receiver
    }

    /// Processes a member's answer. Returns false if no change of generation is waiting for it.
    pub(crate) fn answer(&mut self, answered: Answered) -> bool {
        if matches!(answered.answer, Answer::Changed(_))
            && answered.generation == self.record.current
            && let Some(participant) = self.participants.get_mut(&answered.participant)
        {
            participant.behind = None;
        }
        self.answers.as_ref().is_some_and(|answers| answers.send(answered).is_ok())
    }

    /// Announces that generation `number` with the given beginning will replace the present generation.
    /// From now on, the [lasting](Self::lasting) record includes the announcement. The controller notifies members
    /// after the record is on disk. Returns false if the job is over.
    pub(crate) fn announce(&mut self, number: u32, reason: &str, beginning: Beginning) -> bool {
        let is_alive = self.is_alive();
        let Some(generation) = self.record.numbered(number).filter(|_| is_alive) else { return false };
        generation.beginning = beginning;
        self.announced = Some((number, reason.to_owned()));
        true
    }

    /// Returns the record that the journal stores for the next controller.
    pub(crate) fn lasting(&self) -> Cow<'_, JobRecord> {
        let Some((number, reason)) = &self.announced else { return Cow::Borrowed(&self.record) };
        let mut record = self.record.clone();
        record.advance(*number, reason);
        Cow::Owned(record)
    }

    /// Returns true if the job's members have started, or will start when the announcement is on disk.
    pub(crate) fn has_lasting_start(&self) -> bool {
        self.state == JobState::Running || self.announced.is_some()
    }

    /// Makes generation `number` the present one.
    /// The tables of the other generations stay until [`retire_others`](Self::retire_others). Returns false if the job
    /// is over or has no such generation.
    pub(crate) fn advance(&mut self, number: u32, reason: &str) -> bool {
        if !self.is_alive() || self.record.numbered(number).is_none() {
            return false;
        }
        self.announced = None;
        self.record.advance(number, reason);
        self.state = JobState::Running;
        self.advanced = Instant::now();
        self.measured.arrange(self.record.generation());
        true
    }

    /// Retires all generations except the present one, so that the controller withdraws their tables.
    pub(crate) fn retire_others(&mut self) {
        let current = self.record.current;
        for generation in self.record.generations.iter_mut().filter(|one| one.number != current) {
            generation.stage = Stage::Retired;
        }
    }

    /// Cancels the change to generation `number`, which was being prepared.
    pub(crate) fn call_off(&mut self, topology: &Topology, number: u32) {
        (self.answers, self.announced) = (None, None);
        let is_start = self.state == JobState::Installing;
        let is_present = number == self.record.current;
        if is_present && !is_start {
            // The change was complete before its caller stopped it.
            return;
        }
        if is_start {
            self.state = JobState::Created;
        }
        if let Some(generation) = self.record.numbered(number) {
            // The first generation remains the present one. It has no tables until the job starts again.
            generation.stage = if is_present { Stage::Reserved } else { Stage::Retired };
        }
        self.thaw(topology);
    }
}
