//! Tables: the fields of their keys, and the entries that the program puts into them.

use serde_json::Value;

use super::emitter::Emitter;
use super::fault::{malformed, unsupported};
use super::layout::{Layout, Storage};
use super::meter;
use crate::control::KeyMatch;
use crate::error::LoadError;
use crate::json::{self, ConstKey};
use crate::program::{
    ActionProgram, FixedEntry, Invocation, KeyField, KeySource, LIMBS, MAX_KEY_WORDS, MatchKind, Op, Pattern,
    TableProgram, limbs, lines_for,
};
use crate::translation::Translation;

/// Describes a table.
///
/// `masked` has the places of the key fields that are masked before the lookup. `actions` are the
/// table's compiled actions, in the order of the JSON.
pub(super) fn table(
    table: &json::Table,
    masked: &[Option<Storage>],
    actions: Vec<ActionProgram>,
    layout: &Layout,
    document: &json::Document,
) -> Result<TableProgram, LoadError> {
    let place = format!("table {}", table.name);
    match (table.kind.as_str(), &table.action_profile) {
        ("simple", None) | ("indirect" | "indirect_ws", Some(_)) => {}
        (kind, None) => return Err(unsupported(&place, format!("a table of type '{kind}'"))),
        (kind, Some(_)) => {
            return Err(malformed(&place, format!("a table of type '{kind}' has no action profile")));
        }
    }
    let meter = table.direct_meters.as_deref();
    let meter = meter.map(|name| meter::direct(name, document, layout, &place)).transpose()?;
    let (key, key_words) = key(table, masked, layout, &place)?;
    let default = table.default_entry.as_ref();
    let default_is_constant = default.is_some_and(|entry| entry.action_const || entry.action_entry_const);
    let default = default
        .map(|entry| invocation(table, &actions, entry.action_id, &entry.action_data, &place))
        .transpose()?;
    let fixed = fixed_entries(table, &key, key_words, &actions, &place)?;
    Ok(TableProgram {
        name: table.name.clone(),
        size: usize::try_from(table.max_size).unwrap_or(usize::MAX),
        key,
        key_words,
        actions,
        default,
        default_is_constant,
        fixed,
        counts: table.with_counters,
        profile: None,
        times_out: table.support_timeout,
        meter,
    })
}

/// Returns the header and the field that a key field comes from.
fn target<'a>(field: &'a json::TableKey, place: &str) -> Result<(&'a str, &'a str), LoadError> {
    let name = |i: usize| field.target.get(i).and_then(Value::as_str);
    name(0).zip(name(1)).ok_or_else(|| malformed(place, format!("{} is not a field", field.target)))
}

/// Emits code that masks the key fields that have a mask, and returns the places of the masked
/// values.
pub(super) fn masked_fields(
    table: &json::Table,
    layout: &Layout,
    out: &mut Emitter,
) -> Result<Vec<Option<Storage>>, LoadError> {
    let place = format!("table {}", table.name);
    let masked = |field: &json::TableKey| {
        let Some(mask) = &field.mask else { return Ok(None) };
        let mask = json::number::Number::parse(mask).filter(|mask| !mask.is_negative());
        let mask = mask.ok_or_else(|| malformed(&place, "a key field's mask is not a number"))?;
        let (header, name) = target(field, &place)?;
        let slot = layout.field(header, name, &place)?;
        Ok(Some(match slot.place {
            Storage::Word(a) => {
                let (d, b) = (out.new_word(), out.word_constant(mask.limb(0)));
                out.push(Op::And { d, a, b, cut: 0 });
                Storage::Word(d)
            }
            Storage::Lines(a) => {
                let n = lines_for(slot.bits);
                let limbs = (0..usize::from(n) * LIMBS).map(|limb| mask.limb(limb)).collect();
                let (d, b) = (out.new_lines(n), out.line_constant(limbs));
                out.push(Op::WideAnd { d, a, b, n: n as u8 });
                Storage::Lines(d)
            }
        }))
    };
    table.key.iter().map(masked).collect()
}

/// Returns the fields of the key, packed into words: fields of up to 64 bits share a word where
/// they fit.
fn key(
    table: &json::Table,
    masked: &[Option<Storage>],
    layout: &Layout,
    place: &str,
) -> Result<(Vec<KeyField>, usize), LoadError> {
    let mut fields = Vec::new();
    let (mut word, mut shift) = (0, 0);
    for (position, field) in table.key.iter().enumerate() {
        let kind = match field.match_type.as_str() {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            other => return Err(unsupported(place, format!("a key field of type '{other}'"))),
        };
        let (header, name) = target(field, place)?;
        let slot = layout.field(header, name, place)?;
        let storage = masked.get(position).copied().flatten().unwrap_or(slot.place);
        let name = field.name.clone().unwrap_or_else(|| format!("{header}.{name}"));
        let (source, words) = match storage {
            Storage::Word(source) => (KeySource::Word(source), 1),
            Storage::Lines(_) if kind == MatchKind::Range => {
                return Err(unsupported(place, format!("a range of {} bits", slot.bits)));
            }
            Storage::Lines(source) => {
                let words = slot.bits.div_ceil(64) as usize;
                (KeySource::Lines(source, words), words)
            }
        };
        // Ranges are compared as numbers, so each range needs a separate word.
        let alone = words > 1 || kind == MatchKind::Range;
        if shift > 0 && (alone || shift + slot.bits > 64) {
            (word, shift) = (word + 1, 0);
        }
        let translation = Translation::None;
        fields.push(KeyField { name, kind, bits: slot.bits, translation, source, word, shift });
        if alone {
            word += words;
        } else {
            shift += slot.bits;
        }
    }
    let words = word + usize::from(shift > 0);
    if words > MAX_KEY_WORDS {
        return Err(unsupported(place, format!("a key of more than {} bits", MAX_KEY_WORDS * 64)));
    }
    if fields.iter().filter(|field| field.kind == MatchKind::Lpm).count() > 1 {
        return Err(unsupported(place, "a key with two prefixes"));
    }
    Ok((fields, words))
}

fn invocation(
    table: &json::Table,
    actions: &[ActionProgram],
    id: u64,
    data: &[String],
    place: &str,
) -> Result<Invocation, LoadError> {
    let action = table.action_ids.iter().position(|known| *known == id);
    let action = action.ok_or_else(|| malformed(place, format!("it has no action with id {id}")))?;
    let parameters = &actions[action].parameters;
    if parameters.len() != data.len() {
        return Err(malformed(
            place,
            format!("action {} has a wrong number of arguments", actions[action].name),
        ));
    }
    let arguments = data.iter().zip(parameters).map(|(text, bits)| bytes(Some(text), *bits, place));
    Ok(Invocation { action, arguments: arguments.collect::<Result<_, _>>()? })
}

/// Reads a number as a big-endian byte string of the length for `bits` bits.
fn bytes(text: Option<&String>, bits: u32, place: &str) -> Result<Vec<u8>, LoadError> {
    let text = text.map(String::as_str).unwrap_or_default();
    let number = json::number::Number::parse(text).filter(|number| !number.is_negative());
    let number = number.filter(|number| number.bits() <= bits);
    let number = number.ok_or_else(|| malformed(place, format!("'{text}' is not a value of {bits} bits")))?;
    let bytes =
        (0..bits.div_ceil(8)).rev().map(|byte| (number.limb(byte as usize / 8) >> (byte % 8 * 8)) as u8);
    Ok(bytes.collect())
}

fn fixed_entries(
    table: &json::Table,
    key: &[KeyField],
    key_words: usize,
    actions: &[ActionProgram],
    place: &str,
) -> Result<Vec<FixedEntry>, LoadError> {
    // In the JSON the smaller number wins, in P4Runtime the larger one.
    let ordered = key
        .iter()
        .any(|field| matches!(field.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
    let lowest = table.entries.iter().map(|entry| entry.priority).max().unwrap_or(0);
    let entry = |entry: &json::ConstEntry| {
        if entry.match_key.len() != key.len() {
            return Err(malformed(place, "an entry has a key of another length"));
        }
        let fields = entry.match_key.iter().zip(key);
        let matches =
            fields.map(|(json, field)| fixed_key(json, field, place)).collect::<Result<Vec<_>, _>>()?;
        let matches: Vec<_> = matches.iter().map(Option::as_ref).collect();
        let rank = lowest.saturating_sub(entry.priority).saturating_add(1);
        let priority = if ordered { i32::try_from(rank).unwrap_or(i32::MAX) } else { 0 };
        let pattern = Pattern::new(key, key_words, &matches, priority);
        let action = &entry.action_entry;
        Ok(FixedEntry {
            pattern: pattern.map_err(|problem| malformed(place, format!("an entry's {problem}")))?,
            action: invocation(table, actions, action.action_id, &action.action_data, place)?,
        })
    };
    table.entries.iter().map(entry).collect()
}

/// Returns one field of a fixed entry's key; `None` matches every value.
fn fixed_key(entry: &ConstKey, field: &KeyField, place: &str) -> Result<Option<KeyMatch>, LoadError> {
    let bytes = |text: &Option<String>| bytes(text.as_ref(), field.bits, place);
    let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let matched = match (entry.match_type.as_str(), field.kind) {
        ("exact", MatchKind::Exact) => KeyMatch::Exact(bytes(&entry.key)?),
        ("lpm", MatchKind::Lpm) => {
            let prefix_len = entry.prefix_length.unwrap_or(0);
            if prefix_len == 0 {
                return Ok(None);
            }
            let mut value = bytes(&entry.key)?;
            // p4c keeps the bits that a program writes behind the prefix. They are cleared here.
            let behind = json::number::Number::mask(field.bits.saturating_sub(prefix_len));
            for (at, byte) in value.iter_mut().rev().enumerate() {
                *byte &= !((behind.limb(at / 8) >> (at % 8 * 8)) as u8);
            }
            KeyMatch::Lpm { value, prefix_len }
        }
        ("ternary", MatchKind::Ternary) => {
            let (mut value, mask) = (bytes(&entry.key)?, bytes(&entry.mask)?);
            if zero(&mask) {
                return Ok(None);
            }
            value.iter_mut().zip(&mask).for_each(|(value, mask)| *value &= mask);
            KeyMatch::Ternary { value, mask }
        }
        ("range", MatchKind::Range) => {
            let (low, high) = (bytes(&entry.start)?, bytes(&entry.end)?);
            if zero(&low) && limbs(&high) == [u64::MAX >> (64 - field.bits)] {
                return Ok(None);
            }
            KeyMatch::Range { low, high }
        }
        (other, _) => return Err(malformed(place, format!("an entry has a '{other}' for {}", field.name))),
    };
    Ok(Some(matched))
}
