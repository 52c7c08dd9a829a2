//! One change of a job's generation, from the decision until the old tables are gone. The rules behind it are in
//! ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tributary_api::TakeOver;
use tributary_api::v1;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::job_event::Event;
use tributary_wire::{Rank, Seq};

use super::setback::Setback;
use super::survivors;
use crate::error::SwitchError;
use crate::jobs::{Answered, Beginning, Job, JobKey, LastChange, Place, State, Step, Target};
use crate::manager::Manager;

/// How long a host may take to join as the server after it was asked to.
const SERVER_PATIENCE: Duration = Duration::from_secs(1);
/// How long members may take to stop, and to hand over slices: no more than a message's round trip.
const ANSWER_PATIENCE: Duration = Duration::from_millis(1500);
/// How long members may take to come to the beginning of the same operation.
const BOUNDARY_PATIENCE: Duration = Duration::from_secs(10);
/// How often, at least, a wait checks whether something else has to be done first: a member that is away counts as
/// gone after a time, and no event announces that.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A change that is under way.
pub(super) struct Change<'a> {
    plan: Undertaking<'a>,
    look: watch::Receiver<()>,
    answers: mpsc::UnboundedReceiver<Answered>,
}

/// Identifies a change of a job.
#[derive(Clone, Copy)]
struct Undertaking<'a> {
    manager: &'a Arc<Manager>,
    key: JobKey,
    target: &'a Target,
    /// The next generation.
    number: u32,
}

/// The positions at which members have stopped.
pub(super) type Standings = BTreeMap<Rank, v1::Standing>;

impl<'a> Change<'a> {
    /// Changes a job over. If that fails, the job stays in its present generation.
    pub(super) async fn carry_out(
        manager: &'a Arc<Manager>,
        key: JobKey,
        look: watch::Receiver<()>,
        target: &'a Target,
    ) -> Result<(), Setback> {
        // A number is never issued twice, since somebody may have heard of it; so none is taken that cannot be
        // written down.
        if let Some(refusal) = manager.journal.refusal() {
            return Err(Setback::Journal(refusal));
        }
        let begun = Instant::now();
        let (number, answers, kept) = {
            let mut state = manager.state();
            let number = state.install(key, target)?;
            let job = state.jobs.get_mut(key).ok_or(Setback::Over)?;
            // The next controller must not issue its number again, either.
            let kept = manager.journal.keep(&manager.topology(), key, job);
            (number, job.take_answers(), kept)
        };
        let mut change = Self { plan: Undertaking { manager, key, target, number }, look, answers };
        let outcome = match kept.outcome().await {
            Ok(()) => change.run().await,
            Err(error) => Err(Setback::Journal(error)),
        };
        match &outcome {
            Ok(()) => {
                let took = begun.elapsed();
                tracing::info!(
                    key,
                    generation = number,
                    reason = target.reason,
                    ?took,
                    "the job has changed over"
                );
                manager.note_success(key);
            }
            Err(_) => manager.call_off(key, number),
        }
        outcome
    }

    async fn run(&mut self) -> Result<(), Setback> {
        self.summon_server().await?;
        let installing = self.plan.install(self.look.clone());
        let must_stop = self.plan.target.takes_over || self.plan.target.regroups();
        let standings = if must_stop {
            let (installed, standings) = tokio::join!(installing, self.stop());
            installed?;
            standings?
        } else {
            installing.await?;
            Standings::new()
        };
        let beginning = match standings.values().next().filter(|_| !self.plan.target.joined.is_empty()) {
            Some(standing) => Beginning { seq: Seq(standing.next_seq), begun: standing.begun },
            None => Beginning::OF_JOB,
        };
        let take_over = match self.plan.target.takes_over && !standings.is_empty() {
            true => Some(self.take_over(&standings).await?),
            false => None,
        };
        self.commit(beginning).await?;
        let told = self.tell(take_over.as_ref())?;
        self.wait_until_changed(told).await;
        self.plan.manager.retire_others(self.plan.key);
        Ok(())
    }

    /// Waits until the server is there; asks it to join if it is not.
    async fn summon_server(&mut self) -> Result<(), Setback> {
        let topology = &self.plan.manager.topology();
        let host = topology[self.plan.target.server].name.clone();
        let place = Place::Server(host.clone());
        let deadline = Instant::now() + SERVER_PATIENCE;
        let is_here = || {
            let state = self.plan.manager.state();
            let job = state.jobs.get(self.plan.key);
            job.is_some_and(|job| job.is_here(&place))
        };
        if !self.plan.target.takes_over || is_here() {
            return Ok(());
        }
        self.plan.manager.invite(self.plan.key, &host);
        while !is_here() {
            if timeout_at(deadline, self.look.changed()).await.is_err() {
                return Err(Setback::NoServer(host));
            }
        }
        Ok(())
    }

    /// Stops the members that stay; if they have to synchronise, at the beginning of the same operation.
    async fn stop(&mut self) -> Result<Standings, Setback> {
        let stays = |rank: &Rank| !self.plan.target.joined.contains(rank);
        let ranks: BTreeSet<_> =
            self.plan.target.members.iter().map(|member| Rank::new(member.rank)).filter(stays).collect();
        let generation = self.plan.number;
        self.tell_all(&ranks, &Event::Prepare(v1::Prepare { generation }));
        let standings = self.standings(&ranks, Instant::now() + ANSWER_PATIENCE, |_| true).await;
        let standings = standings.map_err(|setback| self.give_up_silent(setback))?;
        if !self.plan.target.regroups() || is_boundary(&standings) {
            return Ok(standings);
        }
        let until = standings.values().map(|standing| standing.begun).max().unwrap_or_default();
        self.tell_all(&ranks, &Event::Proceed(v1::Proceed { generation, until }));
        let has_proceeded = |standing: &v1::Standing| standing.idle && standing.begun >= until;
        // A member that is to be left out is slow, and the others wait for it in any case.
        let patience = match self.plan.target.expected {
            Some(expected) => BOUNDARY_PATIENCE + Duration::from_secs_f64(expected.before.clamp(0.0, 3600.0)),
            None => BOUNDARY_PATIENCE,
        };
        match self.standings(&ranks, Instant::now() + patience, has_proceeded).await {
            Ok(standings) if is_boundary(&standings) => Ok(standings),
            Ok(_) | Err(Setback::Silent(_)) => Err(Setback::NoBoundary),
            Err(setback) => Err(setback),
        }
    }

    /// Goes on without members that did not answer a question that takes no time: they are not there.
    fn give_up_silent(&self, setback: Setback) -> Setback {
        if let Setback::Silent(ranks) = &setback {
            let mut state = self.plan.manager.state();
            if let Some(job) = state.jobs.get_mut(self.plan.key) {
                for rank in ranks {
                    let reason = "it did not answer when the job was to change over".to_owned();
                    job.depart(&Place::Worker(*rank), Some(Event::Removed(v1::JobRemoved { reason })));
                }
            }
        }
        setback
    }

    fn tell_all(&self, ranks: &BTreeSet<Rank>, event: &Event) {
        let mut state = self.plan.manager.state();
        let Some(job) = state.jobs.get_mut(self.plan.key) else { return };
        for rank in ranks {
            if let Some(attendee) = job.attendee_mut(&Place::Worker(*rank)) {
                attendee.tell(event.clone());
            }
        }
    }

    /// Waits until each of `ranks` reports a standing that is as `asked_for`.
    async fn standings(
        &mut self,
        ranks: &BTreeSet<Rank>,
        deadline: Instant,
        asked_for: impl Fn(&v1::Standing) -> bool,
    ) -> Result<Standings, Setback> {
        let mut standings = Standings::new();
        while let Some(missing) = missing(ranks, &standings) {
            if let (Place::Worker(rank), Answer::Standing(standing)) =
                self.next_answer(deadline, missing).await?
                && ranks.contains(&rank)
                && asked_for(&standing)
            {
                standings.insert(rank, standing);
            }
        }
        Ok(standings)
    }

    /// The next answer to this change; an error if something is more urgent than waiting for it.
    async fn next_answer(
        &mut self,
        deadline: Instant,
        missing: Vec<Rank>,
    ) -> Result<(Place, Answer), Setback> {
        loop {
            tokio::select! {
                answered = self.answers.recv() => {
                    let Some(Answered { place, generation, answer }) = answered else { return Err(Setback::Over) };
                    if generation == self.plan.number {
                        return Ok((place, answer));
                    }
                }
                () = self.plan.overtaken(&mut self.look) => return Err(Setback::Overtaken),
                () = tokio::time::sleep_until(deadline) => return Err(Setback::Silent(missing)),
            }
        }
    }

    /// What the new server has to know of the slices that the old one has finished, pieced together from the
    /// remaining members.
    async fn take_over(&mut self, standings: &Standings) -> Result<TakeOver, Setback> {
        let merged = survivors::merge(self.window(), standings).map_err(Setback::Survivors)?;
        let deadline = Instant::now() + ANSWER_PATIENCE;
        let generation = self.plan.number;
        let mut askers = BTreeSet::new();
        for (rank, seqs) in &merged.wanted {
            let provide = v1::Provide { generation, seqs: seqs.iter().map(|seq| seq.0).collect() };
            self.tell_all(&BTreeSet::from([*rank]), &Event::Provide(provide));
            askers.insert(*rank);
        }
        let mut finished = Vec::new();
        while !askers.is_empty() {
            let answer = self.next_answer(deadline, askers.iter().copied().collect()).await;
            let (place, answer) = answer.map_err(|setback| self.give_up_silent(setback))?;
            if let (Place::Worker(rank), Answer::Provided(provided)) = (place, answer)
                && askers.remove(&rank)
            {
                for slice in &provided.slices {
                    let slice = slice.try_into().map_err(|reason| Setback::BadSlice { rank, reason })?;
                    finished.push(slice);
                }
            }
        }
        if let Some(seq) = survivors::missing(&merged, &finished) {
            return Err(Setback::MissingSlice(seq));
        }
        Ok(TakeOver { dues: merged.dues, finished })
    }

    fn window(&self) -> u32 {
        let state = self.plan.manager.state();
        state.jobs.get(self.plan.key).map_or(1, |job| job.record.request.window)
    }

    /// Makes the next generation the present one: on disk first, then for everyone.
    async fn commit(&self, beginning: Beginning) -> Result<(), Setback> {
        let Undertaking { manager, key, target, number } = self.plan;
        let written = {
            let mut state = manager.state();
            let job = state.jobs.get_mut(key).ok_or(Setback::Over)?;
            if !job.announce(number, &target.reason, beginning) {
                return Err(Setback::Over);
            }
            manager.journal.keep(&manager.topology(), key, job)
        };
        written.outcome().await.map_err(Setback::Journal)?;
        let mut state = manager.state();
        let job = state.jobs.get_mut(key).ok_or(Setback::Over)?;
        if !job.advance(number, &target.reason) {
            return Err(Setback::Over);
        }
        if let Some(expected) = target.expected {
            let (reason, at) = (target.reason.clone(), Instant::now());
            job.measured.last_change = Some(LastChange { generation: number, reason, expected, at });
        }
        Ok(())
    }

    /// Tells the server, then the workers, then those who are left out. Returns the places whose answers are awaited.
    fn tell(&self, take_over: Option<&TakeOver>) -> Result<BTreeSet<Place>, Setback> {
        let topology = &self.plan.manager.topology();
        let mut state = self.plan.manager.state();
        let job = state.jobs.get_mut(self.plan.key).ok_or(Setback::Over)?;
        let generation = job.record.generation().clone();
        let server = Place::Server(generation.plan.server.name.clone());
        let workers = generation.ranks().map(Place::Worker);
        let mut told = BTreeSet::new();
        for place in std::iter::once(server).chain(workers) {
            let mut config = job.config(topology, &generation, &place);
            if let (Some(config), Place::Server(_), Some(take_over)) = (&mut config, &place, take_over) {
                config.take_over = Some(take_over.into());
            }
            let (Some(config), Some(attendee)) = (config, job.attendee_mut(&place)) else { continue };
            let goes_on = attendee.started;
            (attendee.started, attendee.detached) = (true, false);
            attendee.tell(if goes_on { Event::Change(config) } else { Event::Start(config) });
            if goes_on {
                attendee.behind = Some(Instant::now());
                told.insert(place);
            }
        }
        let out = |(place, attendee): &(&Place, &crate::jobs::Attendee)| match place {
            Place::Worker(rank) => attendee.started && !generation.has(*rank),
            Place::Server(host) => attendee.started && *host != generation.plan.server.name,
        };
        let out: Vec<_> = job.attendees().filter(out).map(|(place, _)| place.clone()).collect();
        let word = job.word_of_detachment();
        for place in out {
            if let Place::Worker(rank) = place
                && generation.detachment.ranks.contains(&rank)
                && let Some(attendee) = job.attendee_mut(&place)
            {
                attendee.detach(word.clone());
                continue;
            }
            let reason = self.plan.target.reason.clone();
            if let Some(host) = job.attendee(&place).map(|attendee| attendee.host.clone()) {
                let words = format!("the job goes on without {place}");
                let events = &self.plan.manager.events;
                events.of_member(v1::EventKind::MemberLeft, &job.record.name, &host, &words);
            }
            let event = match place {
                Place::Worker(_) => Event::Removed(v1::JobRemoved { reason }),
                Place::Server(_) => Event::Relieved(v1::JobRelieved {}),
            };
            job.depart(&place, Some(event));
        }
        Ok(told)
    }

    /// Waits until all that were told have changed over, but no longer than an answer takes: a member that is away is
    /// told again when it comes back, and one that is gone is left to the next decision.
    async fn wait_until_changed(&mut self, mut told: BTreeSet<Place>) {
        let deadline = Instant::now() + ANSWER_PATIENCE;
        while !told.is_empty() {
            match self.next_answer(deadline, Vec::new()).await {
                Ok((place, Answer::Changed(_))) => drop(told.remove(&place)),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

fn missing(ranks: &BTreeSet<Rank>, standings: &Standings) -> Option<Vec<Rank>> {
    let missing: Vec<_> = ranks.iter().copied().filter(|rank| !standings.contains_key(rank)).collect();
    (!missing.is_empty()).then_some(missing)
}

/// Whether all members are at the beginning of the same operation.
fn is_boundary(standings: &Standings) -> bool {
    let at = |standing: &v1::Standing| (standing.begun, standing.next_seq);
    let mut all = standings.values();
    let Some(first) = all.next() else { return true };
    standings.values().all(|standing| standing.idle && at(standing) == at(first))
}

impl Undertaking<'_> {
    /// Brings the tables of the next generation into the switches, beside those of the present one.
    async fn install(self, mut look: watch::Receiver<()>) -> Result<(), Setback> {
        let (switches, is_first) = {
            let mut state = self.manager.state();
            let job = state.jobs.get_mut(self.key).ok_or(Setback::Over)?;
            let is_first = *job.state() == State::Installing;
            let generation = job.record.numbered(self.number).ok_or(Setback::Over)?;
            (generation.switches.keys().copied().collect::<Vec<_>>(), is_first)
        };
        tokio::select! {
            biased;
            installed = self.manager.converge(switches) => installed.map_err(|error| {
                let refused = matches!(error, SwitchError::Refused { .. } | SwitchError::Entry { .. });
                Setback::Tables { error, hopeless: refused && is_first }
            }),
            () = self.overtaken(&mut look) => Err(Setback::Overtaken),
        }
    }

    /// Returns when something else is to be done first.
    async fn overtaken(&self, look: &mut watch::Receiver<()>) {
        loop {
            // A timeout will do as well.
            let _ = timeout(LOOK_INTERVAL, look.changed()).await;
            if self.is_overtaken() {
                return;
            }
        }
    }

    /// Whether something else is to be done first.
    fn is_overtaken(&self) -> bool {
        let state = self.manager.state();
        let is_back = |job: &Job, rank: &Rank| {
            job.attendee(&Place::Worker(*rank)).is_some_and(|one| one.is_here() && one.started)
        };
        let is_in_vain = |job: &Job| {
            job.record.current != self.number && self.target.absent.iter().any(|rank| is_back(job, rank))
        };
        if state.jobs.get(self.key).is_some_and(is_in_vain) {
            return true;
        }
        match state.next_step(self.key, Instant::now()) {
            Step::Rest(_) | Step::Invite(_) => false,
            Step::Change(target) => target != *self.target && !target.can_wait(),
            Step::End | Step::Fail(_) | Step::Over => true,
        }
    }
}
