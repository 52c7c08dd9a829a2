//! The wire format of headers.

use super::{Slot, Storage};
use crate::compile::fault::{malformed, too_many, unsupported};
use crate::error::LoadError;
use crate::json;
use crate::program::{
    FieldGroup, Format, LooseField, MAX_BITS, NarrowField, Place, VariableField, WideField, lines_for,
};

/// Computes the places and the wire format of a header type's fields, relative to the start of the
/// header.
pub(super) fn lay_out(
    kind: &json::HeaderType,
    on_wire: bool,
) -> Result<(Format, Vec<(String, Slot)>), LoadError> {
    let mut format = Format { words: 1, ..Format::default() };
    let mut slots = Vec::new();
    let mut wire = Wire::default();
    for field in &kind.fields {
        let place = format!("header type {}, field {}", kind.name, field.0);
        let slot = slot(field, kind, &mut format, &place)?;
        if on_wire {
            wire.add(&mut format, slot, &place)?;
        }
        slots.push((field.0.clone(), slot));
    }
    if on_wire {
        let place = format!("header type {}", kind.name);
        if !wire.bit.is_multiple_of(8) {
            return Err(malformed(&place, "it ends inside a byte"));
        }
        wire.close(&mut format);
        format.bytes = wire.bit / 8;
        format.most_bytes = format.bytes + format.variable.map_or(0, |field| usize::from(field.bytes));
        if format.most_bytes > usize::from(u16::MAX) {
            return Err(unsupported(&place, "a header of more than 65535 bytes"));
        }
    }
    Ok((format, slots))
}

/// Assigns a word or lines to a field, relative to the start of the header.
fn slot(
    field: &json::Field,
    kind: &json::HeaderType,
    format: &mut Format,
    place: &str,
) -> Result<Slot, LoadError> {
    let mut word = || {
        let word = format.words;
        format.words = word.checked_add(1).ok_or_else(|| too_many(place, "fields"))?;
        Ok::<_, LoadError>(word)
    };
    let variable = field.1.as_str() == Some("*");
    let bits = if variable { most_bits(field, kind, place)? } else { width(&field.1, place)? };
    if bits <= 64 && !variable {
        let place = Storage::Word(word()?);
        return Ok(Slot { place, bits, signed: field.2, length: None });
    }
    let length = if variable { Some(word()?) } else { None };
    let line = format.lines;
    format.lines = line.checked_add(lines_for(bits)).ok_or_else(|| too_many(place, "fields"))?;
    Ok(Slot { place: Storage::Lines(line), bits, signed: field.2, length })
}

fn width(bits: &serde_json::Value, place: &str) -> Result<u32, LoadError> {
    let width = bits.as_u64().filter(|bits| *bits > 0);
    let width = width.ok_or_else(|| malformed(place, format!("{bits} is not a width")))?;
    let width = u32::try_from(width).ok().filter(|bits| *bits <= MAX_BITS / 2);
    width.ok_or_else(|| unsupported(place, format!("a field of {bits} bits")))
}

/// Returns the maximum length of a field of variable length, in bits.
///
/// It is the header's maximum length minus the header's other fields.
fn most_bits(field: &json::Field, kind: &json::HeaderType, place: &str) -> Result<u32, LoadError> {
    let others = kind.fields.iter().filter(|other| other.1.as_str() != Some("*"));
    let others = others.fold(0, |sum: u64, other| sum.saturating_add(other.1.as_u64().unwrap_or(0)));
    let most = kind.max_length.and_then(|bytes| bytes.checked_mul(8)?.checked_sub(others));
    let most = most.filter(|bits| *bits > 0);
    let most = most.ok_or_else(|| malformed(place, format!("{} has no greatest length", field.0)))?;
    let bits = u32::try_from(most).ok().filter(|bits| *bits <= u32::from(u16::MAX));
    bits.ok_or_else(|| unsupported(place, format!("a field of up to {most} bits")))
}

/// A header's wire format under construction.
#[derive(Debug, Default)]
struct Wire {
    bit: usize,
    /// Fields since the last byte boundary, and their first bits.
    open: Vec<(Slot, usize)>,
}

impl Wire {
    fn add(&mut self, format: &mut Format, slot: Slot, place: &str) -> Result<(), LoadError> {
        if let Some(length) = slot.length {
            let Storage::Lines(line) = slot.place else {
                return Err(malformed(place, "it has no lines"));
            };
            if format.variable.is_some() {
                return Err(unsupported(place, "a second field of variable length"));
            }
            self.close(format);
            let (bit, bytes) = (self.bit as u32, slot.bits.div_ceil(8) as u16);
            format.variable = Some(VariableField { bit, line, lines: lines_for(slot.bits), length, bytes });
            return Ok(());
        }
        self.open.push((slot, self.bit));
        self.bit += slot.bits as usize;
        if self.bit > usize::from(u16::MAX) * 8 {
            return Err(unsupported(place, "a header of more than 65535 bytes"));
        }
        // Fields behind a field of variable length have no fixed position.
        if self.bit.is_multiple_of(8) {
            self.close(format);
        }
        Ok(())
    }

    /// Describes the open fields, which end at this byte boundary.
    fn close(&mut self, format: &mut Format) {
        let begin = self.open.first().map_or(self.bit, |first| first.1);
        let bits = self.bit - begin;
        let aligned = begin.is_multiple_of(8) && bits.is_multiple_of(8) && format.variable.is_none();
        match self.open.as_slice() {
            [(Slot { place: Storage::Lines(line), .. }, _)] if aligned => {
                format.wides.push(WideField { offset: begin / 8, bytes: bits / 8, line: *line });
            }
            fields if aligned && bits <= 64 => {
                let words = fields.iter().filter_map(|(slot, first)| match slot.place {
                    Storage::Word(word) => Some((word, *first, slot.bits)),
                    Storage::Lines(_) => None,
                });
                group(format, words.collect(), begin, self.bit);
            }
            fields => {
                let loose = fields.iter().map(|(slot, bit)| LooseField {
                    bit: *bit as u32,
                    bits: slot.bits as u16,
                    place: match slot.place {
                        Storage::Word(word) => Place::Word(word),
                        Storage::Lines(line) => Place::Lines(line),
                    },
                    behind_variable: format.variable.is_some(),
                });
                format.loose.extend(loose);
            }
        }
        self.open.clear();
    }
}

/// Describes a group of fields of up to 64 bits. Each field has its word, first bit and width.
fn group(format: &mut Format, fields: Vec<(u16, usize, u32)>, begin: usize, end: usize) {
    if fields.is_empty() {
        return;
    }
    let mut parts = Vec::new();
    for (word, first, bits) in fields {
        let behind = |end: usize| (end - first - bits as usize) as u8;
        let (mask, offset) = (u64::MAX >> (64 - bits), (first / 8) as u16);
        format.narrows.push(NarrowField { mask, offset, word, shift: behind(first / 8 * 8 + 64) });
        parts.push((word, behind(end)));
    }
    format.groups.push(FieldGroup { offset: begin / 8, bytes: (end - begin) / 8, parts });
}
