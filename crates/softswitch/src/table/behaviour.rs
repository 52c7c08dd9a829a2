//! The behaviour of an entry: an action, a reference to an action profile, or several actions.

use std::collections::BTreeSet;

use super::{Action, BoundAction};
use crate::control::WeightedCall;

/// Behaviour of an entry.
#[derive(Debug, Clone)]
pub(crate) enum Behaviour {
    Action(Action),
    /// Place of a member in the table's action profile.
    Member(u32),
    /// Place of a group in the table's action profile.
    Group(u32),
    /// A set of actions in the entry itself, between which the selector chooses.
    OneShot(Box<OneShot>),
}

/// The set of actions of one entry.
#[derive(Debug, Clone)]
pub(crate) struct OneShot {
    pub(crate) calls: Vec<WeightedCall>,
    pub(crate) bound: Vec<BoundAction>,
    /// Indices of the actions whose ports are up. An index occurs as often as the action's weight.
    pub(crate) active: Vec<u32>,
}

impl OneShot {
    /// Makes a set of actions. `bound` has the actions of `calls` in prepared form, and `down` the
    /// ports that are down.
    pub(crate) fn new(calls: Vec<WeightedCall>, bound: Vec<BoundAction>, down: &BTreeSet<u16>) -> Self {
        let mut one_shot = Self { calls, bound, active: Vec::new() };
        one_shot.refresh(down);
        one_shot
    }

    /// Leaves out the actions that watch a port that is down.
    pub(crate) fn refresh(&mut self, down: &BTreeSet<u16>) {
        let calls = (0..).zip(&self.calls).filter(|(_, call)| call.watch.is_up(down));
        self.active = calls.flat_map(|(at, call)| std::iter::repeat_n(at, call.weight as usize)).collect();
    }
}
