//! Action profiles: between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::canonical;
use tributary_p4runtime::p4::v1::action_profile_action::WatchKind;
use tributary_p4runtime::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use tributary_p4runtime::p4::v1::action_profile_group::{Member, member::WatchKind as MemberWatchKind};
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use crate::control::{GroupMember, ProfileGroup, ProfileMember, Watch, WeightedCall};
use crate::program::DROP_PORT;
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::Query;
use crate::server::status::Refusal;

/// Plans an update of a member.
pub(in crate::server) fn plan_member(
    kind: update::Type,
    entry: message::ActionProfileMember,
) -> Result<Operation, Refusal> {
    let message::ActionProfileMember { action_profile_id: profile_id, member_id, action } = entry;
    if kind == update::Type::Delete {
        return Ok(Operation::DeleteMember { profile_id, member_id });
    }
    let action = action.ok_or_else(|| Refusal::invalid("a member needs an action, and this one has none"))?;
    let member = ProfileMember { profile_id, member_id, action: convert::call(action) };
    Ok(if kind == update::Type::Insert {
        Operation::InsertMember(member)
    } else {
        Operation::ModifyMember(member)
    })
}

/// Plans an update of a group.
pub(in crate::server) fn plan_group(
    kind: update::Type,
    entry: &message::ActionProfileGroup,
) -> Result<Operation, Refusal> {
    let (profile_id, group_id) = (entry.action_profile_id, entry.group_id);
    if kind == update::Type::Delete {
        return Ok(Operation::DeleteProfileGroup { profile_id, group_id });
    }
    let max_size = u32::try_from(entry.max_size)
        .map_err(|_| Refusal::invalid("a group's max_size can't be negative"))?;
    let members = entry.members.iter().map(group_member).collect::<Result<_, _>>()?;
    let group = ProfileGroup { profile_id, group_id, members, max_size };
    Ok(if kind == update::Type::Insert {
        Operation::InsertProfileGroup(group)
    } else {
        Operation::ModifyProfileGroup(group)
    })
}

fn group_member(message: &Member) -> Result<GroupMember, Refusal> {
    let watch = match &message.watch_kind {
        None => Watch::Nothing,
        Some(MemberWatchKind::Watch(port)) => watched_number(*port)?,
        Some(MemberWatchKind::WatchPort(port)) => watched(port)?,
    };
    Ok(GroupMember { member_id: message.member_id, weight: weight(message.weight)?, watch })
}

/// The actions of a set.
pub(in crate::server) fn one_shot(
    set: message::ActionProfileActionSet,
) -> Result<Vec<WeightedCall>, Refusal> {
    if set.group_action.is_some() {
        return Err(Refusal::unimplemented("a group action"));
    }
    if set.action_selection_mode() == ActionSelectionMode::Random {
        return Err(Refusal::unimplemented("a choice at random"));
    }
    if set.size_semantics() == SizeSemantics::SumOfMembers {
        return Err(Refusal::unimplemented("a group size without weights"));
    }
    set.action_profile_actions.into_iter().map(weighted_call).collect()
}

fn weighted_call(message: message::ActionProfileAction) -> Result<WeightedCall, Refusal> {
    let action = message.action.ok_or_else(|| Refusal::invalid("an action of the set is missing"))?;
    let watch = match &message.watch_kind {
        None => Watch::Nothing,
        Some(WatchKind::Watch(port)) => watched_number(*port)?,
        Some(WatchKind::WatchPort(port)) => watched(port)?,
    };
    Ok(WeightedCall { call: convert::call(action), weight: weight(message.weight)?, watch })
}

fn weight(weight: i32) -> Result<u32, Refusal> {
    u32::try_from(weight)
        .ok()
        .filter(|weight| *weight > 0)
        .ok_or_else(|| Refusal::invalid(format!("a weight has to be above 0, and this one is {weight}")))
}

/// The port to watch in the older form: 0 is none.
fn watched_number(port: i32) -> Result<Watch, Refusal> {
    match u16::try_from(port) {
        Ok(0) => Ok(Watch::Nothing),
        Ok(port) if u64::from(port) < DROP_PORT => Ok(Watch::PortNumber(port)),
        _ => Err(Refusal::invalid(format!("there is no port {port} to watch"))),
    }
}

/// The port to watch in the newer form: nothing is none.
fn watched(port: &[u8]) -> Result<Watch, Refusal> {
    if port.is_empty() {
        return Ok(Watch::Nothing);
    }
    let number = canonical::decode(port, u128::BITS);
    let number = number.map_err(|error| Refusal::invalid(format!("a port to watch: {error}")))?;
    match u16::try_from(number) {
        Ok(port) if u64::from(port) < DROP_PORT => Ok(Watch::Port(port)),
        _ => Err(Refusal::invalid(format!("there is no port {number} to watch"))),
    }
}

/// Plans a read of members: one, a profile's, or all.
pub(in crate::server) fn query_members(entry: &message::ActionProfileMember, p4info: &P4Info) -> Vec<Query> {
    let id = Some(entry.member_id).filter(|id| *id != 0);
    let profiles = profiles(entry.action_profile_id, p4info, false);
    profiles.into_iter().map(|profile| Query::Members { profile, id }).collect()
}

/// Plans a read of groups: one, a selector's, or all.
pub(in crate::server) fn query_groups(entry: &message::ActionProfileGroup, p4info: &P4Info) -> Vec<Query> {
    let id = Some(entry.group_id).filter(|id| *id != 0);
    let profiles = profiles(entry.action_profile_id, p4info, true);
    profiles.into_iter().map(|profile| Query::ProfileGroups { profile, id }).collect()
}

/// One profile, or all that the program uses.
fn profiles(id: u32, p4info: &P4Info, with_selector: bool) -> Vec<u32> {
    if id != 0 {
        return vec![id];
    }
    let profiles = p4info.message().action_profiles.iter();
    let used = profiles.filter(|one| !one.table_ids.is_empty() && (one.with_selector || !with_selector));
    used.filter_map(|one| Some(one.preamble.as_ref()?.id)).collect()
}

/// A member as an entity.
pub(in crate::server) fn member_entity(member: ProfileMember) -> Entity {
    let entry = message::ActionProfileMember {
        action_profile_id: member.profile_id,
        member_id: member.member_id,
        action: Some(convert::call_message(member.action)),
    };
    Entity { entity: Some(Kind::ActionProfileMember(entry)) }
}

/// A group as an entity.
pub(in crate::server) fn group_entity(group: &ProfileGroup) -> Entity {
    let member = |member: &GroupMember| Member {
        member_id: member.member_id,
        weight: member.weight.cast_signed(),
        watch_kind: match member.watch {
            Watch::Nothing => None,
            Watch::Port(port) => Some(MemberWatchKind::WatchPort(canonical::encode(port.into()))),
            Watch::PortNumber(port) => Some(MemberWatchKind::Watch(port.into())),
        },
    };
    let entry = message::ActionProfileGroup {
        action_profile_id: group.profile_id,
        group_id: group.group_id,
        members: group.members.iter().map(member).collect(),
        max_size: group.max_size.cast_signed(),
    };
    Entity { entity: Some(Kind::ActionProfileGroup(entry)) }
}

/// A set of actions as a message.
pub(in crate::server) fn one_shot_message(calls: Vec<WeightedCall>) -> message::ActionProfileActionSet {
    let action = |one: WeightedCall| message::ActionProfileAction {
        action: Some(convert::call_message(one.call)),
        weight: one.weight.cast_signed(),
        watch_kind: match one.watch {
            Watch::Nothing => None,
            Watch::Port(port) => Some(WatchKind::WatchPort(canonical::encode(port.into()))),
            Watch::PortNumber(port) => Some(WatchKind::Watch(port.into())),
        },
    };
    message::ActionProfileActionSet {
        action_profile_actions: calls.into_iter().map(action).collect(),
        ..Default::default()
    }
}
