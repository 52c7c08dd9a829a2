//! The control plane's access to action profiles and selectors.

use std::collections::BTreeSet;

use tributary_p4runtime::p4::config::v1::ActionProfile;
use tributary_p4runtime::p4info::Scope;

use super::described::{Described, describe};
use super::{ActionCall, EntryAction, GroupMember, ProfileGroup, ProfileMember, WeightedCall};
use crate::check::ProfileIds;
use crate::error::ControlError;
use crate::pipeline::Pipeline;
use crate::program::TableProgram;
use crate::switch::Switch;
use crate::table::{Behaviour, BoundAction};

/// The maximum sum of the weights in a group, and the maximum size of a group without an own limit.
const MAX_GROUP: u64 = 1 << 16;

impl Switch {
    /// Adds a member.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `AlreadyExists`, `Full`.
    pub fn insert_member(&mut self, member: &ProfileMember) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let profile = lookup(&pipeline, member.profile_id)?;
        let bound = bind(&pipeline, profile, member)?;
        let state = &mut self.state.profiles[profile.index];
        if state.member(member.member_id).is_some() {
            return Err(ControlError::AlreadyExists(member_name(member.member_id)));
        }
        check_style(profile, state.one_shots > 0, false)?;
        // The size of a selector limits the sizes of its groups, not the number of its members.
        if !profile.with_selector && profile.size > 0 && state.member_count() as u64 >= profile.size {
            return Err(full(profile));
        }
        state.insert_member(member.member_id, member.action.clone(), bound);
        Ok(())
    }

    /// Changes the action of a member, for all entries and groups that refer to the member.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `NotFound`.
    pub fn modify_member(&mut self, member: &ProfileMember) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let profile = lookup(&pipeline, member.profile_id)?;
        let bound = bind(&pipeline, profile, member)?;
        let state = &mut self.state.profiles[profile.index];
        let there = state.modify_member(member.member_id, member.action.clone(), bound);
        if there { Ok(()) } else { Err(ControlError::NotFound(member_name(member.member_id))) }
    }

    /// Removes a member.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `NotFound`, `InUse`.
    pub fn delete_member(&mut self, profile_id: u32, member_id: u32) -> Result<(), ControlError> {
        let index = lookup(&self.pipeline, profile_id)?.index;
        let state = &mut self.state.profiles[index];
        match state.member_in_use(member_id) {
            None => Err(ControlError::NotFound(member_name(member_id))),
            Some(true) => Err(ControlError::InUse(member_name(member_id))),
            Some(false) => {
                state.delete_member(member_id);
                Ok(())
            }
        }
    }

    /// Returns all members of a profile, by id.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn members(&self, profile_id: u32) -> Result<Vec<ProfileMember>, ControlError> {
        let Some(profile) = used(&self.pipeline, profile_id)? else { return Ok(Vec::new()) };
        let members = self.state.profiles[profile.index].members();
        let shown = |(member_id, member): (u32, &crate::profiles::Member)| ProfileMember {
            profile_id,
            member_id,
            action: member.call.clone(),
        };
        Ok(members.map(shown).collect())
    }

    /// Adds a group.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `AlreadyExists`, `NotFound` (a member), `Full`.
    pub fn insert_profile_group(&mut self, group: &ProfileGroup) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let profile = lookup(&pipeline, group.profile_id)?;
        let state = &self.state.profiles[profile.index];
        check_style(profile, state.one_shots > 0, false)?;
        check_group_id(profile, group.group_id)?;
        if state.group(group.group_id).is_some() {
            return Err(ControlError::AlreadyExists(group_name(group.group_id)));
        }
        self.put_group(profile, group)
    }

    /// Replaces the members of a group.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also for a changed maximum size),
    /// `NotFound`, `Full`.
    pub fn modify_profile_group(&mut self, group: &ProfileGroup) -> Result<(), ControlError> {
        let pipeline = self.pipeline.clone();
        let profile = lookup(&pipeline, group.profile_id)?;
        let known = self.state.profiles[profile.index].group(group.group_id);
        let known = known.ok_or_else(|| ControlError::NotFound(group_name(group.group_id)))?;
        if known.max_size != group.max_size {
            let problem = format!("its maximal size stays {}", known.max_size);
            return Err(ControlError::InvalidArgument { place: group_name(group.group_id), problem });
        }
        self.put_group(profile, group)
    }

    /// Removes a group.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `NotFound`, `InUse`.
    pub fn delete_profile_group(&mut self, profile_id: u32, group_id: u32) -> Result<(), ControlError> {
        let index = lookup(&self.pipeline, profile_id)?.index;
        let state = &mut self.state.profiles[index];
        match state.group_in_use(group_id) {
            None => Err(ControlError::NotFound(group_name(group_id))),
            Some(true) => Err(ControlError::InUse(group_name(group_id))),
            Some(false) => {
                state.delete_group(group_id);
                Ok(())
            }
        }
    }

    /// Returns all groups of a selector, by id.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn profile_groups(&self, profile_id: u32) -> Result<Vec<ProfileGroup>, ControlError> {
        let Some(profile) = used(&self.pipeline, profile_id)? else { return Ok(Vec::new()) };
        let groups = self.state.profiles[profile.index].groups();
        let shown = |(group_id, group): (u32, &crate::profiles::Group)| ProfileGroup {
            profile_id,
            group_id,
            members: group.members.clone(),
            max_size: group.max_size,
        };
        Ok(groups.map(shown).collect())
    }

    /// Sets the state of a port. It affects selectors and multicast groups.
    ///
    /// Selectors do not choose members that watch a port that is down. Multicast groups use the
    /// backups of replicas on such a port.
    pub fn set_port(&mut self, port: u16, up: bool) {
        self.state.tell(|journal, _| journal.set_port(port, up));
        self.replication.set_port(port, up);
        let program = &self.pipeline.program;
        for (index, profile) in self.state.profiles.iter_mut().enumerate() {
            if !profile.set_port(port, up) {
                continue;
            }
            for table in &program.profiles[index].tables {
                for entry in self.state.tables[*table].entries_mut() {
                    if let Behaviour::OneShot(one_shot) = &mut entry.behaviour {
                        profile.refresh_one_shot(one_shot);
                    }
                }
            }
        }
    }

    fn put_group(&mut self, profile: &ProfileIds, group: &ProfileGroup) -> Result<(), ControlError> {
        let place = group_name(group.group_id);
        let refuse = |problem: String| Err(ControlError::InvalidArgument { place: place.clone(), problem });
        let state = &mut self.state.profiles[profile.index];
        if profile.max_group_size > 0 && !(1..=profile.max_group_size).contains(&u64::from(group.max_size)) {
            return refuse(format!("a group's maximal size goes from 1 to {}", profile.max_group_size));
        }
        let mut seen = BTreeSet::new();
        for GroupMember { member_id, weight, .. } in &group.members {
            if state.member(*member_id).is_none() {
                return Err(ControlError::NotFound(member_name(*member_id)));
            }
            if !seen.insert(*member_id) {
                return refuse(format!("member {member_id} is there twice: give it a higher weight"));
            }
            if *weight == 0 {
                return refuse(format!("member {member_id} needs a weight above 0"));
            }
            if let Err(problem) = profile.counts.check(*weight) {
                return refuse(format!("member {member_id} has {problem}"));
            }
        }
        let weights = || group.members.iter().map(|member| member.weight);
        let size = profile.counts.sum(weights());
        let own = if group.max_size > 0 { u64::from(group.max_size) } else { MAX_GROUP };
        let others = state.groups().filter(|(id, _)| *id != group.group_id);
        let others: u64 =
            others.map(|(_, one)| profile.counts.sum(one.members.iter().map(|member| member.weight))).sum();
        // Each unit of weight takes one place in the group, even if the profile's sizes count
        // members.
        let places: u64 = weights().map(u64::from).sum();
        let all = size.saturating_add(others);
        if size > own || places > MAX_GROUP || (profile.size > 0 && all > profile.size) {
            return Err(full(profile));
        }
        state.put_group(group.group_id, group.members.clone(), group.max_size);
        Ok(())
    }

    /// Returns the behaviour of an entry that refers to the table's action profile.
    pub(super) fn profile_behaviour(
        &self,
        described: Described<'_>,
        profile: usize,
        action: &EntryAction,
    ) -> Result<Behaviour, ControlError> {
        let state = &self.state.profiles[profile];
        let ids = self.pipeline.directory.profiles.values().find(|ids| ids.index == profile);
        let ids = ids.ok_or_else(|| described.invalid("it has no action profile".to_owned()))?;
        match action {
            EntryAction::Member(id) => {
                check_style(ids, state.one_shots > 0, false)?;
                state.member_behaviour(*id).ok_or_else(|| ControlError::NotFound(member_name(*id)))
            }
            EntryAction::Group(id) => {
                check_style(ids, state.one_shots > 0, false)?;
                check_group_id(ids, *id)?;
                state.group_behaviour(*id).ok_or_else(|| ControlError::NotFound(group_name(*id)))
            }
            EntryAction::OneShot(calls) => {
                check_style(ids, state.member_count() > 0 || state.groups().next().is_some(), true)?;
                check_one_shot(described, ids, calls)?;
                let bound = calls.iter().map(|one| bound(described, &one.call));
                let bound = bound.collect::<Result<_, _>>()?;
                Ok(Behaviour::OneShot(Box::new(state.one_shot(calls.clone(), bound))))
            }
            EntryAction::Call(_) => {
                Err(described.invalid("its entries refer to an action profile".to_owned()))
            }
        }
    }

    /// Returns a behaviour in the form in which the control plane wrote it.
    pub(super) fn shown_behaviour(&self, program: &TableProgram, behaviour: &Behaviour) -> EntryAction {
        let profile = program.profile.map(|profile| &self.state.profiles[profile]);
        match (behaviour, profile) {
            (Behaviour::Member(place), Some(profile)) => {
                EntryAction::Member(profile.member_at(*place).unwrap_or(0))
            }
            (Behaviour::Group(place), Some(profile)) => {
                EntryAction::Group(profile.group_at(*place).unwrap_or(0))
            }
            (Behaviour::OneShot(one_shot), _) => EntryAction::OneShot(one_shot.calls.clone()),
            // This case does not occur, because a table without a profile has only single actions.
            _ => EntryAction::OneShot(Vec::new()),
        }
    }
}

fn lookup(pipeline: &Pipeline, id: u32) -> Result<&ProfileIds, ControlError> {
    pipeline.directory.profiles.get(&id).ok_or(ControlError::UnknownId { what: "action profile", id })
}

/// Returns a profile; `None` if the P4Info has it but the compiler has left out its tables.
fn used(pipeline: &Pipeline, id: u32) -> Result<Option<&ProfileIds>, ControlError> {
    let named = |profile: &&ActionProfile| profile.preamble.as_ref().is_some_and(|one| one.id == id);
    match lookup(pipeline, id) {
        Ok(profile) => Ok(Some(profile)),
        Err(_) if pipeline.info().message().action_profiles.iter().any(|one| named(&one)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn member_name(id: u32) -> String {
    format!("member {id}")
}

fn group_name(id: u32) -> String {
    format!("group {id}")
}

fn full(profile: &ProfileIds) -> ControlError {
    ControlError::Full { table: format!("of action profile {}", profile.name), size: profile.size as usize }
}

/// Checks that all entries of a selector have one style: members and groups, or sets of actions.
///
/// `other` is true if the selector has entries of the other style.
fn check_style(profile: &ProfileIds, other: bool, one_shot: bool) -> Result<(), ControlError> {
    if !other {
        return Ok(());
    }
    let (these, those) = if one_shot {
        ("members and groups", "sets of actions")
    } else {
        ("sets of actions", "members and groups")
    };
    let place = format!("action profile {}", profile.name);
    Err(ControlError::InvalidArgument {
        place,
        problem: format!("it has {these}: {those} don't go with them"),
    })
}

fn check_group_id(profile: &ProfileIds, id: u32) -> Result<(), ControlError> {
    let place = format!("action profile {}", profile.name);
    if !profile.with_selector {
        return Err(ControlError::InvalidArgument { place, problem: "it has no groups".to_owned() });
    }
    if id == 0 {
        return Err(ControlError::InvalidArgument { place, problem: "0 is no group id".to_owned() });
    }
    Ok(())
}

fn check_one_shot(
    described: Described<'_>,
    profile: &ProfileIds,
    calls: &[WeightedCall],
) -> Result<(), ControlError> {
    if !profile.with_selector {
        return Err(described.invalid("its action profile has no selector: refer to a member".to_owned()));
    }
    if calls.iter().any(|call| call.weight == 0) {
        return Err(described.invalid("each action of a set needs a weight above 0".to_owned()));
    }
    for call in calls {
        profile
            .counts
            .check(call.weight)
            .map_err(|problem| described.invalid(format!("an action of the set has {problem}")))?;
    }
    let weights = || calls.iter().map(|call| call.weight);
    let (size, places) = (profile.counts.sum(weights()), weights().map(u64::from).sum::<u64>());
    let most = if profile.max_group_size > 0 { profile.max_group_size } else { MAX_GROUP };
    if size > most || places > MAX_GROUP {
        let problem = format!("a set of actions adds up to {size}: {most} is the most");
        return Err(described.invalid(problem));
    }
    Ok(())
}

/// Prepares a member's action for each of the profile's tables.
fn bind(
    pipeline: &Pipeline,
    profile: &ProfileIds,
    member: &ProfileMember,
) -> Result<Vec<BoundAction>, ControlError> {
    if member.member_id == 0 {
        let place = format!("action profile {}", profile.name);
        return Err(ControlError::InvalidArgument { place, problem: "0 is no member id".to_owned() });
    }
    profile.tables.iter().map(|id| bound(describe(pipeline, *id)?, &member.action)).collect()
}

fn bound(table: Described<'_>, call: &ActionCall) -> Result<BoundAction, ControlError> {
    Ok(table.action(call, Scope::TableOnly)?.bound)
}
