//! Conversion of a table entry's key between names and messages.

use std::collections::BTreeMap;

use super::{EntryError, Match};
use crate::canonical;
use crate::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use crate::p4::v1::{self as message, FieldMatch};
use crate::p4info::{MatchField, MatchType, Table};

pub(super) fn encode(table: &Table, key: &BTreeMap<String, Match>) -> Result<Vec<FieldMatch>, EntryError> {
    if let Some(unknown) = key.keys().find(|name| table.field(name).is_none()) {
        return Err(EntryError::UnknownField { place: table.name.alias.clone(), field: unknown.clone() });
    }
    let mut matches = Vec::with_capacity(key.len());
    for field in &table.key {
        match key.get(&field.name) {
            Some(pattern) => matches.push(encode_field(KeyField { table, field }, *pattern)?),
            None if field.kind == MatchType::Exact => return Err(KeyField { table, field }.missing()),
            None => (),
        }
    }
    Ok(matches)
}

pub(super) fn decode(
    table: &Table,
    entry: &message::TableEntry,
) -> Result<BTreeMap<String, Match>, EntryError> {
    let place = || table.name.alias.clone();
    let mut key = BTreeMap::new();
    for one in &entry.r#match {
        let field = table.field_by_id(one.field_id).ok_or_else(|| EntryError::UnknownField {
            place: place(),
            field: format!("#{}", one.field_id),
        })?;
        let pattern = decode_field(KeyField { table, field }, one)?;
        if key.insert(field.name.clone(), pattern).is_some() {
            return Err(EntryError::Repeated { place: place(), field: field.name.clone() });
        }
    }
    let exact = |field: &&MatchField| field.kind == MatchType::Exact && !key.contains_key(&field.name);
    match table.key.iter().find(exact) {
        Some(field) if !entry.is_default_action => Err(KeyField { table, field }.missing()),
        _ => Ok(key),
    }
}

/// The field of a key to which a value belongs, for checks and errors.
#[derive(Clone, Copy)]
struct KeyField<'a> {
    table: &'a Table,
    field: &'a MatchField,
}

impl KeyField<'_> {
    fn missing(self) -> EntryError {
        EntryError::MissingField { place: self.table.name.alias.clone(), field: self.field.name.clone() }
    }

    fn wrong_kind(self, given: &'static str) -> EntryError {
        let (place, field) = (self.table.name.alias.clone(), self.field.name.clone());
        EntryError::MatchKind { place, field, expected: self.field.kind, given }
    }

    fn pattern(self, reason: &'static str) -> EntryError {
        EntryError::Pattern { place: self.table.name.alias.clone(), field: self.field.name.clone(), reason }
    }

    fn bytes(self, value: u128) -> Result<Vec<u8>, EntryError> {
        canonical::encode_within(value, self.field.width).map_err(|reason| self.value(reason))
    }

    fn number(self, bytes: &[u8]) -> Result<u128, EntryError> {
        canonical::decode(bytes, self.field.width).map_err(|reason| self.value(reason))
    }

    fn value(self, reason: canonical::ByteStringError) -> EntryError {
        EntryError::Value { place: self.table.name.alias.clone(), field: self.field.name.clone(), reason }
    }

    /// Checks that the pattern has the field's kind of match, is consistent, and does not match
    /// every value.
    fn check(self, pattern: Match) -> Result<(), EntryError> {
        let width = self.field.width;
        let (kind, given) = match pattern {
            Match::Exact(_) => (MatchType::Exact, "exactly"),
            Match::Lpm { .. } => (MatchType::Lpm, "a prefix"),
            Match::Ternary { .. } => (MatchType::Ternary, "under a mask"),
            Match::Range { .. } => (MatchType::Range, "a range"),
            Match::Optional(_) => (MatchType::Optional, "optionally"),
        };
        if kind != self.field.kind {
            return Err(self.wrong_kind(given));
        }
        let reason = match pattern {
            Match::Lpm { prefix: 0, .. } => "a prefix of 0 bits matches anything: leave the field out",
            Match::Lpm { prefix, .. } if prefix > width => "the prefix is longer than the field",
            Match::Lpm { value, prefix } if value & below(width - prefix) != 0 => {
                "the value has bits below its prefix"
            }
            Match::Ternary { mask: 0, .. } => "an empty mask matches anything: leave the field out",
            Match::Ternary { value, mask } if value & !mask != 0 => "the value has bits outside of its mask",
            Match::Range { low, high } if low > high => "the range ends before it starts",
            Match::Range { low: 0, high } if high == canonical::all_ones(width) => {
                "the range matches anything: leave the field out"
            }
            _ => return Ok(()),
        };
        Err(self.pattern(reason))
    }
}

/// Returns a number whose lowest `bits` bits are set.
fn below(bits: u32) -> u128 {
    canonical::all_ones(bits)
}

fn encode_field(place: KeyField<'_>, pattern: Match) -> Result<FieldMatch, EntryError> {
    place.check(pattern)?;
    let kind = match pattern {
        Match::Exact(value) => FieldMatchType::Exact(Exact { value: place.bytes(value)? }),
        Match::Optional(value) => FieldMatchType::Optional(Optional { value: place.bytes(value)? }),
        Match::Lpm { value, prefix } => FieldMatchType::Lpm(Lpm {
            value: place.bytes(value)?,
            prefix_len: i32::try_from(prefix)
                .map_err(|_| place.pattern("the prefix is longer than the field"))?,
        }),
        Match::Ternary { value, mask } => {
            FieldMatchType::Ternary(Ternary { value: place.bytes(value)?, mask: place.bytes(mask)? })
        }
        Match::Range { low, high } => {
            FieldMatchType::Range(Range { low: place.bytes(low)?, high: place.bytes(high)? })
        }
    };
    Ok(FieldMatch { field_id: place.field.id, field_match_type: Some(kind) })
}

fn decode_field(place: KeyField<'_>, message: &FieldMatch) -> Result<Match, EntryError> {
    let pattern = match message.field_match_type.as_ref() {
        Some(FieldMatchType::Exact(one)) => Match::Exact(place.number(&one.value)?),
        Some(FieldMatchType::Optional(one)) => Match::Optional(place.number(&one.value)?),
        Some(FieldMatchType::Lpm(one)) => Match::Lpm {
            value: place.number(&one.value)?,
            prefix: u32::try_from(one.prefix_len).map_err(|_| place.pattern("the prefix is negative"))?,
        },
        Some(FieldMatchType::Ternary(one)) => {
            Match::Ternary { value: place.number(&one.value)?, mask: place.number(&one.mask)? }
        }
        Some(FieldMatchType::Range(one)) => {
            Match::Range { low: place.number(&one.low)?, high: place.number(&one.high)? }
        }
        Some(FieldMatchType::Other(_)) => return Err(place.wrong_kind("in an architecture's own way")),
        None => return Err(place.missing()),
    };
    place.check(pattern)?;
    Ok(pattern)
}
