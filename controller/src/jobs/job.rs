//! One job: its state and its participants.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::job_event::Event;
use tributary_planner::degraded::Verdict;
use tributary_planner::schedule::Profile;
use tributary_topology::Topology;
use tributary_wire::Rank;

use super::decision_inputs::STUCK_PATIENCE;
use super::detachment::OnDegraded;
use super::error::JobError;
use super::generation::{Beginning, Generation, Stage};
use super::invitations::Invitations;
use super::measured::Measured;
use super::member::{server_config, worker_config};
use super::participant::{Participant, ParticipantId, SessionId};
use super::profiles::{HandedIn, Number, Profiles};
use super::record::JobRecord;

/// The state of a job.
///
/// ```text
/// Queued --slots have come free--> Created
/// Created --all have joined--> Installing --tables are written--> Running --EndJob--> Ended
///    |                              |                                |
///    +------------------------------+-- no member left, a fault -----+--> Failed
/// ```
///
/// A running job has also Ended when its last member leaves at the end of its training. EndJob may come in any state.
/// Ended and Failed are final. A running job can change its generation without leaving the state Running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
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

/// A member's answer to a change of generation.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) participant: ParticipantId,
    pub(crate) generation: u32,
    pub(crate) answer: Answer,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    state: State,
    participants: BTreeMap<ParticipantId, Participant>,
    /// Hosts that the job has invited to be its server.
    pub(super) invitations: Invitations,
    sessions: SessionId,
    /// The time at which the job was created, admitted from the queue, or taken up by a restarted
    /// controller.
    pub(crate) since: Instant,
    /// The time at which the present generation began.
    pub(super) advanced: Instant,
    /// Wakes the job's reconciler, which then decides again.
    pub(crate) look: watch::Sender<()>,
    /// True if a worker has reached the end of its training. The job then admits no more workers.
    at_its_end: bool,
    /// True if the job's owner has ended it. Its training cannot start another run of it.
    ended_permanently: bool,
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

/// A member that has just joined.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) participant: ParticipantId,
    pub(crate) session: SessionId,
    pub(crate) events: mpsc::Receiver<v1::JobEvent>,
}

/// A request of a host to join the job.
#[derive(Debug, Clone)]
pub(crate) struct Joining<'a> {
    pub(crate) host: &'a str,
    pub(crate) role: v1::MemberRole,
    pub(crate) elastic: bool,
    /// The last generation of which the process was a member; 0 for a process that has just started.
    pub(crate) resume: u32,
    /// True if the process may begin a new run of the job after the last run is over.
    pub(crate) new_run: bool,
}

impl Job {
    /// Creates a job that waits for its members.
    pub(crate) fn new(record: JobRecord, now: Instant) -> Self {
        Self {
            record,
            state: State::Created,
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
        job.state = State::Running;
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

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Returns true unless the job has ended or failed.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended | State::Failed(_))
    }

    /// Returns true if the job is over and a restarted training may begin another run of it.
    pub(crate) fn may_run_again(&self) -> bool {
        !self.is_alive() && !self.ended_permanently
    }

    /// Prevents further runs of the job, because the job's owner has ended it.
    pub(crate) fn forbid_runs(&mut self) {
        self.ended_permanently = true;
    }

    /// Returns true if the job is alive, or if switches may still have state of it.
    pub(crate) fn holds_resources(&self) -> bool {
        self.is_alive() || !self.record.holds_nothing()
    }

    /// Returns the participant with this id.
    pub(crate) fn participant(&self, id: &ParticipantId) -> Option<&Participant> {
        self.participants.get(id)
    }

    /// Returns true if the stream of this participant is open.
    pub(crate) fn is_here(&self, id: &ParticipantId) -> bool {
        self.participant(id).is_some_and(Participant::is_here)
    }

    pub(crate) fn participant_mut(&mut self, id: &ParticipantId) -> Option<&mut Participant> {
        self.participants.get_mut(id)
    }

    pub(crate) fn participants(&self) -> impl Iterator<Item = (&ParticipantId, &Participant)> {
        self.participants.iter()
    }

    /// Returns the hosts of members that have not joined or are disconnected: workers by rank, then the
    /// server.
    /// The text for the server says so if the host also has a worker.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        if !self.is_alive() {
            return Vec::new();
        }
        let plan = &self.record.generation().plan;
        let is_away = |id: ParticipantId| !self.is_here(&id);
        let workers =
            plan.workers.iter().filter(|worker| is_away(ParticipantId::Worker(Rank::new(worker.rank))));
        let server = &plan.server.name;
        let is_worker = plan.workers.iter().any(|worker| worker.name == *server);
        let server_away = is_away(ParticipantId::Server(server.clone()));
        let as_server = if is_worker { format!("{server} as the server") } else { server.clone() };
        workers.map(|worker| worker.name.clone()).chain(server_away.then_some(as_server)).collect()
    }

    /// Lets a host's process join the job, or reconnect to it.
    pub(crate) fn join(&mut self, topology: &Topology, joining: &Joining<'_>) -> Result<Joined, JobError> {
        self.check_alive()?;
        let id = self.participant_of(topology, joining)?;
        self.sessions += 1;
        let session = self.sessions;
        let present = self.present(topology, &id);
        let in_it = present.is_some();
        let was_detached = joining.resume > 0 && self.is_detached(&id);
        let events = match self.participants.get_mut(&id) {
            Some(participant) if joining.resume > 0 && participant.started && in_it => {
                participant.elastic = joining.elastic;
                participant.come_back(session, present)
            }
            Some(participant) if joining.resume > 0 && participant.detached => {
                self.measured.arrange(self.record.generation());
                participant.come_back(session, None)
            }
            None if was_detached => self.detached_before(&id, session, joining),
            Some(participant) if participant.is_here() => {
                let (job, host) = (self.record.name.clone(), joining.host.to_owned());
                return Err(JobError::AlreadyJoined { job, host });
            }
            _ if joining.resume > 0 => return Ok(self.left_behind(id, session, joining.host)),
            _ => {
                self.check_open(&id, joining)?;
                let (participant, events) = Participant::new(joining.host, session, joining.elastic);
                self.participants.insert(id.clone(), participant);
                if let ParticipantId::Worker(rank) = id {
                    self.measured.forget(rank.get());
                }
                events
            }
        };
        self.look.send_replace(());
        Ok(Joined { participant: id, session, events })
    }

    fn is_detached(&self, id: &ParticipantId) -> bool {
        let ranks = &self.record.generation().detachment.ranks;
        matches!(id, ParticipantId::Worker(rank) if ranks.contains(rank))
    }

    /// Adds a worker that an earlier controller had detached. The worker stays detached.
    fn detached_before(
        &mut self,
        id: &ParticipantId,
        session: SessionId,
        joining: &Joining<'_>,
    ) -> mpsc::Receiver<v1::JobEvent> {
        let (mut participant, events) = Participant::new(joining.host, session, joining.elastic);
        participant.detach(self.word_of_detachment());
        self.participants.insert(id.clone(), participant);
        events
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

    /// Notes the progress of a rank's process. Returns true if the progress may require a change of the
    /// job.
    pub(super) fn note_progress(&mut self, rank: Rank, progress: &v1::JobProgress) -> bool {
        let OnDegraded { auto, theta } = self.record.terms.on_degraded;
        let news = self.state == State::Running && self.measured.note(rank.get(), progress);
        let is_degraded =
            || matches!(self.measured.team().decide(theta).verdict, Verdict::Change | Verdict::Return(_));
        Duration::from_millis(progress.stalled_in_generation_milliseconds) >= STUCK_PATIENCE
            || news && auto && is_degraded()
    }

    /// Accepts a profile of backward passes from the worker on a host.
    pub(crate) fn hand_in(
        &mut self,
        host: &str,
        number: Number,
        profile: &Profile,
        now: Instant,
    ) -> Result<HandedIn, JobError> {
        self.check_alive()?;
        let ids = self.participants_of(host)?;
        let rank = ids.iter().find_map(|id| match id {
            ParticipantId::Worker(rank) => Some(*rank),
            ParticipantId::Server(_) => None,
        });
        let rank = rank.ok_or_else(|| self.not_a_member(host))?;
        let members: Vec<_> = self.record.generation().ranks().collect();
        Ok(self.profiles.hand_in(rank, (number, profile), members.into_iter(), now))
    }

    /// Dismisses a process that was a member of an earlier generation but is not a member of the present
    /// one.
    fn left_behind(&mut self, id: ParticipantId, session: SessionId, host: &str) -> Joined {
        let (participant, events) = Participant::new(host, session, false);
        participant.dismiss(match id {
            ParticipantId::Worker(_) => {
                let reason =
                    format!("it was away for too long: the job went on ({})", self.record.last_change);
                Event::Removed(v1::JobRemoved { reason })
            }
            ParticipantId::Server(_) => Event::Relieved(v1::JobRelieved {}),
        });
        Joined { participant: id, session, events }
    }

    /// Checks that the job may admit a process now.
    fn check_open(&self, id: &ParticipantId, joining: &Joining<'_>) -> Result<(), JobError> {
        let runs = !matches!(self.state, State::Queued | State::Created);
        let ParticipantId::Worker(rank) = id else { return Ok(()) };
        // A dead process of the same rank does not count, because the job first continues without it.
        let others = |id: &ParticipantId| matches!(id, ParticipantId::Worker(one) if one != rank);
        let closed = runs && (self.record.terms.rigid || !joining.elastic || !self.are_elastic(others));
        match closed {
            true => Err(JobError::Closed { job: self.record.name.clone(), host: joining.host.to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns true if all workers, connected or awaited, support workers that join and leave.
    /// Servers always support that.
    pub(crate) fn is_elastic(&self) -> bool {
        self.are_elastic(|id| matches!(id, ParticipantId::Worker(_)))
    }

    fn are_elastic(&self, which: impl Fn(&ParticipantId) -> bool) -> bool {
        self.participants.iter().all(|(id, participant)| !which(id) || participant.elastic)
    }

    /// Returns the participant that a process on the host becomes, given the role that it requests.
    fn participant_of(&self, topology: &Topology, joining: &Joining<'_>) -> Result<ParticipantId, JobError> {
        let key = topology.find(joining.host);
        let rank = self.record.request.workers.iter().find(|member| Some(member.host) == key);
        let worker = rank.map(|member| ParticipantId::Worker(Rank::new(member.rank)));
        let server =
            self.may_serve(topology, joining.host).then(|| ParticipantId::Server(joining.host.to_owned()));
        let id = match joining.role {
            v1::MemberRole::Unspecified => worker.or(server),
            v1::MemberRole::Worker => worker,
            v1::MemberRole::Server => server,
        };
        id.ok_or_else(|| self.not_a_member(joining.host))
    }

    fn may_serve(&self, topology: &Topology, host: &str) -> bool {
        let asked_for = topology.find(host) == Some(self.record.request.server);
        asked_for || self.invitations.has(host) || self.record.generation().plan.server.name == host
    }

    /// Notes that the controller invites a host to be the job's server.
    pub(crate) fn invite(&mut self, host: &str, now: Instant) {
        self.invitations.ask(host, now);
    }

    /// Returns the participants on `host`; fails if the host has none.
    pub(crate) fn participants_of(&self, host: &str) -> Result<Vec<ParticipantId>, JobError> {
        let of_host = self.participants.iter().filter(|(_, participant)| participant.host == host);
        let ids: Vec<_> = of_host.map(|(id, _)| id.clone()).collect();
        if ids.is_empty() { Err(self.not_a_member(host)) } else { Ok(ids) }
    }

    /// Returns the rank of the worker on `host`; fails if the host has none.
    pub(crate) fn rank_of(&self, host: &str) -> Result<Rank, JobError> {
        let worker = |id| match id {
            ParticipantId::Worker(rank) => Some(rank),
            ParticipantId::Server(_) => None,
        };
        self.participants_of(host)?.into_iter().find_map(worker).ok_or_else(|| self.not_a_member(host))
    }

    fn not_a_member(&self, host: &str) -> JobError {
        JobError::NotAMember {
            job: self.record.name.clone(),
            host: host.to_owned(),
            members: self.record.hosts().collect::<Vec<_>>().join(", "),
        }
    }

    fn check_alive(&self) -> Result<(), JobError> {
        let how = match &self.state {
            State::Ended => "has ended".to_owned(),
            State::Failed(reason) => format!("failed because {reason}"),
            State::Queued | State::Created | State::Installing | State::Running => return Ok(()),
        };
        Err(JobError::Over { job: self.record.name.clone(), how })
    }

    /// Notes that the stream of `session` has broken.
    /// A later session of the same participant is not affected. Returns the participant's host; `None` if the
    /// participant has a later session or has left.
    pub(crate) fn lose(&mut self, id: &ParticipantId, session: SessionId, now: Instant) -> Option<String> {
        let participant =
            self.participants.get_mut(id).filter(|participant| participant.session == session)?;
        participant.lose(now);
        let host = participant.host.clone();
        if let (ParticipantId::Worker(rank), true) = (id, participant.detached) {
            self.measured.forget(rank.get());
        }
        self.look.send_replace(());
        Some(host)
    }

    /// Notes that this participant has reached the end of its training, if it is a worker that had started.
    pub(crate) fn come_to_end(&mut self, id: &ParticipantId) {
        let is_in = self.participants.get(id).is_some_and(|participant| participant.started);
        self.at_its_end |= is_in && matches!(id, ParticipantId::Worker(_));
    }

    /// Returns true if the job's training has reached its end. The job then ends when its last worker
    /// leaves.
    pub(crate) fn is_at_its_end(&self) -> bool {
        self.at_its_end
    }

    /// Removes a participant that leaves for the given reason.
    pub(crate) fn leave(&mut self, id: &ParticipantId, reason: &str, now: Instant) {
        if let ParticipantId::Server(host) = id {
            self.invitations.give_up(host, reason, now);
        }
        self.depart(id, None);
    }

    /// Removes a participant permanently, after sending it `event` if there is one.
    pub(crate) fn depart(&mut self, id: &ParticipantId, event: Option<Event>) {
        if let Some(participant) = self.participants.remove(id) {
            if let (ParticipantId::Worker(rank), true) = (id, participant.detached) {
                self.measured.forget(rank.get());
            }
            if let Some(event) = event {
                participant.dismiss(event);
            }
            self.look.send_replace(());
        }
    }

    /// Returns the event for a member that reconnects: the configuration of the present generation.
    fn present(&self, topology: &Topology, id: &ParticipantId) -> Option<Event> {
        let generation = self.record.generation();
        match self.state {
            State::Running => self.config(topology, generation, id).map(Event::Change),
            _ => None,
        }
    }

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

    /// Notes why the job has not changed its generation; empty if no problem exists.
    /// Returns true if the reason differs from the last one and the job is alive. A job that is over has no next
    /// generation.
    pub(crate) fn note_setback(&mut self, setback: String) -> bool {
        self.is_alive() && std::mem::replace(&mut self.setback, setback) != self.setback
    }

    /// Queues the job. `waits` describes the missing resources, as text for users.
    pub(crate) fn enqueue(&mut self, waits: String) {
        if matches!(self.state, State::Queued | State::Created) {
            self.state = State::Queued;
            self.waits = waits;
        }
    }

    /// Admits the job from the queue: it has its slots, and waits for its members.
    pub(crate) fn admit(&mut self, now: Instant) {
        if self.state == State::Queued {
            self.state = State::Created;
            self.since = now;
            self.waits.clear();
            self.look.send_replace(());
        }
    }

    /// Notes that the controller has begun to write the job's first tables.
    pub(crate) fn installing(&mut self) {
        if self.state == State::Created {
            self.state = State::Installing;
        }
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
        self.state == State::Running || self.announced.is_some()
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
        self.state = State::Running;
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
        if number == self.record.current {
            // The first generation remains the present one. It has no tables until the job starts again.
            let state = std::mem::replace(&mut self.state, State::Created);
            if state != State::Installing {
                self.state = state;
                return;
            }
            if let Some(generation) = self.record.numbered(number) {
                generation.stage = Stage::Reserved;
            }
            return;
        }
        if let Some(generation) = self.record.numbered(number) {
            generation.stage = Stage::Retired;
        }
        self.thaw(topology);
    }

    /// Fails the job. Returns false if the job was already over.
    pub(crate) fn fail(&mut self, failure: v1::JobFailed) -> bool {
        self.finish(State::Failed(failure.reason.clone()), &Event::Failed(failure))
    }

    /// Ends the job. Returns false if the job was already over.
    pub(crate) fn end(&mut self) -> bool {
        self.finish(State::Ended, &Event::Ended(v1::JobEnded {}))
    }

    fn finish(&mut self, state: State, event: &Event) -> bool {
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

    /// Closes all members' streams, and leaves the job to the next controller.
    /// The streams end without an event, from which members conclude that the controller is unreachable.
    pub(crate) fn hang_up(&mut self) {
        self.participants.clear();
    }
}

#[cfg(test)]
mod tests;
