//! Joining and leaving a job: the roles of hosts, and the sessions of their processes.

use std::num::NonZeroU16;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::job_event::Event;
use tributary_topology::Topology;
use tributary_wire::Rank;

use super::{Job, JobState};
use crate::jobs::error::JobError;
use crate::jobs::participant::{Participant, ParticipantId, SessionId};

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
    /// The number of the host's training processes in the job. It has no meaning for a server.
    pub(crate) processes: NonZeroU16,
}

impl Job {
    /// Returns true if the stream of this participant is open.
    pub(crate) fn is_here(&self, id: &ParticipantId) -> bool {
        self.participants.get(id).is_some_and(Participant::is_here)
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
        self.check_processes(&id, joining)?;
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
                    self.record.processes.insert(rank, joining.processes);
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

    /// Dismisses a process that was a member of an earlier generation but is not a member of the present
    /// one.
    fn left_behind(&mut self, id: ParticipantId, session: SessionId, host: &str) -> Joined {
        let (participant, events) = Participant::new(host, session, false);
        participant.dismiss(match id {
            ParticipantId::Worker(_) => {
                let reason = format!(
                    "it was unreachable for too long: the job continued ({})",
                    self.record.last_change
                );
                Event::Removed(v1::JobRemoved { reason })
            }
            ParticipantId::Server(_) => Event::Relieved(v1::JobRelieved {}),
        });
        Joined { participant: id, session, events }
    }

    /// Checks that the job may admit a process now.
    fn check_open(&self, id: &ParticipantId, joining: &Joining<'_>) -> Result<(), JobError> {
        let ParticipantId::Worker(rank) = id else { return Ok(()) };
        // A dead process of the same rank does not count, because the job first continues without it.
        let others = |id: &ParticipantId| matches!(id, ParticipantId::Worker(one) if one != rank);
        let closed = self.has_all_workers()
            && (self.record.terms.rigid || !joining.elastic || !self.are_elastic(others));
        match closed {
            true => Err(JobError::Closed { job: self.record.name.clone(), host: joining.host.to_owned() }),
            false => Ok(()),
        }
    }

    /// Checks that a host has the number of training processes that the job expects of it.
    fn check_processes(&self, id: &ParticipantId, joining: &Joining<'_>) -> Result<(), JobError> {
        let ParticipantId::Worker(rank) = id else { return Ok(()) };
        let (job, host, brought) = (self.record.name.clone(), joining.host.to_owned(), joining.processes);
        if let Some(expected) = self.record.terms.processes_per_host.filter(|expected| *expected != brought) {
            return Err(JobError::OtherThanCreated { job, host, expected, brought });
        }
        let expected = self.record.processes_of(*rank);
        if self.has_all_workers() && expected != brought {
            return Err(JobError::OtherThanStarted { job, host, expected, brought });
        }
        Ok(())
    }

    /// Returns true if all workers have joined, so that the job starts or has started.
    fn has_all_workers(&self) -> bool {
        !matches!(self.state, JobState::Queued | JobState::Created)
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

    /// Describes a participant's place in the job, as text for users.
    pub(crate) fn place(&self, id: &ParticipantId) -> String {
        match id {
            ParticipantId::Worker(rank) if self.record.has_several_processes() => {
                let processes = self.record.processes_of(*rank);
                let ranks = if processes == NonZeroU16::MIN { "rank" } else { "ranks" };
                format!("worker {rank} ({processes} {ranks})")
            }
            ParticipantId::Worker(rank) => format!("rank {rank}"),
            ParticipantId::Server(host) => format!("server {host}"),
        }
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
            if let (ParticipantId::Worker(rank), false) = (id, self.has_all_workers()) {
                self.record.processes.remove(rank);
            }
            if let (ParticipantId::Worker(rank), true) = (id, participant.detached) {
                self.measured.forget(rank.get());
            }
            if let Some(event) = event {
                participant.dismiss(event);
            }
            self.look.send_replace(());
        }
    }
}
