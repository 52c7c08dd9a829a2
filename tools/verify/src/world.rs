//! Workers, switches and server, and the effects of packets on them.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use tributary_wire::{Operator, Totals};

use crate::Error;
use crate::content::{ContentId, Contents, MOST, Origins, origin};
use crate::machines::{ForServer, Sent, Servers, StateId, Step, WorkerInput, Workers};
use crate::network::Packet;
use crate::setup::{LEFTOVER, Node, START, Setup, WIDTH, job, seq};
use crate::slot::{Arrival, Onwards, Slot};
use crate::violation::Violation;

/// The states of all parts, in order: the workers, the server, and each switch's slots.
pub(crate) type Parts = Box<[StateId]>;

/// The state of a worker that is no longer a member.
pub(crate) const GONE: StateId = StateId::MAX;

/// The effect of a packet.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    pub(crate) next: StateId,
    pub(crate) out: Vec<Packet>,
    pub(crate) violation: Option<Violation>,
}

/// All known states and steps of the parts.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) contents: Contents,
    pub(crate) workers: Workers,
    pub(crate) servers: Servers,
    slots: Vec<Slot<ContentId>>,
    slot_ids: FxHashMap<Slot<ContentId>, StateId>,
    effects: FxHashMap<(u16, StateId, Packet), Rc<Effect>>,
    /// The contents that each member has contributed to each slice of each generation.
    ///
    /// There is more than one only if different runs have agreed on different bounds.
    given: FxHashMap<(u8, u8, u8), BTreeSet<ContentId>>,
}

impl World {
    /// Returns the start of the job: its parts, and the packets in flight.
    pub(crate) fn new(setup: &Setup) -> Result<(Self, Parts, Vec<Packet>), Error> {
        let mut world = Self {
            setup: setup.clone(),
            contents: Contents::default(),
            workers: Workers::default(),
            servers: Servers::default(),
            slots: vec![Slot::default()],
            slot_ids: FxHashMap::from_iter([(Slot::default(), 0)]),
            effects: FxHashMap::default(),
            given: FxHashMap::default(),
        };
        let (workers, slices) = (setup.workers(), setup.slices());
        if !(1..=MOST).contains(&workers)
            || slices == 0
            || slices > usize::from(MOST)
            || setup.leaves.contains(&0)
        {
            return Err(Error::Setup);
        }
        let (mut parts, mut packets) = (Vec::new(), Vec::new());
        for rank in 0..setup.workers() {
            let step = world.workers.first(setup, rank, &mut world.contents)?;
            parts.push(step.next);
            packets.extend(world.send(rank, 0, &step.out));
        }
        parts.push(world.servers.first(setup, &mut world.contents)?);
        let totals = Totals { contributors: 1, weight: 1, ..Totals::default() };
        let rest = world.contents.intern(Operator::Sum, totals, &vec![999; WIDTH.values()]);
        for _ in 0..setup.switches() {
            for slot in 0..setup.slots() {
                // The slot holds a later slice with one contribution. If only one child uses the slot, the
                // slice is complete.
                let cur = START.plus(setup.window + slot as u32 % setup.window).0;
                let slot = Slot { job: LEFTOVER, cur, bitmap: 1, count: 1, sum: Some(rest) };
                parts.push(world.slot_id(slot));
            }
        }
        Ok((world, parts.into(), packets))
    }

    fn slot_id(&mut self, slot: Slot<ContentId>) -> StateId {
        let fresh = self.slots.len() as StateId;
        let id = *self.slot_ids.entry(slot.clone()).or_insert(fresh);
        if id == fresh {
            self.slots.push(slot);
        }
        id
    }

    pub(crate) fn server_part(&self) -> usize {
        usize::from(self.setup.workers())
    }

    /// Returns the indices of a switch's slots.
    pub(crate) fn slots_of(&self, switch: u8) -> std::ops::Range<usize> {
        let first = self.server_part() + 1 + usize::from(switch) * self.setup.slots();
        first..first + self.setup.slots()
    }

    /// Returns the index of the part that receives a packet.
    pub(crate) fn part(&self, packet: &Packet) -> usize {
        let (Packet::Up { generation, slice, .. } | Packet::Down { generation, slice, .. }) = *packet;
        match packet.to() {
            Node::Worker(at) => usize::from(at),
            Node::Server => self.server_part(),
            Node::Switch(at) => self.slots_of(at).start + self.setup.slot(generation, slice),
        }
    }

    /// Returns the effect of `packet` on its part in state `at`.
    pub(crate) fn effect(&mut self, at: StateId, packet: Packet) -> Result<Rc<Effect>, Error> {
        let key = (self.part(&packet) as u16, at, packet);
        if let Some(effect) = self.effects.get(&key) {
            return Ok(effect.clone());
        }
        let effect = Rc::new(match packet.to() {
            Node::Worker(worker) => self.at_worker(worker, at, packet)?,
            Node::Switch(switch) => self.at_switch(switch, at, packet),
            Node::Server => self.at_server(at, packet)?,
        });
        self.effects.insert(key, effect.clone());
        Ok(effect)
    }

    fn at_worker(&mut self, worker: u8, at: StateId, packet: Packet) -> Result<Effect, Error> {
        let nothing = Effect { next: at, out: Vec::new(), violation: None };
        let Packet::Down { generation, slice, rank, content, .. } = packet else { return Ok(nothing) };
        if at == GONE {
            return Ok(nothing);
        }
        let input = WorkerInput::Result { generation, slice, content, to: rank };
        self.worker_step(worker, at, input)
    }

    /// Computes a worker's step, with the packets that the worker sends.
    pub(crate) fn worker_step(
        &mut self,
        worker: u8,
        at: StateId,
        input: WorkerInput,
    ) -> Result<Effect, Error> {
        let Step { next, out, failure } = self.workers.step(&self.setup, at, input, &mut self.contents)?;
        let generation = self.workers.facts(next).map_or(0, |facts| facts.generation);
        let violation = failure.map(|error| Violation::Failed { worker, error: error.to_string() });
        Ok(Effect { next, out: self.send(worker, generation, &out), violation })
    }

    fn send(&mut self, rank: u8, generation: u8, out: &[Sent]) -> Vec<Packet> {
        let (to, child) = self.setup.home(rank);
        for sent in out {
            self.contents.is_from(sent.content, origin(rank, sent.slice));
            self.given.entry((generation, rank, sent.slice)).or_default().insert(sent.content);
        }
        let packet = |&Sent { slice, retransmit, content }| {
            let content = Some(content);
            Packet::Up { to, child, generation, slice, rank, retransmit, content }
        };
        out.iter().map(packet).collect()
    }

    fn at_switch(&mut self, switch: u8, at: StateId, packet: Packet) -> Effect {
        let before = self.slots.get(usize::from(at)).cloned().unwrap_or_default();
        let mut slot = before.clone();
        let (window, bug) = (self.setup.window, self.setup.bug);
        match packet {
            Packet::Up { child, generation, slice, rank, retransmit, content, .. } => {
                let job = job(generation).map_or(0, tributary_wire::JobId::get);
                let onwards = match content {
                    None => Onwards::Probe,
                    Some(content) => {
                        let fan_in = self.setup.fan_in(Node::Switch(switch), generation);
                        let seq = seq(slice).0;
                        let arrival = Arrival { job, seq, child, fan_in, retransmit, content };
                        slot.gradient(arrival, window, bug, |&a, &b| self.contents.add(a, b))
                    }
                };
                let (to, child) = self.setup.above(switch);
                let on = |content| Packet::Up { to, child, generation, slice, rank, retransmit, content };
                let out = match onwards {
                    Onwards::Sum(content) => vec![on(Some(content))],
                    Onwards::Probe => vec![on(None)],
                    Onwards::Nothing => Vec::new(),
                };
                let foreign = ![0, LEFTOVER, job].contains(&before.job);
                self.changed(switch, &before, slot, out, foreign)
            }
            Packet::Down { generation, slice, rank, content, .. } => {
                let job = job(generation).map_or(0, tributary_wire::JobId::get);
                let seq = seq(slice).0;
                slot.result(job, seq, window, bug);
                let out = self.down(Node::Switch(switch), generation, slice, rank, content);
                let foreign = (before.job, before.cur) != (job, seq) && ![0, LEFTOVER].contains(&before.job);
                self.changed(switch, &before, slot, out, foreign)
            }
        }
    }

    /// Returns the effect of a packet on a slot.
    ///
    /// If `foreign` is true, the packet must not change a slot in use.
    fn changed(
        &mut self,
        switch: u8,
        before: &Slot<ContentId>,
        slot: Slot<ContentId>,
        out: Vec<Packet>,
        foreign: bool,
    ) -> Effect {
        let touched = foreign && before.count > 0 && *before != slot;
        let violation = touched.then_some(Violation::Touched { switch });
        Effect { next: self.slot_id(slot), out, violation }
    }

    /// Returns the copies of a RESULT that a node forwards.
    fn down(
        &self,
        from: Node,
        generation: u8,
        slice: u8,
        rank: Option<u8>,
        content: ContentId,
    ) -> Vec<Packet> {
        let wanted = |below: &Node| match (*below, rank) {
            (Node::Worker(at), None) => self.setup.is_member(at, generation),
            (Node::Worker(at), Some(rank)) => at == rank,
            (_, None) => true,
            (below, Some(rank)) => {
                let home = self.setup.home(rank).0;
                let above = |node| match node {
                    Node::Switch(at) => self.setup.above(at).0,
                    other => other,
                };
                below == home || below == above(home)
            }
        };
        let below = self.setup.below(from);
        let copy = |to| Packet::Down { to, generation, slice, rank, content };
        below.into_iter().filter(wanted).map(copy).collect()
    }

    fn at_server(&mut self, at: StateId, packet: Packet) -> Result<Effect, Error> {
        let Packet::Up { child, generation, slice, rank, retransmit, content, .. } = packet else {
            return Ok(Effect { next: at, out: Vec::new(), violation: None });
        };
        let input = ForServer { generation, slice, rank, retransmit, child, content };
        let step = self.servers.step(&self.setup, at, Some(input), &mut self.contents)?;
        let generation = self.servers.facts(step.next).map_or(0, |facts| facts.generation);
        let (mut out, mut violation) = (Vec::new(), None);
        for answer in step.out.iter() {
            if answer.to.is_none() && !self.is_right(generation, answer.slice, answer.content) {
                let got = self.contents.get(answer.content);
                let contributors = got.map_or(0, |content| content.totals.contributors);
                violation = Some(Violation::WrongSum { slice: answer.slice, contributors });
            }
            let (slice, content) = (answer.slice, answer.content);
            out.extend(self.down(Node::Server, generation, slice, answer.to, content));
        }
        Ok(Effect { next: step.next, out, violation })
    }

    /// Returns true if the content is the sum of each member's contribution to the slice, counted once.
    fn is_right(&mut self, generation: u8, slice: u8, content: ContentId) -> bool {
        let mut sums: Vec<Option<ContentId>> = vec![None];
        for rank in self.setup.members(generation) {
            let given = self.given.get(&(generation, rank.get() as u8, slice)).cloned().unwrap_or_default();
            let pairs = sums.iter().flat_map(|&sum| given.iter().map(move |&own| (sum, own)));
            let pairs: Vec<_> = pairs.collect();
            let add = |(sum, own): (Option<ContentId>, ContentId)| {
                Some(sum.map_or(own, |sum| self.contents.add(sum, own)))
            };
            sums = pairs.into_iter().map(add).collect();
        }
        let Some(got) = self.contents.get(content) else { return false };
        sums.into_iter().flatten().any(|sum| self.contents.get(sum).is_some_and(|sum| sum.is_served_as(got)))
    }

    /// Changes the server to the next generation, and removes the members that leave.
    ///
    /// Returns the server's answers to requests for slices that were finished before. The answers go to all
    /// members, as if several members had sent requests.
    pub(crate) fn change_server(&mut self, parts: &mut Parts) -> Result<Vec<Packet>, Error> {
        let server = self.server_part();
        let mut answers = Vec::new();
        if let Some(part) = parts.get_mut(server) {
            *part = self.servers.step(&self.setup, *part, None, &mut self.contents)?.next;
            for slice in 0..self.setup.slices() as u8 {
                let probe =
                    ForServer { generation: 1, slice, rank: 0, retransmit: true, child: 0, content: None };
                let step = self.servers.step(&self.setup, *part, Some(probe), &mut self.contents)?;
                for answer in step.out.iter() {
                    answers.extend(self.down(Node::Server, 1, slice, None, answer.content));
                }
            }
        }
        for (part, worker) in parts.iter_mut().zip(0..self.setup.workers()) {
            if !self.setup.is_member(worker, 1) {
                *part = GONE;
            }
        }
        Ok(answers)
    }

    /// Returns the server's generation.
    pub(crate) fn generation(&self, parts: &Parts) -> u8 {
        let server = parts.get(self.server_part()).and_then(|&id| self.servers.facts(id));
        server.map_or(0, |facts| facts.generation)
    }

    /// Returns the members that have not yet changed to the server's generation.
    pub(crate) fn behind(&self, parts: &Parts) -> Vec<u8> {
        let generation = self.generation(parts);
        let is_behind = |&worker: &u8| {
            let facts = parts.get(usize::from(worker)).and_then(|&id| self.workers.facts(id));
            facts.is_some_and(|facts| facts.generation < generation)
        };
        (0..self.setup.workers()).filter(is_behind).collect()
    }

    /// Returns the contributions that switches hold or that have reached the server.
    pub(crate) fn contributions(&self, parts: &Parts) -> Origins {
        let server = parts.get(self.server_part()).and_then(|&id| self.servers.facts(id));
        let slots = parts.iter().skip(self.server_part() + 1);
        let held = slots.filter_map(|&id| self.slots.get(usize::from(id))?.sum);
        held.fold(server.map_or(0, |facts| facts.taken), |all, sum| all | self.contents.origins(sum))
    }

    /// Returns true if every member has every result.
    pub(crate) fn is_done(&self, parts: &Parts) -> bool {
        let workers = parts.iter().take(self.server_part());
        workers.filter(|&&id| id != GONE).all(|&id| self.workers.facts(id).is_some_and(|facts| facts.is_done))
    }
}
