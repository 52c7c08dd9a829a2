//! Assigns storage to every field: a word, or several cache lines for a wide value.

mod union;
mod wire;

use std::cell::Cell;
use std::collections::HashMap;

use super::fault::{malformed, too_many};
use crate::error::LoadError;
use crate::json::{self, Document};
use crate::program::{self, Clocks, FieldName, Format, HeaderNames, LineIndex, Place, Stack, Standard, Word};

pub(super) use union::UnionStack;
use union::Unions;
use wire::lay_out;

/// The struct of v1model's own metadata.
pub(super) const STANDARD_METADATA: &str = "standard_metadata";
/// Metadata that holds timestamps. Metadata about the lengths of queues stays 0, because this
/// switch has no queues between ingress and egress.
const TIMES: [&str; 3] = ["ingress_global_timestamp", "egress_global_timestamp", "enq_timestamp"];
/// The maximum number of words that fields may take. More words would not fit the instructions'
/// indices.
const MAX_WORDS: usize = 30_000;

/// The place of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Storage {
    /// A word.
    Word(Word),
    /// Several lines, of which this is the first.
    Lines(LineIndex),
}

/// A field's place and type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// The place of the field's value.
    pub(super) place: Storage,
    /// The field's width in bits; the maximum width if its length varies.
    pub(super) bits: u32,
    /// True if the field's highest bit is a sign.
    pub(super) signed: bool,
    /// The word that holds the number of bits of a field of variable length.
    pub(super) length: Option<Word>,
}

impl Slot {
    /// Makes a field without a sign, in a word.
    pub(super) fn word(word: Word, bits: u32) -> Self {
        Self { place: Storage::Word(word), bits, signed: false, length: None }
    }
}

/// A header or a struct of metadata.
#[derive(Debug)]
pub(super) struct HeaderLayout {
    /// Index of the header in the program.
    pub(super) index: u16,
    /// True for metadata, which is never on the wire and always valid.
    pub(super) metadata: bool,
    /// The header's fields with their names, in the order of the header's type.
    fields: Vec<(String, Slot)>,
    word: Word,
}

impl HeaderLayout {
    /// Returns the validity word of the header; `None` for metadata, which is always valid.
    pub(super) fn validity(&self) -> Option<Word> {
        (!self.metadata).then_some(self.word)
    }

    fn field(&self, name: &str) -> Option<Slot> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, slot)| *slot)
    }

    /// Returns the field at a position of the header's type. The position behind the last field is
    /// the validity.
    fn field_at(&self, position: usize) -> Option<Slot> {
        let valid = || (position == self.fields.len()).then(|| Slot::word(self.word, 1));
        self.fields.get(position).map(|(_, slot)| *slot).or_else(valid)
    }
}

/// The places of all headers, fields and stacks, by name.
#[derive(Debug, Default)]
pub(super) struct Layout {
    headers: HashMap<String, HeaderLayout>,
    stacks: HashMap<String, u16>,
    unions: Unions,
    /// True if the program reads timestamps.
    asks_for_times: Cell<bool>,
    pub(super) formats: Vec<Format>,
    pub(super) instances: Vec<program::Header>,
    /// The names of the instances.
    names: Vec<String>,
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
        layout.add_unions(document)?;
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
        self.names.push(header.name.clone());
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

    /// Returns the names of all headers and fields, in the order of their indices.
    pub(super) fn names(&self) -> Vec<HeaderNames> {
        let field = |(name, slot): &(String, Slot)| FieldName {
            name: name.clone(),
            place: match slot.place {
                Storage::Word(word) => Place::Word(word),
                Storage::Lines(line) => Place::Lines(line),
            },
            bits: slot.bits,
            length: slot.length,
        };
        let known = self.names.iter().filter_map(|name| Some((name, self.headers.get(name)?)));
        let names = known.map(|(name, header)| HeaderNames {
            name: name.clone(),
            valid: header.validity(),
            fields: header.fields.iter().map(field).collect(),
        });
        names.collect()
    }

    /// Returns a header by name.
    pub(super) fn header(&self, name: &str, place: &str) -> Result<&HeaderLayout, LoadError> {
        self.headers.get(name).ok_or_else(|| malformed(place, format!("there is no header {name}")))
    }

    /// Returns the index of a header by name. The header must be able to appear on the wire.
    pub(super) fn wire_header(&self, name: &str, place: &str) -> Result<u16, LoadError> {
        let header = self.header(name, place)?;
        if header.metadata {
            return Err(malformed(place, format!("{name} is metadata, not a header")));
        }
        Ok(header.index)
    }

    /// Returns a header stack by name.
    pub(super) fn stack(&self, name: &str, place: &str) -> Result<u16, LoadError> {
        self.stacks
            .get(name)
            .copied()
            .ok_or_else(|| malformed(place, format!("there is no header stack {name}")))
    }

    /// Returns a field by name. The field `$valid$` is the header's validity.
    pub(super) fn field(&self, header: &str, field: &str, place: &str) -> Result<Slot, LoadError> {
        let known = self.header(header, place)?;
        if field == "$valid$" && !known.metadata {
            return Ok(Slot::word(known.word, 1));
        }
        if header == STANDARD_METADATA && TIMES.contains(&field) {
            self.asks_for_times.set(true);
        }
        let slot = known.field(field);
        slot.ok_or_else(|| malformed(place, format!("header {header} has no field {field}")))
    }

    /// Returns a field of a header, by its position in the header's type.
    pub(super) fn field_at(&self, header: u16, position: usize, place: &str) -> Result<Slot, LoadError> {
        let slot = self.by_index(header).and_then(|header| header.field_at(position));
        slot.ok_or_else(|| malformed(place, format!("a header has no field number {position}")))
    }

    /// Returns a field of a header, by its name.
    pub(super) fn field_of(&self, header: u16, field: &str, place: &str) -> Result<Slot, LoadError> {
        let slot = self.by_index(header).and_then(|header| header.field(field));
        slot.ok_or_else(|| malformed(place, format!("the headers have no field {field}")))
    }

    /// Returns the validity word of a header.
    pub(super) fn validity(&self, header: u16) -> Slot {
        Slot::word(self.instances[usize::from(header)].word, 1)
    }

    fn by_index(&self, index: u16) -> Option<&HeaderLayout> {
        self.headers.get(self.names.get(usize::from(index))?)
    }

    /// Returns the headers of a stack.
    pub(super) fn stack_headers(&self, stack: u16) -> std::ops::Range<u16> {
        let stack = self.stack_list[usize::from(stack)];
        stack.first..stack.first + stack.size
    }

    /// Returns the places of the metadata that the switch itself reads and writes.
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
            header_too_short: error("HeaderTooShort"),
            invalid_argument: error("ParserInvalidArgument"),
            clocks: None,
        })
    }

    /// Returns the places of timestamps, if the program reads any.
    /// Call this after all names are resolved.
    pub(super) fn clocks(&self) -> Result<Option<Clocks>, LoadError> {
        if !self.asks_for_times.get() {
            return Ok(None);
        }
        let word = |field: &str| match self.field(STANDARD_METADATA, field, STANDARD_METADATA)? {
            Slot { place: Storage::Word(word), bits, .. } => Ok((word, u64::MAX >> (64 - bits))),
            _ => Err(malformed(STANDARD_METADATA, format!("{field} is too wide"))),
        };
        let [ingress, egress, enqueued] = TIMES;
        Ok(Some(Clocks { ingress: word(ingress)?, egress: word(egress)?, enqueued: word(enqueued)? }))
    }
}

impl Slot {
    /// Converts a field's place, which is relative to the start of its header, to its place in
    /// `header`.
    fn at(self, header: &program::Header) -> Self {
        let place = match self.place {
            Storage::Word(word) => Storage::Word(header.word + word),
            Storage::Lines(line) => Storage::Lines(header.line + line),
        };
        Self { place, length: self.length.map(|word| header.word + word), ..self }
    }
}
