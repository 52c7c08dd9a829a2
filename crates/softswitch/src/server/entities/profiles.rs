//! Converts action profiles between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::canonical;
use tributary_p4runtime::p4::v1::action_profile_group::{Member, member::WatchKind as MemberWatchKind};
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use crate::control::{GroupMember, Part, ProfileGroup, ProfileMember, Watch};
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::Query;
use crate::server::status::Refusal;
use crate::switch::Switch;

/// Plans an update of a member.
pub(in crate::server) fn plan_member(
    kind: update::Type,
    entry: message::ActionProfileMember,
) -> Result<Operation, Refusal> {
    let message::ActionProfileMember { action_profile_id: profile_id, member_id, action } = entry;
    if kind == update::Type::Delete {
        let delete = move |switch: &mut Switch| switch.delete_member(profile_id, member_id);
        return Ok(Operation::new(Part::Profile(profile_id), delete));
    }
    let action = action.ok_or_else(|| Refusal::invalid("a member needs an action, and this one has none"))?;
    let member = ProfileMember { profile_id, member_id, action: convert::call(action) };
    Ok(Operation::new(Part::Profile(profile_id), move |switch| match kind {
        update::Type::Insert => switch.insert_member(&member),
        _ => switch.modify_member(&member),
    }))
}

/// Plans an update of a group.
pub(in crate::server) fn plan_group(
    kind: update::Type,
    entry: &message::ActionProfileGroup,
) -> Result<Operation, Refusal> {
    let (profile_id, group_id) = (entry.action_profile_id, entry.group_id);
    if kind == update::Type::Delete {
        let delete = move |switch: &mut Switch| switch.delete_profile_group(profile_id, group_id);
        return Ok(Operation::new(Part::Profile(profile_id), delete));
    }
    let max_size = u32::try_from(entry.max_size)
        .map_err(|_| Refusal::invalid("a group's max_size can't be negative"))?;
    let members = entry.members.iter().map(group_member).collect::<Result<_, _>>()?;
    let group = ProfileGroup { profile_id, group_id, members, max_size };
    Ok(Operation::new(Part::Profile(profile_id), move |switch| match kind {
        update::Type::Insert => switch.insert_profile_group(&group),
        _ => switch.modify_profile_group(&group),
    }))
}

fn group_member(message: &Member) -> Result<GroupMember, Refusal> {
    let watch = match &message.watch_kind {
        None => Watch::Nothing,
        Some(MemberWatchKind::Watch(port)) => convert::watched_number(*port)?,
        Some(MemberWatchKind::WatchPort(port)) => convert::watched(port)?,
    };
    Ok(GroupMember { member_id: message.member_id, weight: convert::weight(message.weight)?, watch })
}

/// Plans a read of one member, of all members of a profile, or of all members.
pub(in crate::server) fn query_members(entry: &message::ActionProfileMember, p4info: &P4Info) -> Vec<Query> {
    let id = Some(entry.member_id).filter(|id| *id != 0);
    let profiles = profiles(entry.action_profile_id, p4info, false);
    profiles.into_iter().map(|profile| Query::Members { profile, id }).collect()
}

/// Plans a read of one group, of all groups of a selector, or of all groups.
pub(in crate::server) fn query_groups(entry: &message::ActionProfileGroup, p4info: &P4Info) -> Vec<Query> {
    let id = Some(entry.group_id).filter(|id| *id != 0);
    let profiles = profiles(entry.action_profile_id, p4info, true);
    profiles.into_iter().map(|profile| Query::ProfileGroups { profile, id }).collect()
}

/// Returns the ids of one profile, or of all profiles that the program uses.
fn profiles(id: u32, p4info: &P4Info, with_selector: bool) -> Vec<u32> {
    if id != 0 {
        return vec![id];
    }
    let profiles = p4info.message().action_profiles.iter();
    let used = profiles.filter(|one| !one.table_ids.is_empty() && (one.with_selector || !with_selector));
    used.filter_map(|one| Some(one.preamble.as_ref()?.id)).collect()
}

/// Returns a member as an entity.
pub(in crate::server) fn member_entity(member: ProfileMember) -> Entity {
    let entry = message::ActionProfileMember {
        action_profile_id: member.profile_id,
        member_id: member.member_id,
        action: Some(convert::call_message(member.action)),
    };
    Entity { entity: Some(Kind::ActionProfileMember(entry)) }
}

/// Returns a group as an entity.
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
