//! Converts between P4Runtime's messages and the types of the switch's control plane.

mod action;
mod resources;

use std::time::Duration;

use tributary_p4runtime::p4::config::v1::p4_ids::Prefix;
use tributary_p4runtime::p4::v1 as message;
use tributary_p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use tributary_p4runtime::p4info::Table;

pub(super) use action::{action, action_message, call, call_message, watched, watched_number, weight};
pub(super) use resources::{
    clears_colours, colours_message, counter_data, counter_value, meter_config, meter_config_message,
};

use super::status::Refusal;
use crate::control::{EntryKey, EntryRef, FieldMatch, KeyMatch, TableEntry};

/// Converts the key of an entry. The switch checks the key against the table.
pub(super) fn key(
    table_id: u32,
    matches: Vec<message::FieldMatch>,
    priority: i32,
) -> Result<EntryKey, Refusal> {
    Ok(EntryKey { table_id, matches: self::matches(matches)?, priority })
}

/// Converts the entry, or default entry, that owns a counter or meter.
pub(super) fn entry_ref(entry: message::TableEntry) -> Result<EntryRef, Refusal> {
    if !entry.is_default_action {
        return Ok(EntryRef::Entry(key(entry.table_id, entry.r#match, entry.priority)?));
    }
    check_default_key(&entry)?;
    Ok(EntryRef::Default(entry.table_id))
}

/// Checks that a table's default entry has no key.
pub(super) fn check_default_key(entry: &message::TableEntry) -> Result<(), Refusal> {
    if entry.r#match.is_empty() && entry.priority == 0 {
        return Ok(());
    }
    Err(Refusal::invalid("a default action has no match fields and no priority"))
}

/// Converts the match fields of an entry or of a value set's member.
pub(super) fn matches(messages: Vec<message::FieldMatch>) -> Result<Vec<FieldMatch>, Refusal> {
    messages.into_iter().map(field_match).collect()
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

/// Converts an entry to a message, without its counter.
pub(super) fn entry_message(entry: TableEntry) -> message::TableEntry {
    let (controller_metadata, metadata) = read_note(&entry.metadata);
    message::TableEntry {
        table_id: entry.key.table_id,
        r#match: entry.key.matches.into_iter().map(match_message).collect(),
        action: Some(action_message(entry.action)),
        priority: entry.key.priority,
        controller_metadata,
        metadata: metadata.to_vec(),
        idle_timeout_ns: nanoseconds(entry.idle_timeout),
        ..Default::default()
    }
}

pub(super) fn match_message(field: FieldMatch) -> message::FieldMatch {
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

/// Converts an idle timeout; 0 means no timeout.
pub(super) fn timeout(nanoseconds: i64) -> Result<Duration, Refusal> {
    let nanoseconds = u64::try_from(nanoseconds)
        .map_err(|_| Refusal::invalid("an entry's idle_timeout_ns can't be negative"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Converts a time to the nanoseconds of a message.
pub(super) fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the controller's own data of an entry, which the switch returns unchanged.
///
/// P4Runtime has two fields for it, and the switch has one. It has eight bytes for the older field,
/// followed by the newer field. It is empty if both are unset.
pub(super) fn note(entry: &message::TableEntry) -> Vec<u8> {
    if entry.controller_metadata == 0 && entry.metadata.is_empty() {
        return Vec::new();
    }
    [&entry.controller_metadata.to_be_bytes()[..], &entry.metadata].concat()
}

/// Splits the controller's own data into `controller_metadata` and `metadata`.
pub(super) fn read_note(note: &[u8]) -> (u64, &[u8]) {
    match note.split_first_chunk() {
        Some((older, newer)) => (u64::from_be_bytes(*older), newer),
        None => (0, &[]),
    }
}

/// Returns true if a table's entries have meters.
pub(super) fn has_direct_meter(table: &Table) -> bool {
    table.direct_resources.iter().any(|id| id >> 24 == Prefix::DirectMeter as u32)
}

/// Returns the id of a table's direct counter, if the table has one.
pub(super) fn direct_counter(table: &Table) -> Option<u32> {
    let is_counter = |id: &u32| id >> 24 == Prefix::DirectCounter as u32;
    table.direct_resources.iter().copied().find(is_counter)
}

/// Converts the index of a cell; `None` means all cells.
pub(super) fn index(message: Option<&message::Index>) -> Result<Option<i64>, Refusal> {
    match message.map(|index| index.index) {
        Some(index) if index < 0 => Err(Refusal::invalid(format!("{index} is no index: indices start at 0"))),
        index => Ok(index),
    }
}
