//! Action calls and packet headers' fields, converted between names and messages.

use std::collections::BTreeMap;

use super::table::check_scope;
use super::{ActionCall, EntryError};
use crate::canonical;
use crate::p4::v1::{self as message, action::Param};
use crate::p4info::{Field, P4Info, Table};

pub(super) fn encode(
    p4info: &P4Info,
    table: &Table,
    call: &ActionCall,
    default: bool,
) -> Result<message::Action, EntryError> {
    let action = p4info
        .action(&call.name)
        .ok_or_else(|| EntryError::UnknownName { kind: "action", name: call.name.clone() })?;
    check_scope(table, &action.name.alias, action.name.id, default)?;
    let values = encode_fields(&action.name.alias, &action.parameters, &call.parameters)?;
    let params = values.into_iter().map(|(param_id, value)| Param { param_id, value }).collect();
    Ok(message::Action { action_id: action.name.id, params })
}

pub(super) fn decode(
    p4info: &P4Info,
    table: &Table,
    call: &message::Action,
    default: bool,
) -> Result<ActionCall, EntryError> {
    let action = p4info
        .action_by_id(call.action_id)
        .ok_or(EntryError::UnknownId { kind: "action", id: call.action_id })?;
    check_scope(table, &action.name.alias, action.name.id, default)?;
    let values = call.params.iter().map(|param| (param.param_id, param.value.as_slice()));
    let parameters = decode_fields(&action.name.alias, &action.parameters, values)?;
    Ok(ActionCall { name: action.name.alias.clone(), parameters })
}

/// Ids and bytes of named values: each field exactly once, and no others.
pub(super) fn encode_fields(
    place: &str,
    fields: &[Field],
    values: &BTreeMap<String, u128>,
) -> Result<Vec<(u32, Vec<u8>)>, EntryError> {
    if let Some(unknown) = values.keys().find(|name| fields.iter().all(|field| field.name != **name)) {
        return Err(EntryError::UnknownField { place: place.to_owned(), field: unknown.clone() });
    }
    fields
        .iter()
        .map(|field| {
            let value = values.get(&field.name).ok_or_else(|| missing(place, field))?;
            let bytes = canonical::encode_within(*value, field.width)
                .map_err(|reason| wrong(place, field, reason))?;
            Ok((field.id, bytes))
        })
        .collect()
}

/// Names and numbers of received values: each field exactly once, and no others.
pub(super) fn decode_fields<'a>(
    place: &str,
    fields: &[Field],
    values: impl Iterator<Item = (u32, &'a [u8])>,
) -> Result<BTreeMap<String, u128>, EntryError> {
    let mut named = BTreeMap::new();
    for (id, bytes) in values {
        let field = fields
            .iter()
            .find(|field| field.id == id)
            .ok_or_else(|| EntryError::UnknownField { place: place.to_owned(), field: format!("#{id}") })?;
        let value = canonical::decode(bytes, field.width).map_err(|reason| wrong(place, field, reason))?;
        if named.insert(field.name.clone(), value).is_some() {
            return Err(EntryError::Repeated { place: place.to_owned(), field: field.name.clone() });
        }
    }
    match fields.iter().find(|field| !named.contains_key(&field.name)) {
        Some(field) => Err(missing(place, field)),
        None => Ok(named),
    }
}

fn missing(place: &str, field: &Field) -> EntryError {
    EntryError::MissingField { place: place.to_owned(), field: field.name.clone() }
}

fn wrong(place: &str, field: &Field, reason: canonical::ByteStringError) -> EntryError {
    EntryError::Value { place: place.to_owned(), field: field.name.clone(), reason }
}
