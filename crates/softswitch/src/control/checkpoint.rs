//! The state before a batch of updates, from which the switch can undo the whole batch.

use std::time::Instant;

use super::CounterValue;
use crate::digests::Digests;
use crate::meters::Meter;
use crate::pre::Replication;
use crate::profiles::Profile;
use crate::registers::Contents;
use crate::switch::Switch;
use crate::table::Table;
use crate::value_sets::ValueSet;

/// A part of a switch's state that an update can change. The number is its P4Info id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A table: its entries with their counters and meters, its default entry, and its action profile.
    Table(u32),
    /// An action profile.
    Profile(u32),
    /// An indexed counter.
    Counter(u32),
    /// An indexed meter.
    Meter(u32),
    /// A register array.
    Register(u32),
    /// A value set.
    ValueSet(u32),
    /// The controller's configuration of digests.
    Digests,
    /// All multicast groups and clone sessions.
    Replication,
}

/// Saved copies of parts of a switch.
#[derive(Debug, Default)]
pub struct Checkpoint {
    tables: Vec<(usize, Table)>,
    profiles: Vec<(usize, Profile)>,
    counters: Vec<(usize, Vec<CounterValue>)>,
    meters: Vec<(usize, Vec<Meter>)>,
    registers: Vec<(usize, Contents)>,
    value_sets: Vec<(usize, ValueSet)>,
    digests: Option<Digests>,
    replication: Option<Replication>,
    next_scan: Option<Instant>,
}

impl Switch {
    /// Copies these parts of the switch, except parts that the program does not have.
    /// The time is proportional to the size of the parts.
    pub fn checkpoint(&self, parts: impl IntoIterator<Item = Part>) -> Checkpoint {
        let mut checkpoint = Checkpoint { next_scan: self.next_scan, ..Checkpoint::default() };
        let (directory, state) = (&self.pipeline.directory, &self.state);
        let keep_profile = |at: usize, profiles: &mut Vec<(usize, Profile)>| {
            if profiles.iter().all(|(known, _)| *known != at) {
                profiles.push((at, state.profiles[at].clone()));
            }
        };
        for part in parts {
            match part {
                Part::Table(id) => {
                    let Some(ids) = directory.tables.get(&id) else { continue };
                    checkpoint.tables.push((ids.index, state.tables[ids.index].clone()));
                    if let Some(profile) = self.pipeline.program.tables[ids.index].profile {
                        keep_profile(profile, &mut checkpoint.profiles);
                    }
                }
                Part::Profile(id) => {
                    if let Some(ids) = directory.profiles.get(&id) {
                        keep_profile(ids.index, &mut checkpoint.profiles);
                    }
                }
                Part::Counter(id) => {
                    let at = directory.counters.get(&id).copied();
                    checkpoint.counters.extend(at.map(|at| (at, state.counters[at].clone())));
                }
                Part::Meter(id) => {
                    let at = directory.meters.get(&id).copied();
                    checkpoint.meters.extend(at.map(|at| (at, state.meters[at].clone())));
                }
                Part::Register(id) => {
                    let at = directory.registers.get(&id).copied();
                    checkpoint.registers.extend(at.map(|at| (at, state.registers.contents(at))));
                }
                Part::ValueSet(id) => {
                    let at = directory.value_sets.get(&id).map(|ids| ids.index);
                    checkpoint.value_sets.extend(at.map(|at| (at, state.value_sets[at].clone())));
                }
                Part::Digests => checkpoint.digests = Some(self.digests.clone()),
                Part::Replication => checkpoint.replication = Some(self.replication.clone()),
            }
        }
        checkpoint
    }

    /// Restores the parts. The switch must not have processed a packet since the checkpoint.
    pub fn restore(&mut self, checkpoint: Checkpoint) {
        let state = &mut self.state;
        put_back(&mut state.tables, checkpoint.tables);
        put_back(&mut state.profiles, checkpoint.profiles);
        put_back(&mut state.counters, checkpoint.counters);
        put_back(&mut state.meters, checkpoint.meters);
        for (array, contents) in checkpoint.registers {
            state.registers.put_back(array, contents);
        }
        put_back(&mut state.value_sets, checkpoint.value_sets);
        if let Some(digests) = checkpoint.digests {
            self.digests = digests;
        }
        if let Some(replication) = checkpoint.replication {
            self.replication = replication;
        }
        self.next_scan = checkpoint.next_scan;
    }
}

fn put_back<T>(all: &mut [T], kept: Vec<(usize, T)>) {
    for (at, one) in kept {
        all[at] = one;
    }
}
