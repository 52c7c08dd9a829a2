//! Gives every field its word or lines, and works out the wire format of headers.

use std::collections::HashMap;

use super::fault::{malformed, too_many, unsupported};
use crate::error::LoadError;
use crate::json::{self, Document};
use crate::program::{
    self, Format, Group, LineIndex, MAX_BITS, NarrowField, Stack, Standard, WideField, Word, lines_for,
};

/// The struct of v1model's own metadata.
const STANDARD_METADATA: &str = "standard_metadata";
/// Metadata of queues and clocks, which this switch does not have.
const UNSUPPORTED_METADATA: [&str; 7] = [
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "ingress_global_timestamp",
    "egress_global_timestamp",
    "priority",
];
/// The most words that fields may take: more makes no sense and would not fit the instructions' indices.
const MAX_WORDS: usize = 30_000;

/// Where a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Storage {
    /// In a word.
    Word(Word),
    /// In lines, from this one on.
    Lines(LineIndex),
}

/// A field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Where it is.
    pub(super) place: Storage,
    /// Its width.
    pub(super) bits: u32,
}

/// A header or a struct of metadata.
#[derive(Debug)]
pub(super) struct HeaderLayout {
    /// Index in the program.
    pub(super) index: u16,
    /// Whether it is metadata: never on the wire, never invalid.
    pub(super) metadata: bool,
    fields: HashMap<String, Slot>,
    word: Word,
}

/// Names of headers, fields and stacks.
#[derive(Debug, Default)]
pub(super) struct Layout {
    headers: HashMap<String, HeaderLayout>,
    stacks: HashMap<String, u16>,
    pub(super) formats: Vec<Format>,
    pub(super) instances: Vec<program::Header>,
    pub(super) stack_list: Vec<Stack>,
    /// Words in use.
    pub(super) words: usize,
    /// Lines in use.
    pub(super) lines: usize,
    /// Words in use by metadata.
    pub(super) metadata_words: usize,
    /// Lines in use by metadata.
    pub(super) metadata_lines: usize,
}

impl Layout {
    /// Lays out all headers of a program: metadata first, stacks last.
    pub(super) fn new(document: &Document) -> Result<Self, LoadError> {
        let mut layout = Self::default();
        let mut types = HashMap::new();
        for kind in &document.header_types {
            types.insert(kind.name.as_str(), kind);
        }
        let in_stack = |header: &json::Header| {
            document.header_stacks.iter().any(|stack| stack.header_ids.contains(&header.id))
        };
        for header in document.headers.iter().filter(|header| header.metadata) {
            layout.add(header, &types)?;
        }
        (layout.metadata_words, layout.metadata_lines) = (layout.words, layout.lines);
        for header in document.headers.iter().filter(|header| !header.metadata && !in_stack(header)) {
            layout.add(header, &types)?;
        }
        for stack in &document.header_stacks {
            layout.add_stack(stack, document, &types)?;
        }
        Ok(layout)
    }

    fn add(
        &mut self,
        header: &json::Header,
        types: &HashMap<&str, &json::HeaderType>,
    ) -> Result<u16, LoadError> {
        let place = format!("header {}", header.name);
        let kind = types
            .get(header.header_type.as_str())
            .ok_or_else(|| malformed(&place, format!("there is no header type {}", header.header_type)))?;
        let (format, slots) = lay_out(kind, !header.metadata)?;
        let instance = program::Header {
            format: self.formats.len() as u16,
            word: self.words as Word,
            line: self.lines as LineIndex,
        };
        self.words += usize::from(format.words);
        self.lines += usize::from(format.lines);
        if self.words > MAX_WORDS || self.lines > MAX_WORDS {
            return Err(too_many(&place, "fields"));
        }
        let index = self.instances.len() as u16;
        let fields = slots.into_iter().map(|(name, slot)| (name, slot.at(&instance))).collect();
        let known = HeaderLayout { index, metadata: header.metadata, fields, word: instance.word };
        self.formats.push(format);
        self.instances.push(instance);
        if self.headers.insert(header.name.clone(), known).is_some() {
            return Err(malformed(&place, "it is there twice".to_owned()));
        }
        Ok(index)
    }

    fn add_stack(
        &mut self,
        stack: &json::HeaderStack,
        document: &Document,
        types: &HashMap<&str, &json::HeaderType>,
    ) -> Result<(), LoadError> {
        let place = format!("header stack {}", stack.name);
        let count = self.words as Word;
        self.words += 1;
        let first = self.instances.len() as u16;
        let mut kind = None;
        for id in &stack.header_ids {
            let header = document.headers.iter().find(|header| header.id == *id);
            let header =
                header.ok_or_else(|| malformed(&place, format!("there is no header with id {id}")))?;
            if kind.is_some_and(|kind| kind != &header.header_type) || header.metadata {
                return Err(malformed(&place, format!("{} is not of the stack's type", header.name)));
            }
            kind = Some(&header.header_type);
            self.add(header, types)?;
        }
        if kind.is_none() {
            return Err(malformed(&place, "it is empty".to_owned()));
        }
        self.stacks.insert(stack.name.clone(), self.stack_list.len() as u16);
        let stride = self.formats[usize::from(first)].words;
        self.stack_list.push(Stack { first, size: stack.header_ids.len() as u16, count, stride });
        Ok(())
    }

    /// A header by name.
    pub(super) fn header(&self, name: &str, place: &str) -> Result<&HeaderLayout, LoadError> {
        self.headers.get(name).ok_or_else(|| malformed(place, format!("there is no header {name}")))
    }

    /// A header by name that can appear on the wire.
    pub(super) fn wire_header(&self, name: &str, place: &str) -> Result<u16, LoadError> {
        let header = self.header(name, place)?;
        if header.metadata {
            return Err(malformed(place, format!("{name} is metadata, not a header")));
        }
        Ok(header.index)
    }

    /// A header stack by name.
    pub(super) fn stack(&self, name: &str, place: &str) -> Result<u16, LoadError> {
        self.stacks
            .get(name)
            .copied()
            .ok_or_else(|| malformed(place, format!("there is no header stack {name}")))
    }

    /// A field by name; `$valid$` is a header's validity.
    pub(super) fn field(&self, header: &str, field: &str, place: &str) -> Result<Slot, LoadError> {
        let known = self.header(header, place)?;
        if field == "$valid$" && !known.metadata {
            return Ok(Slot { place: Storage::Word(known.word), bits: 1 });
        }
        if header == STANDARD_METADATA && UNSUPPORTED_METADATA.contains(&field) {
            return Err(unsupported(place, format!("standard_metadata.{field}")));
        }
        let slot = known.fields.get(field).copied();
        slot.ok_or_else(|| malformed(place, format!("header {header} has no field {field}")))
    }

    /// A field of the first header of a stack, and the stack.
    pub(super) fn stack_field(
        &self,
        stack: &str,
        field: &str,
        place: &str,
    ) -> Result<(Slot, u16), LoadError> {
        let stack = self.stack(stack, place)?;
        let first = self.stack_list[usize::from(stack)].first;
        let first = self.headers.values().find(|header| header.index == first);
        let slot = first.and_then(|header| header.fields.get(field)).copied();
        let slot =
            slot.ok_or_else(|| malformed(place, format!("the stack's headers have no field {field}")))?;
        Ok((slot, stack))
    }

    /// The metadata that the switch itself uses.
    pub(super) fn standard(&self, errors: &[(String, u64)]) -> Result<Standard, LoadError> {
        let word = |field: &str| match self.field(STANDARD_METADATA, field, STANDARD_METADATA)?.place {
            Storage::Word(word) => Ok(word),
            Storage::Lines(_) => Err(malformed(STANDARD_METADATA, format!("{field} is too wide"))),
        };
        let error = |name: &str| errors.iter().find(|(known, _)| known == name).map_or(0, |(_, code)| *code);
        Ok(Standard {
            ingress_port: word("ingress_port")?,
            egress_spec: word("egress_spec")?,
            egress_port: word("egress_port")?,
            instance_type: word("instance_type")?,
            packet_length: word("packet_length")?,
            mcast_grp: word("mcast_grp")?,
            egress_rid: word("egress_rid")?,
            checksum_error: word("checksum_error")?,
            parser_error: word("parser_error")?,
            packet_too_short: error("PacketTooShort"),
            stack_out_of_bounds: error("StackOutOfBounds"),
            no_match: error("NoMatch"),
            parser_timeout: error("ParserTimeout"),
        })
    }
}

impl Slot {
    /// The same field in a certain header.
    fn at(self, header: &program::Header) -> Self {
        let place = match self.place {
            Storage::Word(word) => Storage::Word(header.word + word),
            Storage::Lines(line) => Storage::Lines(header.line + line),
        };
        Self { place, ..self }
    }
}

/// Computes the words, lines and bytes of a header type, counted from the header's first.
fn lay_out(kind: &json::HeaderType, on_wire: bool) -> Result<(Format, Vec<(String, Slot)>), LoadError> {
    let mut format = Format { words: 1, ..Format::default() };
    let mut slots = Vec::new();
    let mut wire = Wire::default();
    for field in &kind.fields {
        let place = format!("header type {}, field {}", kind.name, field.0);
        let bits = width(field, &place)?;
        let slot = if bits <= 64 {
            let word = format.words;
            format.words = word.checked_add(1).ok_or_else(|| too_many(&place, "fields"))?;
            Storage::Word(word)
        } else {
            let line = format.lines;
            format.lines = line.checked_add(lines_for(bits)).ok_or_else(|| too_many(&place, "fields"))?;
            Storage::Lines(line)
        };
        if on_wire {
            wire.add(&mut format, slot, bits, &place)?;
        }
        slots.push((field.0.clone(), Slot { place: slot, bits }));
    }
    if on_wire {
        if !wire.bit.is_multiple_of(8) {
            return Err(malformed(&format!("header type {}", kind.name), "it ends inside a byte".to_owned()));
        }
        format.bytes = wire.bit / 8;
        if format.bytes > usize::from(u16::MAX) {
            return Err(unsupported(
                &format!("header type {}", kind.name),
                "a header of more than 65535 bytes",
            ));
        }
    }
    Ok((format, slots))
}

fn width(field: &json::Field, place: &str) -> Result<u32, LoadError> {
    if field.1.as_str() == Some("*") {
        return Err(unsupported(place, "a field of variable length".to_owned()));
    }
    if field.2 {
        return Err(unsupported(place, "a signed field".to_owned()));
    }
    let bits = field.1.as_u64().filter(|bits| *bits > 0);
    let bits = bits.ok_or_else(|| malformed(place, format!("{} is not a width", field.1)))?;
    let bits = u32::try_from(bits).ok().filter(|bits| *bits <= MAX_BITS / 2);
    bits.ok_or_else(|| unsupported(place, format!("a field of {} bits", field.1)))
}

/// A header's wire format under construction.
#[derive(Debug, Default)]
struct Wire {
    bit: usize,
    /// Fields since the last byte boundary: word, first bit, width.
    open: Vec<(u16, usize, u32)>,
}

impl Wire {
    fn add(&mut self, format: &mut Format, slot: Storage, bits: u32, place: &str) -> Result<(), LoadError> {
        let begin = self.bit;
        self.bit += bits as usize;
        match slot {
            Storage::Lines(line) => {
                if !begin.is_multiple_of(8) || !bits.is_multiple_of(8) {
                    return Err(unsupported(
                        place,
                        "a wide field that does not consist of whole bytes".to_owned(),
                    ));
                }
                format.wides.push(WideField { offset: begin / 8, bytes: bits as usize / 8, line });
            }
            Storage::Word(word) => {
                self.open.push((word, begin, bits));
                if self.bit.is_multiple_of(8) {
                    self.close(format, place)?;
                }
            }
        }
        Ok(())
    }

    /// Describes the fields that have gathered since the last byte boundary.
    fn close(&mut self, format: &mut Format, place: &str) -> Result<(), LoadError> {
        let (begin, end) = (self.open.first().map_or(self.bit, |first| first.1), self.bit);
        if end - begin > 64 {
            return Err(unsupported(place, "a group of more than 64 bits of fields that share bytes"));
        }
        let mut parts = Vec::new();
        for (word, first, bits) in self.open.drain(..) {
            let behind = |end: usize| (end - first - bits as usize) as u8;
            let (mask, offset) = (u64::MAX >> (64 - bits), (first / 8) as u16);
            format.narrows.push(NarrowField { mask, offset, word, shift: behind(first / 8 * 8 + 64) });
            parts.push((word, behind(end)));
        }
        format.groups.push(Group { offset: begin / 8, bytes: (end - begin) / 8, parts });
        Ok(())
    }
}
