//! Converts between P4Runtime's messages and the types of the switch's control plane.

use tributary_p4runtime::entry::{LAST_GROUP, MulticastGroup as NamedGroup};
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1::p4_ids::Prefix;
use tributary_p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::{self as message, action::Param, table_action};
use tributary_p4runtime::p4info::Table;

use super::status::Refusal;
use crate::control::{
    ActionCall, CounterValue, EntryKey, FieldMatch, KeyMatch, MulticastGroup, Replica, TableEntry,
};

/// The key of an entry; the switch checks it against the table.
pub(super) fn key(
    table_id: u32,
    matches: Vec<message::FieldMatch>,
    priority: i32,
) -> Result<EntryKey, Refusal> {
    let matches = matches.into_iter().map(field_match).collect::<Result<_, _>>()?;
    Ok(EntryKey { table_id, matches, priority })
}

fn field_match(message: message::FieldMatch) -> Result<FieldMatch, Refusal> {
    let field_id = message.field_id;
    let key = match message.field_match_type {
        Some(FieldMatchType::Exact(one)) => KeyMatch::Exact(one.value),
        Some(FieldMatchType::Ternary(one)) => KeyMatch::Ternary { value: one.value, mask: one.mask },
        Some(FieldMatchType::Lpm(one)) => {
            let prefix_len = u32::try_from(one.prefix_len)
                .map_err(|_| Refusal::invalid(format!("match field {field_id}: a negative prefix length")))?;
            KeyMatch::Lpm { value: one.value, prefix_len }
        }
        Some(FieldMatchType::Range(one)) => KeyMatch::Range { low: one.low, high: one.high },
        Some(FieldMatchType::Optional(one)) => KeyMatch::Optional(one.value),
        Some(FieldMatchType::Other(_)) => {
            return Err(Refusal::unimplemented("a match of an architecture's own kind"));
        }
        None => return Err(Refusal::invalid(format!("match field {field_id} has no value"))),
    };
    Ok(FieldMatch { field_id, key })
}

/// The action of an entry, if it has one.
pub(super) fn action(message: Option<message::TableAction>) -> Result<Option<ActionCall>, Refusal> {
    match message.and_then(|action| action.r#type) {
        None => Ok(None),
        Some(table_action::Type::Action(call)) => {
            let params = call.params.into_iter().map(|param| (param.param_id, param.value)).collect();
            Ok(Some(ActionCall { action_id: call.action_id, params }))
        }
        Some(_) => Err(Refusal::unimplemented("an action profile")),
    }
}

/// An entry as a message, without its counter.
pub(super) fn entry_message(entry: TableEntry) -> message::TableEntry {
    let (controller_metadata, metadata) = read_note(&entry.metadata);
    message::TableEntry {
        table_id: entry.key.table_id,
        r#match: entry.key.matches.into_iter().map(match_message).collect(),
        action: Some(action_message(entry.action)),
        priority: entry.key.priority,
        controller_metadata,
        metadata: metadata.to_vec(),
        ..Default::default()
    }
}

fn match_message(field: FieldMatch) -> message::FieldMatch {
    let kind = match field.key {
        KeyMatch::Exact(value) => FieldMatchType::Exact(Exact { value }),
        KeyMatch::Ternary { value, mask } => FieldMatchType::Ternary(Ternary { value, mask }),
        KeyMatch::Lpm { value, prefix_len } => {
            FieldMatchType::Lpm(Lpm { value, prefix_len: i32::try_from(prefix_len).unwrap_or(i32::MAX) })
        }
        KeyMatch::Range { low, high } => FieldMatchType::Range(Range { low, high }),
        KeyMatch::Optional(value) => FieldMatchType::Optional(Optional { value }),
    };
    message::FieldMatch { field_id: field.field_id, field_match_type: Some(kind) }
}

pub(super) fn action_message(call: ActionCall) -> message::TableAction {
    let params = call.params.into_iter().map(|(param_id, value)| Param { param_id, value }).collect();
    let action = message::Action { action_id: call.action_id, params };
    message::TableAction { r#type: Some(table_action::Type::Action(action)) }
}

/// The data that the controller wants back with an entry. P4Runtime has two fields for it, the switch one: eight bytes
/// for the older field, then the newer one; empty where both are unset.
pub(super) fn note(entry: &message::TableEntry) -> Vec<u8> {
    if entry.controller_metadata == 0 && entry.metadata.is_empty() {
        return Vec::new();
    }
    [&entry.controller_metadata.to_be_bytes()[..], &entry.metadata].concat()
}

/// `controller_metadata` and `metadata` out of a note.
pub(super) fn read_note(note: &[u8]) -> (u64, &[u8]) {
    match note.split_first_chunk() {
        Some((older, newer)) => (u64::from_be_bytes(*older), newer),
        None => (0, &[]),
    }
}

/// The id of a table's direct counter, if it has one.
pub(super) fn direct_counter(table: &Table) -> Option<u32> {
    let is_counter = |id: &u32| id >> 24 == Prefix::DirectCounter as u32;
    table.direct_resources.iter().copied().find(is_counter)
}

pub(super) fn counter_value(data: &message::CounterData) -> CounterValue {
    CounterValue { packets: data.packet_count.cast_unsigned(), bytes: data.byte_count.cast_unsigned() }
}

pub(super) fn counter_data(value: CounterValue) -> message::CounterData {
    message::CounterData { byte_count: value.bytes.cast_signed(), packet_count: value.packets.cast_signed() }
}

/// The index of a cell; `None`: all cells.
pub(super) fn index(message: Option<&message::Index>) -> Result<Option<i64>, Refusal> {
    match message.map(|index| index.index) {
        Some(index) if index < 0 => Err(Refusal::invalid(format!("{index} is no index: indices start at 0"))),
        index => Ok(index),
    }
}

/// A multicast group id that a controller may use.
pub(super) fn group_id(id: u32) -> Result<u16, Refusal> {
    match u16::try_from(id) {
        Ok(0) => Err(Refusal::invalid("0 is no multicast group id")),
        Ok(small) if id <= LAST_GROUP => Ok(small),
        _ => Err(Refusal::new(
            Code::OutOfRange,
            format!("multicast group ids end at {LAST_GROUP}, not at {id}"),
        )),
    }
}

/// The replicas of a group, each once.
pub(super) fn group(id: u16, message: &message::MulticastGroupEntry) -> Result<MulticastGroup, Refusal> {
    if message.replicas.iter().any(|replica| !replica.backup_replicas.is_empty()) {
        return Err(Refusal::unimplemented("a backup replica"));
    }
    let named = NamedGroup::from_proto(message).map_err(|error| Refusal::invalid(error.to_string()))?;
    let number = |what: &str, value: u32| {
        u16::try_from(value)
            .map_err(|_| Refusal::invalid(format!("multicast group {id}: there is no {what} {value}")))
    };
    let replica = |one: tributary_p4runtime::entry::Replica| {
        Ok(Replica { port: number("port", one.port)?, instance: number("instance", one.instance)? })
    };
    Ok(MulticastGroup {
        id,
        replicas: named.replicas.into_iter().map(replica).collect::<Result<_, Refusal>>()?,
    })
}

pub(super) fn group_message(group: &MulticastGroup) -> message::MulticastGroupEntry {
    let replicas = group.replicas.iter().map(|replica| message::Replica {
        instance: replica.instance.into(),
        port_kind: Some(PortKind::EgressPort(replica.port.into())),
        backup_replicas: Vec::new(),
    });
    message::MulticastGroupEntry {
        multicast_group_id: group.id.into(),
        replicas: replicas.collect(),
        metadata: Vec::new(),
    }
}
