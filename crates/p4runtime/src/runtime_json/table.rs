//! The table entries of a file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Entry, RuntimeJsonError, keys, value, wrong};
use crate::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use crate::p4::v1::{self as message, FieldMatch, action::Param, entity, table_action, update};
use crate::p4info::{Action, MatchField, MatchType, P4Info, Table};

/// The largest number of names that an error lists.
const MOST_NAMES: usize = 20;

/// The keys of an entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    table: String,
    #[serde(default)]
    r#match: BTreeMap<String, Value>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    default_action: bool,
    action_name: String,
    #[serde(default)]
    action_params: BTreeMap<String, Value>,
}

/// Converts an entry or a default action of a table to an update.
pub(super) fn entry(place: &str, value: &Value, p4info: &P4Info) -> Result<Entry, RuntimeJsonError> {
    let keys: Keys = keys(place, value)?;
    let place = format!("{place} ({})", keys.table);
    match message(&keys, p4info) {
        Ok(entry) => {
            let kind = if keys.default_action { update::Type::Modify } else { update::Type::Insert };
            Ok(Entry { update: super::update(kind, entity::Entity::TableEntry(entry)), place })
        }
        Err(problem) => Err(wrong(&place, problem)),
    }
}

fn message(keys: &Keys, p4info: &P4Info) -> Result<message::TableEntry, String> {
    let table = p4info.table(&keys.table).ok_or_else(|| {
        let tables = names(p4info.tables().map(|table| &*table.name.full));
        format!("the program has no such table: its tables are {tables}")
    })?;
    if keys.default_action && !keys.r#match.is_empty() {
        return Err("a default action has no match fields".to_owned());
    }
    let r#match = if keys.default_action { Vec::new() } else { key(table, &keys.r#match)? };
    if table.needs_priority() && !keys.default_action && keys.priority <= 0 {
        return Err("\"priority\" is needed, from 1 on: entries of this table can overlap".to_owned());
    }
    let action = action(table, &keys.action_name, &keys.action_params, p4info)?;
    Ok(message::TableEntry {
        table_id: table.name.id,
        r#match,
        action: Some(message::TableAction { r#type: Some(table_action::Type::Action(action)) }),
        priority: keys.priority,
        is_default_action: keys.default_action,
        ..Default::default()
    })
}

fn key(table: &Table, given: &BTreeMap<String, Value>) -> Result<Vec<FieldMatch>, String> {
    if let Some(unknown) = given.keys().find(|name| table.field(name).is_none()) {
        let fields = table.key.iter().map(described).collect::<Vec<_>>();
        let fields = names(fields.iter().map(String::as_str));
        return Err(format!("match field {unknown}: the table has no such field, but {fields}"));
    }
    let mut matches = Vec::new();
    for field in &table.key {
        let failed = |problem| format!("match field {}: {problem}", described(field));
        match given.get(&field.name) {
            Some(value) => matches.extend(field_match(field, value).map_err(failed)?),
            None if field.kind == MatchType::Exact => return Err(failed("it is missing".to_owned())),
            None => {}
        }
    }
    Ok(matches)
}

/// Returns the match of a field; `None` if it matches every value, because P4Runtime omits such a
/// field.
fn field_match(field: &MatchField, value: &Value) -> Result<Option<FieldMatch>, String> {
    let width = field.width;
    let kind = match field.kind {
        MatchType::Exact => FieldMatchType::Exact(Exact { value: value::bytes(value, width)? }),
        MatchType::Optional => FieldMatchType::Optional(Optional { value: value::bytes(value, width)? }),
        MatchType::Lpm => {
            let [value, length] = pair(value, "[value, prefix length], such as [\"10.0.1.0\", 24],")?;
            let value = value::bytes(value, width)?;
            let prefix_len = length.as_u64().and_then(|length| u32::try_from(length).ok());
            let prefix_len = prefix_len.filter(|length| *length <= width);
            let prefix_len = prefix_len.and_then(|length| i32::try_from(length).ok());
            let prefix_len =
                prefix_len.ok_or_else(|| format!("{length} is no prefix length: 0 to {width} are"))?;
            if prefix_len == 0 {
                return Ok(None);
            }
            FieldMatchType::Lpm(Lpm { value, prefix_len })
        }
        MatchType::Ternary => {
            let [value, mask] = pair(value, "[value, mask], such as [\"0x0a00\", \"0xff00\"],")?;
            let (value, mask) = (value::bytes(value, width)?, value::bytes(mask, width)?);
            if mask == [0] {
                return Ok(None);
            }
            FieldMatchType::Ternary(Ternary { value, mask })
        }
        MatchType::Range => {
            let [low, high] = pair(value, "[low, high], such as [1024, 65535],")?;
            let (low, high) = (value::bytes(low, width)?, value::bytes(high, width)?);
            if low == [0] && is_all_ones(&high, width) {
                return Ok(None);
            }
            FieldMatchType::Range(Range { low, high })
        }
        MatchType::Unspecified => return Err("its match kind is not known here".to_owned()),
    };
    Ok(Some(FieldMatch { field_id: field.id, field_match_type: Some(kind) }))
}

fn pair<'a>(value: &'a Value, needed: &str) -> Result<[&'a Value; 2], String> {
    match value.as_array().map(Vec::as_slice) {
        Some([first, second]) => Ok([first, second]),
        _ => Err(format!("{value} is not possible: {needed} is needed")),
    }
}

/// Returns true if canonical bytes are the largest value of this width.
fn is_all_ones(bytes: &[u8], width: u32) -> bool {
    bytes.iter().map(|byte| byte.count_ones()).sum::<u32>() == width
}

fn action(
    table: &Table,
    name: &str,
    given: &BTreeMap<String, Value>,
    p4info: &P4Info,
) -> Result<message::Action, String> {
    let of_table = |action: &&Action| table.actions.iter().any(|one| one.id == action.name.id);
    let action = p4info.action(name).filter(of_table).ok_or_else(|| {
        let actions = names(p4info.actions().filter(of_table).map(|action| &*action.name.full));
        format!("action {name}: the table has no such action, but {actions}")
    })?;
    if let Some(unknown) = given.keys().find(|name| action.parameters.iter().all(|one| one.name != **name)) {
        let parameters = names(action.parameters.iter().map(|parameter| &*parameter.name));
        return Err(format!("action {name}: it has no parameter {unknown}, but {parameters}"));
    }
    let mut params = Vec::new();
    for parameter in &action.parameters {
        let failed = |problem| {
            format!("action {name}, parameter {} (bit<{}>): {problem}", parameter.name, parameter.width)
        };
        let value = given.get(&parameter.name).ok_or_else(|| failed("it is missing".to_owned()))?;
        let value = value::bytes(value, parameter.width).map_err(failed)?;
        params.push(Param { param_id: parameter.id, value });
    }
    Ok(message::Action { action_id: action.name.id, params })
}

/// Describes a field and the values that it can have, for errors.
fn described(field: &MatchField) -> String {
    let kind = field.kind.as_str_name().to_lowercase();
    format!("{} ({kind}, bit<{}>)", field.name, field.width)
}

/// Joins names for a sentence.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.collect::<Vec<_>>();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}
