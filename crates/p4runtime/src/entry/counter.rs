//! The cells of indexed counters, by name.

use super::EntryError;
use crate::p4::v1 as message;
use crate::p4info::{Counter, P4Info};

/// One cell of an indexed counter, with its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterCell {
    /// The counter's alias.
    pub counter: String,
    /// The index of the cell.
    pub index: u64,
    /// Number of packets; 0 if the counter counts only bytes.
    pub packets: u64,
    /// Number of bytes; 0 if the counter counts only packets.
    pub bytes: u64,
}

impl CounterCell {
    /// Creates a cell with counts of 0. Writing it clears the counter's cell.
    pub fn zero(counter: &str, index: u64) -> Self {
        Self { counter: counter.to_owned(), index, packets: 0, bytes: 0 }
    }

    /// Converts the cell to a message. An error names the part that does not fit the P4Info.
    pub fn to_proto(&self, p4info: &P4Info) -> Result<message::CounterEntry, EntryError> {
        let counter = find(p4info, &self.counter)?;
        let index = check_index(counter, self.index.into())?;
        let data = message::CounterData {
            byte_count: self.bytes.cast_signed(),
            packet_count: self.packets.cast_signed(),
        };
        Ok(message::CounterEntry { counter_id: counter.name.id, index: Some(index), data: Some(data) })
    }

    /// Converts a message to a cell.
    pub fn from_proto(p4info: &P4Info, message: &message::CounterEntry) -> Result<Self, EntryError> {
        let id = message.counter_id;
        let counter = p4info.counter_by_id(id).ok_or(EntryError::UnknownId { kind: "counter", id })?;
        let missing =
            || EntryError::MissingField { place: counter.name.alias.clone(), field: "index".to_owned() };
        let given = message.index.as_ref().ok_or_else(missing)?.index;
        check_index(counter, given.into())?;
        let data = message.data.unwrap_or_default();
        Ok(Self {
            counter: counter.name.alias.clone(),
            index: given.cast_unsigned(),
            packets: data.packet_count.cast_unsigned(),
            bytes: data.byte_count.cast_unsigned(),
        })
    }
}

/// Returns the counter with this name.
pub(super) fn find<'a>(p4info: &'a P4Info, name: &str) -> Result<&'a Counter, EntryError> {
    p4info.counter(name).ok_or_else(|| EntryError::UnknownName { kind: "counter", name: name.to_owned() })
}

/// Checks that the counter has this index.
pub(super) fn check_index(counter: &Counter, number: i128) -> Result<message::Index, EntryError> {
    match i64::try_from(number) {
        Ok(index) if index >= 0 && index.cast_unsigned() < counter.size => Ok(message::Index { index }),
        _ => Err(EntryError::OutOfRange {
            place: counter.name.alias.clone(),
            number,
            from: 0,
            to: counter.size.saturating_sub(1),
        }),
    }
}
