//! Converts actions of entries, and of the members of action profiles.

use tributary_p4runtime::canonical;
use tributary_p4runtime::p4::v1::action_profile_action::WatchKind;
use tributary_p4runtime::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use tributary_p4runtime::p4::v1::{self as message, action::Param, table_action};

use crate::control::{ActionCall, EntryAction, Watch, WeightedCall};
use crate::program::DROP_PORT;
use crate::server::status::Refusal;

/// Converts the action of an entry, if the message has one.
pub(in crate::server) fn action(
    message: Option<message::TableAction>,
) -> Result<Option<EntryAction>, Refusal> {
    Ok(match message.and_then(|action| action.r#type) {
        None => None,
        Some(table_action::Type::Action(action)) => Some(EntryAction::Call(call(action))),
        Some(table_action::Type::ActionProfileMemberId(id)) => Some(EntryAction::Member(id)),
        Some(table_action::Type::ActionProfileGroupId(id)) => Some(EntryAction::Group(id)),
        Some(table_action::Type::ActionProfileActionSet(set)) => Some(EntryAction::OneShot(one_shot(set)?)),
    })
}

/// Converts an action with its arguments.
pub(in crate::server) fn call(message: message::Action) -> ActionCall {
    let params = message.params.into_iter().map(|param| (param.param_id, param.value)).collect();
    ActionCall { action_id: message.action_id, params }
}

/// Converts the action of an entry to a message.
pub(in crate::server) fn action_message(action: EntryAction) -> message::TableAction {
    let kind = match action {
        EntryAction::Call(call) => table_action::Type::Action(call_message(call)),
        EntryAction::Member(id) => table_action::Type::ActionProfileMemberId(id),
        EntryAction::Group(id) => table_action::Type::ActionProfileGroupId(id),
        EntryAction::OneShot(calls) => table_action::Type::ActionProfileActionSet(one_shot_message(calls)),
    };
    message::TableAction { r#type: Some(kind) }
}

/// Converts an action with its arguments to a message.
pub(in crate::server) fn call_message(call: ActionCall) -> message::Action {
    let params = call.params.into_iter().map(|(param_id, value)| Param { param_id, value }).collect();
    message::Action { action_id: call.action_id, params }
}

/// Converts a set of actions.
fn one_shot(set: message::ActionProfileActionSet) -> Result<Vec<WeightedCall>, Refusal> {
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
    Ok(WeightedCall { call: call(action), weight: weight(message.weight)?, watch })
}

/// Converts the weight of a member or an action, which must be above 0.
pub(in crate::server) fn weight(weight: i32) -> Result<u32, Refusal> {
    u32::try_from(weight)
        .ok()
        .filter(|weight| *weight > 0)
        .ok_or_else(|| Refusal::invalid(format!("a weight has to be above 0, and this one is {weight}")))
}

/// Converts the port to watch from P4Runtime's older form, in which 0 means no port.
pub(in crate::server) fn watched_number(port: i32) -> Result<Watch, Refusal> {
    match u16::try_from(port) {
        Ok(0) => Ok(Watch::Nothing),
        Ok(port) if u64::from(port) < DROP_PORT => Ok(Watch::PortNumber(port)),
        _ => Err(Refusal::invalid(format!("there is no port {port} to watch"))),
    }
}

/// Converts the port to watch from P4Runtime's newer form, in which empty bytes mean no port.
pub(in crate::server) fn watched(port: &[u8]) -> Result<Watch, Refusal> {
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

/// Converts a set of actions to a message.
fn one_shot_message(calls: Vec<WeightedCall>) -> message::ActionProfileActionSet {
    let action = |one: WeightedCall| message::ActionProfileAction {
        action: Some(call_message(one.call)),
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
