//! A small controller. It changes the job's structure by the rules of docs/decisions/generations.md.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use tributary_protocol::{
    FinishedSlice, Server, ServerConfig, TakeOver, WorkerConfig, WorkerProgress, merge,
};
use tributary_wire::{JobId, Rank, Seq};

use super::host::{Answer, Order, Place};
use super::{Bug, FIRST_JOB, World};
use crate::fabric::job;

/// The number of checks of an attempt after which the controller regards silent members as dead.
const PATIENCE: u32 = 40;

/// The events that the controller knows and has not yet handled.
#[derive(Debug, Default)]
pub(crate) struct Controller {
    /// Members that have died or want to leave.
    pub(crate) gone: BTreeSet<Rank>,
    /// Hosts that want to join.
    pub(crate) returning: BTreeSet<Rank>,
    pub(crate) server_died: bool,
    /// True if the server must move to another place.
    pub(crate) move_server: bool,
    /// True if the tree has changed.
    pub(crate) replan: bool,
    attempt: Option<Attempt>,
    attempts: u32,
}

/// A change that the members prepare.
#[derive(Debug)]
struct Attempt {
    id: u32,
    members: Vec<Rank>,
    joiners: Vec<Rank>,
    new_server: bool,
    /// The number of operations that the members must finish first.
    until: Option<u64>,
    progress: BTreeMap<Rank, WorkerProgress>,
    provided: Option<Provided>,
    age: u32,
}

/// The state with which the new server starts, as far as the controller has received it.
#[derive(Debug, Default)]
struct Provided {
    dues: Vec<Seq>,
    wanted: usize,
    slices: Vec<FinishedSlice>,
}

impl Controller {
    pub(crate) fn is_at_rest(&self) -> bool {
        let pending = self.server_died || self.move_server || self.replan;
        !pending && self.gone.is_empty() && self.returning.is_empty() && self.attempt.is_none()
    }

    /// Records that a member has died or leaves. This cancels the present attempt, because it has priority.
    pub(crate) fn leaves(&mut self, rank: Rank) {
        self.gone.insert(rank);
        self.attempt = None;
    }

    pub(crate) fn server_died(&mut self) {
        self.server_died = true;
        self.attempt = None;
    }

    fn begin(&mut self, members: Vec<Rank>, joiners: Vec<Rank>, new_server: bool) -> u32 {
        self.attempts += 1;
        let (id, progress) = (self.attempts, BTreeMap::new());
        let attempt =
            Attempt { id, members, joiners, new_server, until: None, progress, provided: None, age: 0 };
        self.attempt = Some(attempt);
        id
    }
}

impl World {
    /// Makes the controller act on the events that it knows.
    pub(super) fn control(&mut self) -> Result<(), String> {
        if self.controller.attempt.is_some() {
            self.lose_patience();
            return Ok(());
        }
        let controller = &self.controller;
        let remaining: Vec<Rank> =
            self.ledger.members().iter().copied().filter(|rank| !controller.gone.contains(rank)).collect();
        let somebody_left = remaining.len() < self.ledger.members().len();
        let urgent = controller.server_died || somebody_left;
        let joiners: Vec<Rank> =
            if urgent { Vec::new() } else { controller.returning.iter().copied().collect() };
        let new_server = controller.server_died || controller.move_server;
        if new_server || !joiners.is_empty() {
            let attempt = self.controller.begin(remaining.clone(), joiners, new_server);
            self.tell_all(&remaining, |_| Order::Prepare { attempt });
            Ok(())
        } else if somebody_left || self.controller.replan {
            self.change(&remaining, None, None)
        } else {
            Ok(())
        }
    }

    /// Removes members that do not answer: they are dead, or count as dead.
    fn lose_patience(&mut self) {
        let Some(attempt) = &mut self.controller.attempt else { return };
        attempt.age += 1;
        if attempt.age < PATIENCE {
            return;
        }
        attempt.age = 0;
        let silent = |rank: &Rank| !attempt.progress.contains_key(rank);
        let silent: Vec<Rank> = attempt.members.iter().copied().filter(silent).collect();
        for rank in silent {
            let alive = self.hosts[usize::from(rank.get())].is_alive();
            if !alive || (self.churn.impatient && self.rng.random_bool(0.1) && self.can_lose(rank)) {
                self.controller.leaves(rank);
            }
        }
        // At random, an attempt with joiners is cancelled, as if a joiner had died.
        let is_alone = |attempt: &Attempt| !attempt.joiners.is_empty() && !attempt.new_server;
        if self.rng.random_bool(0.2) && self.controller.attempt.take_if(|attempt| is_alone(attempt)).is_some()
        {
            let members = self.ledger.members().to_vec();
            self.see("a change that is called off");
            let attempt = self.controller.attempts;
            self.tell_all(&members, |_| Order::Proceed { attempt, until: u64::MAX });
        }
    }

    pub(super) fn take_answer(&mut self, answer: Answer) -> Result<(), String> {
        let Some(attempt) = &mut self.controller.attempt else { return Ok(()) };
        match answer {
            Answer::Prepared { attempt: id, rank, progress } if id == attempt.id => {
                attempt.progress.insert(rank, progress);
                let complete = attempt.progress.len() == attempt.members.len();
                if complete && attempt.provided.is_none() { self.prepared() } else { Ok(()) }
            }
            Answer::Provided { attempt: id, slices } if id == attempt.id => {
                let Some(provided) = &mut attempt.provided else { return Ok(()) };
                provided.slices.extend(slices);
                if provided.slices.len() == provided.wanted { self.carry_out() } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Continues the attempt after all of its members are frozen.
    fn prepared(&mut self) -> Result<(), String> {
        let bug = self.bug;
        let Some(attempt) = &mut self.controller.attempt else { return Ok(()) };
        let (id, members) = (attempt.id, attempt.members.clone());
        let mut progress = attempt.progress.values();
        let place = |progress: &WorkerProgress| (progress.idle, progress.begun, progress.next.clone());
        let first = progress.next().map(place);
        let together = first.as_ref().is_some_and(|(idle, ..)| *idle)
            && progress.all(|other| Some(place(other)) == first);
        if !attempt.joiners.is_empty() && !together && bug != Some(Bug::JoinInside) {
            if attempt.until.is_some() {
                return Err(format!("members stop at different places: {:?}", attempt.progress));
            }
            let until = attempt.progress.values().map(|progress| progress.begun).max().unwrap_or_default();
            attempt.until = Some(until);
            attempt.progress.clear();
            self.tell_all(&members, |_| Order::Proceed { attempt: id, until });
            self.see("members that proceed to a boundary");
            return Ok(());
        }
        if let (Some(until), Some((_, begun, _))) = (attempt.until, first)
            && begun != until
        {
            return Err(format!("members have begun {begun} operations, not {until}"));
        }
        if !attempt.new_server {
            return self.carry_out();
        }
        let dues: Vec<(Rank, &[Seq])> =
            attempt.progress.iter().map(|(&rank, progress)| (rank, progress.dues.as_slice())).collect();
        let TakeOver { dues, wanted } =
            merge(self.fabric.window, &dues).map_err(|error| error.to_string())?;
        let (dues, wanted) = self.spoil(dues, wanted);
        let Some(attempt) = &mut self.controller.attempt else { return Ok(()) };
        attempt.provided = Some(Provided { dues, wanted: wanted.len(), slices: Vec::new() });
        if wanted.is_empty() {
            return self.carry_out();
        }
        for (seq, rank) in wanted {
            self.tell(rank, Order::Provide { attempt: id, slices: vec![seq] });
        }
        Ok(())
    }

    /// Returns the decision of a controller with a bug.
    fn spoil(&self, dues: Vec<Seq>, wanted: Vec<(Seq, Rank)>) -> (Vec<Seq>, Vec<(Seq, Rank)>) {
        let window = self.fabric.window;
        let earlier = |due: &Seq| {
            let least = due.minus(window);
            if wanted.iter().any(|&(seq, _)| seq == least) { least } else { *due }
        };
        match self.bug {
            Some(Bug::LeastDues) => (dues.iter().map(earlier).collect(), Vec::new()),
            Some(Bug::StartAnew) => (dues.iter().map(|due| due.minus(window)).collect(), Vec::new()),
            Some(Bug::NoCopies) => (dues, Vec::new()),
            _ => (dues, wanted),
        }
    }

    /// Carries out the change, because the controller has all data that the attempt needs.
    fn carry_out(&mut self) -> Result<(), String> {
        let Some(attempt) = self.controller.attempt.take() else { return Ok(()) };
        let furthest =
            |a: WorkerProgress, b: WorkerProgress| if b.next[0].is_newer_than(a.next[0]) { b } else { a };
        let boundary = attempt.progress.into_values().reduce(furthest);
        let joiners = boundary.filter(|_| !attempt.joiners.is_empty()).map(|at| (attempt.joiners, at));
        self.change(&attempt.members, joiners, attempt.provided)
    }

    /// Changes to a new generation: first the server, then each worker at its own time.
    fn change(
        &mut self,
        remaining: &[Rank],
        joiners: Option<(Vec<Rank>, WorkerProgress)>,
        provided: Option<Provided>,
    ) -> Result<(), String> {
        let removed: Vec<Rank> =
            self.ledger.members().iter().copied().filter(|rank| !remaining.contains(rank)).collect();
        let joining: Vec<Rank> = joiners.iter().flat_map(|(ranks, _)| ranks.clone()).collect();
        let mut members = [remaining, &joining].concat();
        members.sort_unstable();
        self.ledger.generations.push(members.clone());
        let job = self.fresh_job();
        self.plan(&members, provided.is_some());
        self.change_server(job, &members, provided)?;
        let generation = self.ledger.generations.len() - 1;
        let place =
            |world: &Self, rank: Rank| Place { generation, stack: world.fabric.stacks[&rank].clone() };
        for &rank in remaining {
            let place = place(self, rank);
            self.tell(rank, Order::Change { place, job, members: members.clone() });
        }
        if let Some((ranks, WorkerProgress { next: starts, begun, .. })) = joiners {
            for rank in ranks {
                self.see("a member that joins");
                let config =
                    WorkerConfig { rank, job, members: members.clone(), begun, ..self.template.clone() };
                let place = place(self, rank);
                self.tell(rank, Order::Join { place, config, starts: starts.clone() });
            }
        }
        for &rank in &removed {
            let alive = self.hosts[usize::from(rank.get())].is_alive();
            self.see(if alive { "a member that has to leave" } else { "a member that died" });
            self.tell(rank, Order::Removed);
        }
        self.controller.gone.retain(|rank| members.contains(rank));
        self.controller.returning.retain(|rank| !members.contains(rank));
        self.controller.replan = false;
        self.check_everything()
    }

    fn fresh_job(&mut self) -> JobId {
        match self.bug {
            Some(Bug::SameJob) => {}
            Some(Bug::OldJob) => self.job = 2 * FIRST_JOB + 1 - self.job,
            _ => self.job += 1,
        }
        job(self.job)
    }

    fn plan(&mut self, members: &[Rank], new_server: bool) {
        if new_server {
            self.fabric.move_server();
        }
        for switch in &mut self.fabric.switches {
            switch.aggregates = self.rng.random_bool(0.8);
        }
        self.fabric.plan(members);
    }

    fn change_server(
        &mut self,
        job: JobId,
        members: &[Rank],
        provided: Option<Provided>,
    ) -> Result<(), String> {
        let (node, fan_in) = (self.fabric.server, self.fabric.server_fan_in);
        if let Some(Provided { dues, slices, .. }) = provided {
            let config =
                ServerConfig { job, members: members.to_vec(), fan_in, ..self.server_template.clone() };
            let server = Server::take_over(config, &dues, &slices).map_err(|error| error.to_string())?;
            self.servers.insert(node, server);
            self.see("a server that takes over");
            slices.iter().for_each(|_| self.see("a copy of a finished slice"));
            (self.controller.server_died, self.controller.move_server) = (false, false);
        } else if let Some(server) = self.servers.get_mut(&node) {
            server.change_generation(job, members, fan_in).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn tell(&mut self, rank: Rank, order: Order) {
        self.hosts[usize::from(rank.get())].orders.push_back(order);
    }

    fn tell_all(&mut self, ranks: &[Rank], order: impl Fn(Rank) -> Order) {
        ranks.iter().for_each(|&rank| self.tell(rank, order(rank)));
    }
}
