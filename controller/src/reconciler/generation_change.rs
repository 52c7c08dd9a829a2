//! One change of a job's generation, from the decision until the old tables are withdrawn.
//! docs/decisions/generations.md and moving-the-server.md describe the rules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tributary_api::TakeOver;
use tributary_api::v1;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::job_event::Event;
use tributary_wire::{Rank, Seq};

use super::change_error::ChangeError;
use super::survivors::{self, ProgressByRank};
use crate::error::SwitchError;
use crate::jobs::{
    Answered, Beginning, DesiredGeneration, Job, JobKey, JobState, LastChange, ParticipantId, Step,
};
use crate::manager::Manager;

/// Time that a host may take to join as the server after its invitation.
const SERVER_PATIENCE: Duration = Duration::from_secs(1);
/// Time that members may take to stop, and to hand over slices. Both take only a message's round trip.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1500);
/// Time that members may take to reach the beginning of the same operation.
const BOUNDARY_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum interval between two checks for a more urgent step.
/// A periodic check is needed because a disconnected member counts as gone after a time, without an event.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A change of a job's generation that is in progress.
pub(super) struct GenerationChange<'a> {
    context: ChangeContext<'a>,
    look: watch::Receiver<()>,
    answers: mpsc::UnboundedReceiver<Answered>,
}

/// The job and the next generation of a change.
#[derive(Clone, Copy)]
struct ChangeContext<'a> {
    manager: &'a Arc<Manager>,
    key: JobKey,
    desired: &'a DesiredGeneration,
    /// The number of the next generation.
    number: u32,
}

impl<'a> GenerationChange<'a> {
    /// Carries out a change of a job's generation. If it fails, the job stays in its present generation.
    pub(super) async fn carry_out(
        manager: &'a Arc<Manager>,
        key: JobKey,
        look: watch::Receiver<()>,
        desired: &'a DesiredGeneration,
    ) -> Result<(), ChangeError> {
        // A number must never be issued twice, because a member may have received it. The controller therefore issues
        // no number while it cannot write to the journal.
        if let Some(refusal) = manager.journal.refusal() {
            return Err(ChangeError::Journal(refusal));
        }
        let begun = Instant::now();
        let (number, answers, kept) = {
            let mut state = manager.state();
            let number = state.install(key, desired)?;
            let job = state.jobs.get_mut(key).ok_or(ChangeError::Over)?;
            // The number is written to the journal, so that the next controller does not issue it again.
            let kept = manager.journal.keep(&manager.topology(), key, job);
            (number, job.take_answers(), kept)
        };
        let mut change = Self { context: ChangeContext { manager, key, desired, number }, look, answers };
        let outcome = match kept.outcome().await {
            Ok(()) => change.run().await,
            Err(error) => Err(ChangeError::Journal(error)),
        };
        match &outcome {
            Ok(()) => {
                let took = begun.elapsed();
                tracing::info!(
                    key,
                    generation = number,
                    reason = desired.reason,
                    ?took,
                    "the job has changed over"
                );
                manager.note_success(key);
            }
            Err(_) => manager.call_off(key, number),
        }
        outcome
    }

    async fn run(&mut self) -> Result<(), ChangeError> {
        self.summon_server().await?;
        let installing = self.context.install(self.look.clone());
        let must_stop = self.context.desired.takes_over || self.context.desired.regroups();
        let progress = if must_stop {
            let (installed, progress) = tokio::join!(installing, self.stop());
            installed?;
            progress?
        } else {
            installing.await?;
            ProgressByRank::new()
        };
        let beginning = match progress.values().next().filter(|_| !self.context.desired.joined.is_empty()) {
            Some(first) => {
                Beginning { seqs: first.next_seqs.iter().copied().map(Seq).collect(), begun: first.begun }
            }
            None => Beginning::OF_JOB,
        };
        let take_over = match self.context.desired.takes_over && !progress.is_empty() {
            true => Some(self.take_over(&progress).await?),
            false => None,
        };
        self.commit(beginning).await?;
        let told = self.tell(take_over.as_ref())?;
        self.wait_until_changed(told).await;
        self.context.manager.retire_others(self.context.key);
        Ok(())
    }

    /// Waits until the server has joined. Invites the server first if it has not joined yet.
    async fn summon_server(&mut self) -> Result<(), ChangeError> {
        let topology = &self.context.manager.topology();
        let host = topology[self.context.desired.server].name.clone();
        let id = ParticipantId::Server(host.clone());
        let deadline = Instant::now() + SERVER_PATIENCE;
        let is_here = || {
            let state = self.context.manager.state();
            let job = state.jobs.get(self.context.key);
            job.is_some_and(|job| job.is_here(&id))
        };
        if !self.context.desired.takes_over || is_here() {
            return Ok(());
        }
        self.context.manager.invite(self.context.key, &host);
        while !is_here() {
            if timeout_at(deadline, self.look.changed()).await.is_err() {
                return Err(ChangeError::NoServer(host));
            }
        }
        Ok(())
    }

    /// Stops the members that stay in the job. If they must synchronise, stops them at the beginning of the
    /// same operation.
    async fn stop(&mut self) -> Result<ProgressByRank, ChangeError> {
        let stays = |rank: &Rank| !self.context.desired.joined.contains(rank);
        let ranks: BTreeSet<_> =
            self.context.desired.members.iter().map(|member| Rank::new(member.rank)).filter(stays).collect();
        let generation = self.context.number;
        self.tell_all(&ranks, &Event::Prepare(v1::Prepare { generation }));
        let progress = self.progress(&ranks, Instant::now() + ANSWER_PATIENCE, |_| true).await;
        let progress = progress.map_err(|error| self.give_up_silent(error))?;
        if !self.context.desired.regroups() || is_boundary(&progress) {
            return Ok(progress);
        }
        let until = progress.values().map(|member| member.begun).max().unwrap_or_default();
        self.tell_all(&ranks, &Event::Proceed(v1::Proceed { generation, until }));
        let has_proceeded = |member: &v1::WorkerProgress| member.idle && member.begun >= until;
        // If the change leaves out a slow member, the wait must allow for a slow step, because the others wait for that
        // member.
        let patience = match self.context.desired.expected {
            Some(expected) => BOUNDARY_PATIENCE + Duration::from_secs_f64(expected.before.clamp(0.0, 3600.0)),
            None => BOUNDARY_PATIENCE,
        };
        match self.progress(&ranks, Instant::now() + patience, has_proceeded).await {
            Ok(progress) if is_boundary(&progress) => Ok(progress),
            Ok(_) | Err(ChangeError::Silent(_)) => Err(ChangeError::NoBoundary),
            Err(error) => Err(error),
        }
    }

    /// Removes members that did not answer in time. They count as dead, because the answer requires no
    /// computation.
    fn give_up_silent(&self, error: ChangeError) -> ChangeError {
        if let ChangeError::Silent(ranks) = &error {
            let mut state = self.context.manager.state();
            if let Some(job) = state.jobs.get_mut(self.context.key) {
                for rank in ranks {
                    let reason = "it did not answer when the job was to change over".to_owned();
                    job.depart(
                        &ParticipantId::Worker(*rank),
                        Some(Event::Removed(v1::JobRemoved { reason })),
                    );
                }
            }
        }
        error
    }

    fn tell_all(&self, ranks: &BTreeSet<Rank>, event: &Event) {
        let mut state = self.context.manager.state();
        let Some(job) = state.jobs.get_mut(self.context.key) else { return };
        for rank in ranks {
            if let Some(participant) = job.participants.get_mut(&ParticipantId::Worker(*rank)) {
                participant.tell(event.clone());
            }
        }
    }

    /// Waits until each of `ranks` reports a position that satisfies `asked_for`.
    async fn progress(
        &mut self,
        ranks: &BTreeSet<Rank>,
        deadline: Instant,
        asked_for: impl Fn(&v1::WorkerProgress) -> bool,
    ) -> Result<ProgressByRank, ChangeError> {
        let mut progress = ProgressByRank::new();
        while let Some(missing) = missing(ranks, &progress) {
            if let (ParticipantId::Worker(rank), Answer::Progress(reported)) =
                self.next_answer(deadline, missing).await?
                && ranks.contains(&rank)
                && asked_for(&reported)
            {
                progress.insert(rank, reported);
            }
        }
        Ok(progress)
    }

    /// Returns the next answer to this change; fails if a more urgent step becomes due.
    async fn next_answer(
        &mut self,
        deadline: Instant,
        missing: Vec<Rank>,
    ) -> Result<(ParticipantId, Answer), ChangeError> {
        loop {
            tokio::select! {
                answered = self.answers.recv() => {
                    let Some(Answered { participant: id, generation, answer }) = answered else { return Err(ChangeError::Over) };
                    if generation == self.context.number {
                        return Ok((id, answer));
                    }
                }
                () = self.context.overtaken(&mut self.look) => return Err(ChangeError::Overtaken),
                () = tokio::time::sleep_until(deadline) => return Err(ChangeError::Silent(missing)),
            }
        }
    }

    /// Collects the results of the failed server from the remaining members, for the new server.
    async fn take_over(&mut self, progress: &ProgressByRank) -> Result<TakeOver, ChangeError> {
        let merged = survivors::merge(self.window(), progress).map_err(ChangeError::Survivors)?;
        let deadline = Instant::now() + ANSWER_PATIENCE;
        let generation = self.context.number;
        let mut askers = BTreeSet::new();
        for (rank, seqs) in &merged.wanted {
            let provide = v1::Provide { generation, seqs: seqs.iter().map(|seq| seq.0).collect() };
            self.tell_all(&BTreeSet::from([*rank]), &Event::Provide(provide));
            askers.insert(*rank);
        }
        let mut finished = Vec::new();
        while !askers.is_empty() {
            let answer = self.next_answer(deadline, askers.iter().copied().collect()).await;
            let (id, answer) = answer.map_err(|error| self.give_up_silent(error))?;
            if let (ParticipantId::Worker(rank), Answer::Provided(provided)) = (id, answer)
                && askers.remove(&rank)
            {
                for slice in &provided.slices {
                    let slice = slice.try_into().map_err(|reason| ChangeError::BadSlice { rank, reason })?;
                    finished.push(slice);
                }
            }
        }
        if let Some(seq) = survivors::missing(&merged, &finished) {
            return Err(ChangeError::MissingSlice(seq));
        }
        Ok(TakeOver { dues: merged.dues, finished })
    }

    fn window(&self) -> u32 {
        let state = self.context.manager.state();
        state.jobs.get(self.context.key).map_or(1, |job| job.record.request.window)
    }

    /// Makes the next generation the present one, first on disk and then in memory.
    async fn commit(&self, beginning: Beginning) -> Result<(), ChangeError> {
        let ChangeContext { manager, key, desired, number } = self.context;
        let written = {
            let mut state = manager.state();
            let job = state.jobs.get_mut(key).ok_or(ChangeError::Over)?;
            if !job.announce(number, &desired.reason, beginning) {
                return Err(ChangeError::Over);
            }
            manager.journal.keep(&manager.topology(), key, job)
        };
        written.outcome().await.map_err(ChangeError::Journal)?;
        let mut state = manager.state();
        let job = state.jobs.get_mut(key).ok_or(ChangeError::Over)?;
        if !job.advance(number, &desired.reason) {
            return Err(ChangeError::Over);
        }
        if let Some(expected) = desired.expected {
            let (reason, at) = (desired.reason.clone(), Instant::now());
            job.measured.last_change = Some(LastChange { generation: number, reason, expected, at });
        }
        Ok(())
    }

    /// Notifies the server, then the workers, then the participants that are left out.
    /// Returns the participants whose answers the change awaits.
    fn tell(&self, take_over: Option<&TakeOver>) -> Result<BTreeSet<ParticipantId>, ChangeError> {
        let topology = &self.context.manager.topology();
        let mut state = self.context.manager.state();
        let job = state.jobs.get_mut(self.context.key).ok_or(ChangeError::Over)?;
        let generation = job.record.generation().clone();
        let server = ParticipantId::Server(generation.plan.server.name.clone());
        let workers = generation.ranks().map(ParticipantId::Worker);
        let mut told = BTreeSet::new();
        for id in std::iter::once(server).chain(workers) {
            let mut config = job.config(topology, &generation, &id);
            if let (Some(config), ParticipantId::Server(_), Some(take_over)) = (&mut config, &id, take_over) {
                config.take_over = Some(take_over.into());
            }
            let (Some(config), Some(participant)) = (config, job.participants.get_mut(&id)) else { continue };
            let goes_on = participant.started;
            (participant.started, participant.detached) = (true, false);
            participant.tell(if goes_on { Event::Change(config) } else { Event::Start(config) });
            if goes_on {
                participant.behind = Some(Instant::now());
                told.insert(id);
            }
        }
        let out = |(id, participant): &(&ParticipantId, &crate::jobs::Participant)| match id {
            ParticipantId::Worker(rank) => participant.started && !generation.has(*rank),
            ParticipantId::Server(host) => participant.started && *host != generation.plan.server.name,
        };
        let out: Vec<_> = job.participants.iter().filter(out).map(|(id, _)| id.clone()).collect();
        let word = job.word_of_detachment();
        for id in out {
            if let ParticipantId::Worker(rank) = id
                && generation.detachment.ranks.contains(&rank)
                && let Some(participant) = job.participants.get_mut(&id)
            {
                participant.detach(word.clone());
                continue;
            }
            let reason = self.context.desired.reason.clone();
            if let Some(host) = job.participants.get(&id).map(|participant| participant.host.clone()) {
                let words = format!("the job goes on without {}", job.place(&id));
                let events = &self.context.manager.events;
                events.of_member(v1::EventKind::MemberLeft, &job.record.name, &host, &words);
            }
            let event = match id {
                ParticipantId::Worker(_) => Event::Removed(v1::JobRemoved { reason }),
                ParticipantId::Server(_) => Event::Relieved(v1::JobRelieved {}),
            };
            job.depart(&id, Some(event));
        }
        Ok(told)
    }

    /// Waits until all participants in `told` have changed their generation, for at most
    /// [`ANSWER_PATIENCE`].
    /// A disconnected member receives the change when it reconnects. The next decision handles a dead member.
    async fn wait_until_changed(&mut self, mut told: BTreeSet<ParticipantId>) {
        let deadline = Instant::now() + ANSWER_PATIENCE;
        while !told.is_empty() {
            match self.next_answer(deadline, Vec::new()).await {
                Ok((id, Answer::Changed(_))) => drop(told.remove(&id)),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

fn missing(ranks: &BTreeSet<Rank>, progress: &ProgressByRank) -> Option<Vec<Rank>> {
    let missing: Vec<_> = ranks.iter().copied().filter(|rank| !progress.contains_key(rank)).collect();
    (!missing.is_empty()).then_some(missing)
}

/// Returns true if all members are at the beginning of the same operation.
fn is_boundary(progress: &ProgressByRank) -> bool {
    let at = |member: &v1::WorkerProgress| (member.begun, member.next_seqs.clone());
    let mut all = progress.values();
    let Some(first) = all.next() else { return true };
    progress.values().all(|member| member.idle && at(member) == at(first))
}

impl ChangeContext<'_> {
    /// Installs the tables of the next generation in the switches, in addition to the tables of the present
    /// generation.
    async fn install(self, mut look: watch::Receiver<()>) -> Result<(), ChangeError> {
        let (switches, is_first) = {
            let mut state = self.manager.state();
            let job = state.jobs.get_mut(self.key).ok_or(ChangeError::Over)?;
            let is_first = *job.state() == JobState::Installing;
            let generation = job.record.numbered(self.number).ok_or(ChangeError::Over)?;
            (generation.switches.keys().copied().collect::<Vec<_>>(), is_first)
        };
        tokio::select! {
            biased;
            installed = self.manager.converge(switches) => installed.map_err(|error| {
                let refused = matches!(error, SwitchError::Refused { .. } | SwitchError::Entry { .. });
                ChangeError::Tables { error, hopeless: refused && is_first }
            }),
            () = self.overtaken(&mut look) => Err(ChangeError::Overtaken),
        }
    }

    /// Waits until a more urgent step is due.
    async fn overtaken(&self, look: &mut watch::Receiver<()>) {
        loop {
            // The check is also needed after a timeout, because time alone can make a step due.
            let _ = timeout(LOOK_INTERVAL, look.changed()).await;
            if self.is_overtaken() {
                return;
            }
        }
    }

    /// Returns true if a more urgent step is due.
    fn is_overtaken(&self) -> bool {
        let state = self.manager.state();
        let is_back = |job: &Job, rank: &Rank| {
            job.participants
                .get(&ParticipantId::Worker(*rank))
                .is_some_and(|one| one.is_here() && one.started)
        };
        let is_in_vain = |job: &Job| {
            job.record.current != self.number && self.desired.absent.iter().any(|rank| is_back(job, rank))
        };
        let is_void = |job: &Job| is_in_vain(job) || state.cannot_start(job, self.number);
        if state.jobs.get(self.key).is_some_and(is_void) {
            return true;
        }
        match state.next_step(self.key, Instant::now()) {
            Step::Rest(_) | Step::Invite(_) => false,
            Step::Change(desired) => desired != *self.desired && !desired.can_wait(),
            Step::End | Step::Fail(_) | Step::Over => true,
        }
    }
}
