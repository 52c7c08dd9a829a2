//! Action profiles, whose actions several entries share, and selectors, which choose an action of a
//! group by a hash.
//!
//! As on BMv2, a new member takes the lowest free place in its profile, and a group's members are
//! ordered by place. So the hash, modulo their number, chooses the same member as BMv2.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::{ActionCall, GroupMember, WeightedCall};
use crate::program::{Calculation, ProfileProgram};
use crate::table::{Behaviour, BoundAction, OneShot};

/// A profile's members and groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    members: Slab<Member>,
    groups: Slab<Group>,
    /// The ports that are down.
    down: BTreeSet<u16>,
    /// Number of entries that have a set of actions themselves.
    pub(crate) one_shots: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) call: ActionCall,
    /// The action, for each of the profile's tables.
    bound: Vec<BoundAction>,
    /// Number of groups and entries that refer to the member.
    uses: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) members: Vec<GroupMember>,
    pub(crate) max_size: u32,
    /// Places of the members whose ports are up. A place occurs as often as the member's weight.
    active: Vec<u32>,
    /// Number of entries that refer to the group.
    uses: usize,
}

/// Elements by id. A new element takes the lowest free place.
#[derive(Debug, Clone)]
struct Slab<T> {
    by_id: BTreeMap<u32, u32>,
    things: Vec<Option<T>>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), things: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn insert(&mut self, id: u32, thing: T) {
        let place = self.things.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.things.push(None);
            self.things.len() - 1
        });
        self.things[place] = Some(thing);
        self.by_id.insert(id, place as u32);
    }

    fn remove(&mut self, id: u32) -> Option<T> {
        let place = self.by_id.remove(&id)?;
        self.things.get_mut(place as usize)?.take()
    }

    fn at(&self, place: u32) -> Option<&T> {
        self.things.get(place as usize)?.as_ref()
    }

    fn at_mut(&mut self, place: u32) -> Option<&mut T> {
        self.things.get_mut(place as usize)?.as_mut()
    }

    fn get(&self, id: u32) -> Option<&T> {
        self.at(*self.by_id.get(&id)?)
    }

    fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.at_mut(*self.by_id.get(&id)?)
    }

    fn id_at(&self, place: u32) -> Option<u32> {
        self.by_id.iter().find(|(_, at)| **at == place).map(|(id, _)| *id)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.by_id.iter().filter_map(|(id, place)| Some((*id, self.at(*place)?)))
    }
}

impl Profile {
    /// Returns the action for a packet; `None` if the group is empty, or the ports of all members
    /// are down.
    /// `hash` is the result of the profile's selector.
    pub(crate) fn choose<'a>(
        &'a self,
        behaviour: &'a Behaviour,
        program: &ProfileProgram,
        table: usize,
        hash: impl FnOnce(&Calculation) -> u64,
    ) -> Option<&'a BoundAction> {
        let hash = || program.selector.as_ref().map_or(0, hash);
        let one_of = |active: &[u32]| {
            let index = hash().checked_rem(active.len() as u64)?;
            active.get(index as usize).copied()
        };
        let place = match behaviour {
            Behaviour::Action(action) => return Some(&action.bound),
            Behaviour::OneShot(one_shot) => {
                return one_shot.bound.get(one_of(&one_shot.active)? as usize);
            }
            Behaviour::Member(place) => *place,
            Behaviour::Group(place) => one_of(&self.groups.at(*place)?.active)?,
        };
        let at = program.tables.iter().position(|known| *known == table)?;
        self.members.at(place)?.bound.get(at)
    }

    pub(crate) fn member(&self, id: u32) -> Option<&Member> {
        self.members.get(id)
    }

    pub(crate) fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(id)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (u32, &Member)> {
        self.members.iter()
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.iter()
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.by_id.len()
    }

    /// Adds a new member; `bound` has its action for each table.
    pub(crate) fn insert_member(&mut self, id: u32, call: ActionCall, bound: Vec<BoundAction>) {
        self.members.insert(id, Member { call, bound, uses: 0 });
    }

    /// Changes a member's action. Returns true if the member exists.
    pub(crate) fn modify_member(&mut self, id: u32, call: ActionCall, bound: Vec<BoundAction>) -> bool {
        let Some(member) = self.members.get_mut(id) else { return false };
        (member.call, member.bound) = (call, bound);
        true
    }

    /// Returns true if an entry or a group refers to the member; `None` if the member does not exist.
    pub(crate) fn member_in_use(&self, id: u32) -> Option<bool> {
        Some(self.members.get(id)?.uses > 0)
    }

    pub(crate) fn delete_member(&mut self, id: u32) {
        self.members.remove(id);
    }

    /// Adds or replaces a group. All members of the group must exist.
    pub(crate) fn put_group(&mut self, id: u32, members: Vec<GroupMember>, max_size: u32) {
        for member in &members {
            self.use_member(member.member_id, 1);
        }
        let old = match self.groups.get_mut(id) {
            Some(group) => std::mem::replace(&mut group.members, members),
            None => {
                self.groups.insert(id, Group { members, max_size, active: Vec::new(), uses: 0 });
                Vec::new()
            }
        };
        for member in old {
            self.use_member(member.member_id, -1);
        }
        self.refresh();
    }

    /// Returns true if an entry refers to the group; `None` if the group does not exist.
    pub(crate) fn group_in_use(&self, id: u32) -> Option<bool> {
        Some(self.groups.get(id)?.uses > 0)
    }

    pub(crate) fn delete_group(&mut self, id: u32) {
        if let Some(group) = self.groups.remove(id) {
            group.members.iter().for_each(|member| self.use_member(member.member_id, -1));
        }
    }

    /// Returns the behaviour of an entry that refers to this member.
    pub(crate) fn member_behaviour(&self, id: u32) -> Option<Behaviour> {
        self.members.by_id.get(&id).copied().map(Behaviour::Member)
    }

    /// Returns the behaviour of an entry that refers to this group.
    pub(crate) fn group_behaviour(&self, id: u32) -> Option<Behaviour> {
        self.groups.by_id.get(&id).copied().map(Behaviour::Group)
    }

    /// Returns the id of the member at a place.
    pub(crate) fn member_at(&self, place: u32) -> Option<u32> {
        self.members.id_at(place)
    }

    /// Returns the id of the group at a place.
    pub(crate) fn group_at(&self, place: u32) -> Option<u32> {
        self.groups.id_at(place)
    }

    /// Changes the number of references of an entry's behaviour: `by` is 1 for a new one, -1 for a
    /// removed one.
    pub(crate) fn refer(&mut self, behaviour: &Behaviour, by: isize) {
        let uses = match behaviour {
            Behaviour::Action(_) => return,
            Behaviour::OneShot(_) => &mut self.one_shots,
            Behaviour::Member(place) => match self.members.at_mut(*place) {
                Some(member) => &mut member.uses,
                None => return,
            },
            Behaviour::Group(place) => match self.groups.at_mut(*place) {
                Some(group) => &mut group.uses,
                None => return,
            },
        };
        *uses = uses.saturating_add_signed(by);
    }

    /// Sets the state of a port. Returns true if the state has changed.
    pub(crate) fn set_port(&mut self, port: u16, up: bool) -> bool {
        let news = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if news {
            self.refresh();
        }
        news
    }

    /// Makes an entry's set of actions; `bound` has the actions of `calls` in prepared form.
    pub(crate) fn one_shot(&self, calls: Vec<WeightedCall>, bound: Vec<BoundAction>) -> OneShot {
        OneShot::new(calls, bound, &self.down)
    }

    /// Updates an entry's set of actions to the present states of the ports.
    pub(crate) fn refresh_one_shot(&self, one_shot: &mut OneShot) {
        one_shot.refresh(&self.down);
    }

    fn use_member(&mut self, id: u32, by: isize) {
        if let Some(member) = self.members.get_mut(id) {
            member.uses = member.uses.saturating_add_signed(by);
        }
    }

    fn refresh(&mut self) {
        let Self { members, groups, down, .. } = self;
        for group in groups.things.iter_mut().flatten() {
            let up = group.members.iter().filter(|member| member.watch.is_up(down));
            let mut places: Vec<(u32, u32)> = up
                .filter_map(|member| Some((*members.by_id.get(&member.member_id)?, member.weight)))
                .collect();
            places.sort_unstable();
            let repeated =
                places.into_iter().flat_map(|(at, weight)| std::iter::repeat_n(at, weight as usize));
            group.active = repeated.collect();
        }
    }
}
