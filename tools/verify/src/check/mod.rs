//! The search: breadth first through all states.
//!
//! So it finds each violation by the shortest schedule.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::Error;
use crate::content::origin;
use crate::event::Event;
use crate::machines::{StateId, WorkerInput};
use crate::network::{Net, Packet, Packets};
use crate::recovery::Recovery;
use crate::setup::{Change, Node, Setup};
use crate::slot::Bug;
use crate::story;
use crate::violation::Violation;
use crate::world::{Parts, World};

/// The results of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckOutcome {
    /// Number of states. A state consists of the states of all parts and of the network.
    pub states: usize,
    /// Number of steps between these states.
    pub steps: usize,
    /// Length of the longest of the shortest schedules to each state, in steps.
    pub depth: usize,
    /// Number of combinations of the parts' states from which the job was shown to complete.
    pub completing: usize,
    /// Duration of the check.
    pub seconds: f64,
    /// The violation, if any, and the shortest schedule that leads to it.
    pub found: Option<(Violation, Vec<String>)>,
}

/// The progress of a check.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Number of states found.
    pub states: usize,
    /// Number of states that are still to be explored.
    pub waiting: usize,
    /// Number of combinations of the parts' states that are still to be shown to complete.
    pub to_complete: usize,
}

/// A state during the search: the parts, and the packets in flight.
#[derive(Debug, Clone)]
pub(crate) struct GlobalState {
    pub(crate) parts: Parts,
    pub(crate) net: Net,
}

struct Search<'p> {
    world: World,
    packets: Packets,
    seen: FxHashSet<u128>,
    /// For each state, the number of the previous state and the event that led from it to this state.
    ways: Vec<(u32, Event)>,
    steps: usize,
    /// The combinations of the parts' states, in the order of their distance from the start.
    ///
    /// Each has the number of the first state that contains it.
    parts: Vec<(Parts, u32)>,
    parts_seen: FxHashSet<Parts>,
    progress: &'p mut dyn FnMut(Progress),
}

/// The reason for an early end of a search.
enum Stop {
    Found(Violation),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Checks all possible schedules of `setup`.
///
/// # Errors
/// [`Error`]: the setup is not valid, or too large.
pub fn check(setup: &Setup, progress: &mut dyn FnMut(Progress)) -> Result<CheckOutcome, Error> {
    let begun = Instant::now();
    let (mut search, first) = Search::new(setup, progress)?;
    let start = first.clone();
    let (depth, found) = search.explore(first)?;
    let mut recovery = Recovery::default();
    let found = match found {
        Some((violation, at, last)) => {
            let way = search.way(at, last);
            Some((violation, story::tell(&mut search.world, &search.packets, &start.parts, &way)?))
        }
        None => search.recover(&mut recovery, &start)?,
    };
    Ok(CheckOutcome {
        states: search.ways.len(),
        steps: search.steps,
        depth,
        completing: recovery.looked_at(),
        seconds: seconds(begun.elapsed()),
        found,
    })
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

impl<'p> Search<'p> {
    /// Returns a search and its first state.
    fn new(setup: &Setup, progress: &'p mut dyn FnMut(Progress)) -> Result<(Self, GlobalState), Error> {
        let (world, parts, sent) = World::new(setup)?;
        let mut search = Self {
            world,
            packets: Packets::default(),
            seen: FxHashSet::default(),
            ways: Vec::new(),
            steps: 0,
            parts: Vec::new(),
            parts_seen: FxHashSet::default(),
            progress,
        };
        let mut first = GlobalState { parts, net: Net::default() };
        for packet in sent.into_iter().filter_map(Packet::lasting) {
            first.net.insert(search.packets.id(packet)?);
        }
        Ok((search, first))
    }

    /// Explores all states. A violation is returned with the state before it and the last event.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn explore(
        &mut self,
        mut first: GlobalState,
    ) -> Result<(usize, Option<(Violation, u32, Option<Event>)>), Error> {
        match self.settle(&mut first) {
            Err(Stop::Found(violation)) => return Ok((0, Some((violation, 0, None)))),
            Err(Stop::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        self.add(&first, 0, Event::ServerChanges);
        let (mut level, mut depth) = (vec![(0, first)], 0);
        loop {
            let mut next = Vec::new();
            let waiting = level.len();
            for (done, (at, state)) in level.into_iter().enumerate() {
                if done % 4096 == 0 {
                    let waiting = waiting - done + next.len();
                    (self.progress)(Progress { states: self.ways.len(), waiting, to_complete: 0 });
                }
                for event in self.events(&state) {
                    match self.after(&state, event) {
                        Ok(None) => {}
                        Ok(Some(state)) => {
                            self.steps += 1;
                            if let Some(at) = self.add(&state, at, event) {
                                next.push((at, state));
                            }
                        }
                        Err(Stop::Found(violation)) => {
                            return Ok((depth + 1, Some((violation, at, Some(event)))));
                        }
                        Err(Stop::Error(error)) => return Err(error),
                    }
                }
            }
            if next.is_empty() {
                return Ok((depth, None));
            }
            (level, depth) = (next, depth + 1);
        }
    }

    /// Adds a state; returns its number if it is new.
    fn add(&mut self, state: &GlobalState, before: u32, event: Event) -> Option<u32> {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &state.parts, state.net).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        if !self.seen.insert(half(0) << 64 | half(1)) {
            return None;
        }
        let at = self.ways.len() as u32;
        self.ways.push((before, event));
        if self.parts_seen.insert(state.parts.clone()) {
            self.parts.push((state.parts.clone(), at));
        }
        Some(at)
    }

    /// Returns true if workers receive results as soon as they can.
    ///
    /// Within one generation, a worker with a result can do everything that a worker without it can do,
    /// because the packets that it has sent stay deliverable.
    fn is_eager(&self) -> bool {
        self.world.setup.change == Change::None
    }

    fn events(&self, state: &GlobalState) -> Vec<Event> {
        let mut events: Vec<Event> = state.net.iter().map(Event::Arrives).collect();
        events.extend((0..self.world.setup.switches()).map(Event::Reboots));
        if self.world.setup.change != Change::None {
            if self.world.generation(&state.parts) == 0 {
                events.push(Event::ServerChanges);
            }
            events.extend(self.world.behind(&state.parts).into_iter().map(Event::WorkerChanges));
        }
        events
    }

    /// Returns the state after an event; `None` if the event changes nothing.
    fn after(&mut self, before: &GlobalState, event: Event) -> Result<Option<GlobalState>, Stop> {
        let mut state = before.clone();
        match event {
            Event::Arrives(id) => {
                if !self.arrives(&mut state, id)? {
                    return Ok(None);
                }
            }
            Event::Reboots(switch) => {
                let slots = self.world.slots_of(switch);
                state.parts.get_mut(slots).unwrap_or_default().fill(0);
            }
            Event::ServerChanges => {
                let answers = self.world.change_server(&mut state.parts)?;
                self.put(&mut state, &answers)?;
                self.forget_first_generation(&mut state);
            }
            Event::WorkerChanges(worker) => {
                let Some(part) = state.parts.get_mut(usize::from(worker)) else { return Ok(None) };
                let effect = self.world.worker_step(worker, *part, WorkerInput::Change)?;
                *part = effect.next;
                self.put(&mut state, &effect.out)?;
            }
        }
        self.settle(&mut state)?;
        let changed = state.parts != before.parts || state.net != before.net;
        Ok(changed.then_some(state))
    }

    /// Delivers a packet, which stays deliverable. Returns true if the state of its part has changed.
    fn arrives(&mut self, state: &mut GlobalState, id: u16) -> Result<bool, Stop> {
        let packet = self.packets.get(id);
        let at = self.world.part(&packet);
        let Some(part) = state.parts.get_mut(at) else { return Ok(false) };
        let effect = self.world.effect(*part, packet)?;
        if let Some(violation) = &effect.violation {
            return Err(Stop::Found(violation.clone()));
        }
        let changed = *part != effect.next;
        *part = effect.next;
        self.put(state, &effect.out)?;
        Ok(changed)
    }

    fn put(&mut self, state: &mut GlobalState, packets: &[Packet]) -> Result<bool, Stop> {
        let mut new = false;
        for packet in packets.iter().filter_map(|packet| packet.lasting()) {
            new |= state.net.insert(self.packets.id(packet)?);
        }
        Ok(new)
    }

    /// Delivers at once all packets that change no part and only cause further packets.
    ///
    /// If workers are eager, it delivers their results at once, too.
    fn settle(&mut self, state: &mut GlobalState) -> Result<(), Stop> {
        loop {
            let mut changed = false;
            for id in state.net.iter() {
                let packet = self.packets.get(id);
                let Some(&part) = state.parts.get(self.world.part(&packet)) else { continue };
                let effect = self.world.effect(part, packet)?;
                if effect.next == part {
                    changed |= self.put(state, &effect.out)?;
                } else if self.is_eager() && matches!(packet.to(), Node::Worker(_)) {
                    self.arrives(state, id)?;
                    changed = true;
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Removes the first generation's packets to the server, and clears its slots.
    ///
    /// After the change, the server accepts no packet of this generation. So these packets could only change
    /// the slots of this generation.
    fn forget_first_generation(&self, state: &mut GlobalState) {
        if self.world.setup.bug == Some(Bug::SharedSlots) {
            return;
        }
        for id in state.net.iter() {
            if matches!(self.packets.get(id), Packet::Up { generation: 0, .. }) {
                state.net.remove(id);
            }
        }
        for switch in 0..self.world.setup.switches() {
            let slots = self.world.slots_of(switch).take(self.world.setup.window as usize);
            slots.filter_map(|slot| state.parts.get_mut(slot).map(|part| *part = 0)).for_each(drop);
        }
    }

    /// Returns the events that lead to a state, followed by `last`.
    fn way(&self, mut at: u32, last: Option<Event>) -> Vec<Event> {
        let mut way: Vec<Event> = last.into_iter().collect();
        while at != 0
            && let Some(&(before, event)) = self.ways.get(at as usize)
        {
            way.push(event);
            at = before;
        }
        way.reverse();
        way
    }

    /// Shows that the job completes from every state.
    ///
    /// Otherwise returns a violation, and the schedule that leads to a state from which the job does not
    /// complete.
    fn recover(
        &mut self,
        recovery: &mut Recovery,
        start: &GlobalState,
    ) -> Result<Option<(Violation, Vec<String>)>, Error> {
        let earlier = self.earlier_workers(start)?;
        let all = std::mem::take(&mut self.parts);
        for (done, (parts, at)) in all.iter().enumerate() {
            if done % 4096 == 0 {
                let (states, to_complete) = (self.ways.len(), all.len() - done);
                (self.progress)(Progress { states, waiting: 0, to_complete });
            }
            for parts in self.without_last_results(parts, &earlier) {
                if !recovery.completes(&mut self.world, &parts)? {
                    let way = self.way(*at, None);
                    let mut lines = story::tell(&mut self.world, &self.packets, &start.parts, &way)?;
                    lines.push(story::stuck(&self.world, &parts));
                    return Ok(Some((Violation::Stuck, lines)));
                }
            }
        }
        Ok(None)
    }

    /// Returns all states of workers that receive right results in any order.
    ///
    /// The key is the worker and the slices for which its slots wait.
    fn earlier_workers(&mut self, start: &GlobalState) -> Result<FxHashMap<(u8, Vec<u8>), StateId>, Error> {
        let mut earlier = FxHashMap::default();
        if !self.is_eager() {
            return Ok(earlier);
        }
        let results: Vec<_> = self.packets.to_workers().collect();
        let world = &mut self.world;
        let first = start.parts.iter().copied().take(world.server_part());
        for (worker, part) in (0..).zip(first) {
            let mut waiting = vec![part];
            while let Some(part) = waiting.pop() {
                let Some(facts) = world.workers.facts(part) else { continue };
                if earlier.insert((worker, facts.dues.clone()), part).is_some() {
                    continue;
                }
                for &packet in results.iter().filter(|packet| packet.to() == Node::Worker(worker)) {
                    waiting.push(world.effect(part, packet)?.next);
                }
            }
        }
        Ok(earlier)
    }

    /// Returns `parts`, and all variants in which some workers have not received the last results.
    ///
    /// A worker must have received a result if its next slice in that slot has gone into a sum.
    fn without_last_results(&self, parts: &Parts, earlier: &FxHashMap<(u8, Vec<u8>), StateId>) -> Vec<Parts> {
        let mut all = vec![parts.clone()];
        let contributions = self.world.contributions(parts);
        for worker in 0..self.world.setup.workers() {
            let Some(&part) = parts.get(usize::from(worker)) else { continue };
            let Some(facts) = self.world.workers.facts(part).filter(|_| !earlier.is_empty()) else {
                continue;
            };
            let (slots, window) = (facts.dues.len(), self.world.setup.window as u8);
            let missing = (1..1u32 << slots).filter_map(|missing| {
                let due = |(slot, &due): (usize, &u8)| match missing >> slot & 1 {
                    0 => Some(due),
                    _ => due.checked_sub(window).filter(|_| contributions & origin(worker, due) == 0),
                };
                let dues: Option<Vec<u8>> = facts.dues.iter().enumerate().map(due).collect();
                earlier.get(&(worker, dues?)).copied()
            });
            let variants: Vec<StateId> = missing.collect();
            let with = |parts: &Parts| {
                let replaced = variants.iter().map(|&variant| {
                    let mut parts = parts.clone();
                    if let Some(part) = parts.get_mut(usize::from(worker)) {
                        *part = variant;
                    }
                    parts
                });
                replaced.collect::<Vec<_>>()
            };
            let more: Vec<Parts> = all.iter().flat_map(with).collect();
            all.extend(more);
        }
        all
    }
}

#[cfg(test)]
mod tests;
