//! Conversion of action calls and packet header fields between names and messages.

use std::collections::BTreeMap;
use std::fmt;

use super::EntryError;
use crate::canonical;
use crate::p4::v1::{self as message, action::Param};
use crate::p4info::{Field, P4Info, Scope, Table};

/// An action with a value for each of its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionCall {
    /// The action's alias.
    pub name: String,
    /// Values by parameter name.
    pub parameters: BTreeMap<String, u128>,
}

impl ActionCall {
    /// Creates a call of an action without parameters.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), parameters: BTreeMap::new() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, parameter: &str, value: impl Into<u128>) -> Self {
        self.parameters.insert(parameter.to_owned(), value.into());
        self
    }
}

impl fmt::Display for ActionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters: Vec<_> =
            self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        write!(f, "{}({})", self.name, parameters.join(", "))
    }
}

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

/// Converts named values to ids and bytes. The values must have each of the `fields` exactly once.
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

/// Converts received ids and bytes to named values. The values must have each of the `fields`
/// exactly once.
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

/// Checks that a table may use an action in its entries, or as its default if `default` is true.
fn check_scope(table: &Table, action: &str, id: u32, default: bool) -> Result<(), EntryError> {
    let scope = table.actions.iter().find(|one| one.id == id).map(|one| one.scope);
    let reason = match (scope, default) {
        (None, _) => "at all",
        (Some(Scope::TableOnly), true) => "as its default",
        (Some(Scope::DefaultOnly), false) => "in an entry: it is for the default only",
        (Some(Scope::GroupAction), _) => "outside of an action profile group",
        _ => return Ok(()),
    };
    Err(EntryError::Action { place: table.name.alias.clone(), action: action.to_owned(), reason })
}
