//! Updates of a Write, from messages to operations of the switch.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use tributary_p4runtime::p4::v1::{self as message, update};
use tributary_p4runtime::p4info::Scope;

use super::convert;
use super::status::Refusal;
use crate::control::{ActionCall, CounterValue, EntryKey, MulticastGroup, TableEntry};
use crate::error::ControlError;
use crate::switch::Switch;

/// One update, ready to be carried out on the switch's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Insert(TableEntry, Option<CounterValue>),
    Modify(TableEntry, Option<CounterValue>),
    Delete(EntryKey),
    SetDefault { table_id: u32, action: Option<ActionCall> },
    SetCounter { counter_id: u32, index: Option<i64>, value: CounterValue },
    SetDirectCounter(EntryKey, CounterValue),
    InsertGroup(MulticastGroup),
    ModifyGroup(MulticastGroup),
    DeleteGroup(u16),
}

impl Operation {
    /// Plans an update, as far as that is possible without the switch's state.
    pub(super) fn plan(update: message::Update, p4info: &P4Info) -> Result<Self, Refusal> {
        let kind = match update.r#type() {
            update::Type::Unspecified => return Err(Refusal::invalid("the update's type is not set")),
            kind => kind,
        };
        match update.entity.and_then(|entity| entity.entity) {
            Some(Kind::TableEntry(entry)) => table(kind, entry, p4info),
            Some(Kind::CounterEntry(entry)) => counter(kind, &entry),
            Some(Kind::DirectCounterEntry(entry)) => direct_counter(kind, entry),
            Some(Kind::PacketReplicationEngineEntry(entry)) => match entry.r#type {
                Some(Replication::MulticastGroupEntry(group)) => multicast(kind, &group),
                Some(Replication::CloneSessionEntry(_)) => Err(Refusal::unimplemented("a clone session")),
                None => {
                    Err(Refusal::invalid("the replication entry is neither a multicast group nor a session"))
                }
            },
            None => {
                Err(Refusal::invalid("the update has no entity, or one of a kind that is not known here"))
            }
            Some(other) => Err(Refusal::unimplemented(entry::kind(Some(&other)))),
        }
    }

    /// Carries it out.
    pub(super) fn carry_out(self, switch: &mut Switch) -> Result<(), ControlError> {
        match self {
            Self::Insert(entry, counted) => {
                switch.insert(&entry)?;
                count(switch, &entry.key, counted)
            }
            Self::Modify(entry, counted) => {
                switch.modify(&entry)?;
                count(switch, &entry.key, counted)
            }
            Self::Delete(key) => switch.delete(&key),
            Self::SetDefault { table_id, action } => switch.set_default(table_id, action.as_ref()),
            Self::SetCounter { counter_id, index, value } => switch.set_counter(counter_id, index, value),
            Self::SetDirectCounter(key, value) => switch.set_direct_counter(&key, value),
            Self::InsertGroup(group) => switch.insert_group(&group),
            Self::ModifyGroup(group) => switch.modify_group(&group),
            Self::DeleteGroup(id) => switch.delete_group(id),
        }
    }
}

fn count(switch: &mut Switch, key: &EntryKey, counted: Option<CounterValue>) -> Result<(), ControlError> {
    counted.map_or(Ok(()), |value| switch.set_direct_counter(key, value))
}

fn table(kind: update::Type, entry: message::TableEntry, p4info: &P4Info) -> Result<Operation, Refusal> {
    check_extras(&entry, p4info)?;
    check_scope(&entry, p4info)?;
    let counted = entry.counter_data.as_ref().map(convert::counter_value);
    if entry.is_default_action {
        return default_action(kind, entry, counted);
    }
    let note = convert::note(&entry);
    let key = convert::key(entry.table_id, entry.r#match, entry.priority)?;
    if kind == update::Type::Delete {
        return Ok(Operation::Delete(key));
    }
    let action = convert::action(entry.action)?
        .ok_or_else(|| Refusal::invalid("an entry needs an action, and this one has none"))?;
    let entry = TableEntry { key, action, metadata: note };
    Ok(if kind == update::Type::Insert {
        Operation::Insert(entry, counted)
    } else {
        Operation::Modify(entry, counted)
    })
}

/// Checks what an entry says besides key and action.
fn check_extras(entry: &message::TableEntry, p4info: &P4Info) -> Result<(), Refusal> {
    let table = p4info.table_by_id(entry.table_id);
    let name = || table.map_or_else(|| format!("{:#010x}", entry.table_id), |table| table.name.alias.clone());
    if entry.time_since_last_hit.is_some() {
        return Err(Refusal::invalid("time_since_last_hit is for reads only"));
    }
    if entry.idle_timeout_ns != 0 {
        return Err(Refusal::invalid(format!("the table {} has no idle timeout", name())));
    }
    if entry.meter_config.is_some() || entry.meter_counter_data.is_some() {
        return Err(Refusal::invalid(format!("the table {} has no direct meter", name())));
    }
    let counts = table.is_some_and(|table| convert::direct_counter(table).is_some());
    if entry.counter_data.is_some() && !counts {
        return Err(Refusal::invalid(format!("the table {} has no direct counter", name())));
    }
    Ok(())
}

/// Refuses an action in the wrong place with PERMISSION_DENIED, as simple_switch_grpc does.
fn check_scope(entry: &message::TableEntry, p4info: &P4Info) -> Result<(), Refusal> {
    let call = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(message::table_action::Type::Action(call)) => call,
        _ => return Ok(()),
    };
    let Some(table) = p4info.table_by_id(entry.table_id) else { return Ok(()) };
    let reference = table.actions.iter().find(|one| one.id == call.action_id);
    let place = match (reference.map(|one| one.scope), entry.is_default_action) {
        (Some(Scope::TableOnly), true) => "as its default action",
        (Some(Scope::DefaultOnly), false) => "in its entries",
        _ => return Ok(()),
    };
    let action = p4info.action_by_id(call.action_id).map_or("this", |action| &action.name.alias);
    let reason = format!("the table {} does not allow the action {action} {place}", table.name.alias);
    Err(Refusal::new(Code::PermissionDenied, reason))
}

fn default_action(
    kind: update::Type,
    entry: message::TableEntry,
    counted: Option<CounterValue>,
) -> Result<Operation, Refusal> {
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a default action is neither inserted nor deleted: modify it"));
    }
    if !entry.r#match.is_empty() || entry.priority != 0 {
        return Err(Refusal::invalid("a default action has no match fields and no priority"));
    }
    if counted.is_some() {
        return Err(Refusal::unimplemented("setting the counter of a default action"));
    }
    if !convert::note(&entry).is_empty() {
        return Err(Refusal::unimplemented("metadata of a default action"));
    }
    Ok(Operation::SetDefault { table_id: entry.table_id, action: convert::action(entry.action)? })
}

fn counter(kind: update::Type, entry: &message::CounterEntry) -> Result<Operation, Refusal> {
    let value = counted(kind, entry.data.as_ref())?;
    let index = convert::index(entry.index.as_ref())?;
    Ok(Operation::SetCounter { counter_id: entry.counter_id, index, value })
}

fn direct_counter(kind: update::Type, entry: message::DirectCounterEntry) -> Result<Operation, Refusal> {
    let value = counted(kind, entry.data.as_ref())?;
    let table =
        entry.table_entry.ok_or_else(|| Refusal::invalid("the direct counter names no table entry"))?;
    if table.is_default_action {
        return Err(Refusal::unimplemented("setting the counter of a default action"));
    }
    Ok(Operation::SetDirectCounter(convert::key(table.table_id, table.r#match, table.priority)?, value))
}

/// The value that an update gives a counter. As with simple_switch_grpc, MODIFY sets it, DELETE clears it, and INSERT
/// is an error.
fn counted(kind: update::Type, data: Option<&message::CounterData>) -> Result<CounterValue, Refusal> {
    match kind {
        update::Type::Insert => Err(Refusal::invalid("a counter can't be inserted: modify it")),
        update::Type::Delete => Ok(CounterValue::default()),
        _ => Ok(data.map(convert::counter_value).unwrap_or_default()),
    }
}

fn multicast(kind: update::Type, entry: &message::MulticastGroupEntry) -> Result<Operation, Refusal> {
    let id = convert::group_id(entry.multicast_group_id)?;
    if kind == update::Type::Delete {
        return Ok(Operation::DeleteGroup(id));
    }
    if !entry.metadata.is_empty() {
        return Err(Refusal::unimplemented("metadata of a multicast group"));
    }
    let group = convert::group(id, entry)?;
    Ok(if kind == update::Type::Insert {
        Operation::InsertGroup(group)
    } else {
        Operation::ModifyGroup(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our program restricts no action to entries or defaults; this one does.
    const INFO: &str = r#"
        tables {
          preamble { id: 0x02000001 name: "t" alias: "t" }
          match_fields { id: 1 name: "k" bitwidth: 8 match_type: EXACT }
          action_refs { id: 0x01000001 scope: TABLE_ONLY }
          action_refs { id: 0x01000002 scope: DEFAULT_ONLY }
        }
        actions { preamble { id: 0x01000001 name: "only_entries" alias: "only_entries" } }
        actions { preamble { id: 0x01000002 name: "only_default" alias: "only_default" } }"#;

    fn planned(action_id: u32, is_default_action: bool) -> Result<Operation, Refusal> {
        let action = message::Action { action_id, params: Vec::new() };
        let entry = message::TableEntry {
            table_id: 0x0200_0001,
            action: Some(message::TableAction { r#type: Some(message::table_action::Type::Action(action)) }),
            is_default_action,
            ..Default::default()
        };
        let entity = message::Entity { entity: Some(Kind::TableEntry(entry)) };
        let update = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity) };
        Operation::plan(update, &P4Info::parse(INFO).unwrap())
    }

    #[test]
    fn an_action_in_the_wrong_place_is_denied_by_name() {
        let in_entry = planned(0x0100_0002, false).unwrap_err();
        assert_eq!(in_entry.code, Code::PermissionDenied);
        assert_eq!(in_entry.reason, "the table t does not allow the action only_default in its entries");
        let as_default = planned(0x0100_0001, true).unwrap_err();
        assert_eq!(as_default.code, Code::PermissionDenied);
        assert!(as_default.reason.ends_with("only_entries as its default action"), "{}", as_default.reason);
        assert!(planned(0x0100_0001, false).is_ok() && planned(0x0100_0002, true).is_ok());
    }
}
