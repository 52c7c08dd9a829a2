//! Packets between controller and switch, with their header fields by name.

use std::collections::BTreeMap;

use super::{EntryError, action};
use crate::p4::v1 as message;
use crate::p4info::{ControllerHeader, P4Info};

/// A packet to or from the controller, with the fields of the program's `packet_in` or
/// `packet_out` header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerPacket {
    /// The bytes of the packet, from the Ethernet header on.
    pub payload: Vec<u8>,
    /// Values by field name.
    pub fields: BTreeMap<String, u128>,
}

impl ControllerPacket {
    /// Creates a packet without header fields.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { payload: payload.into(), fields: BTreeMap::new() }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(mut self, field: &str, value: impl Into<u128>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// Converts the packet to a message to the switch. Padding fields, called `pad` or `_pad`, may
    /// be left out.
    pub fn to_packet_out(&self, p4info: &P4Info) -> Result<message::PacketOut, EntryError> {
        let header = header(p4info.packet_out(), "packet_out")?;
        let mut fields = self.fields.clone();
        for padding in header.fields.iter().filter(|field| field.name.trim_start_matches('_') == "pad") {
            fields.entry(padding.name.clone()).or_insert(0);
        }
        let values = action::encode_fields("packet_out", &header.fields, &fields)?;
        let metadata = values
            .into_iter()
            .map(|(metadata_id, value)| message::PacketMetadata { metadata_id, value })
            .collect();
        Ok(message::PacketOut { payload: self.payload.clone(), metadata })
    }

    /// Converts a message from the switch to a packet.
    pub fn from_packet_in(p4info: &P4Info, message: message::PacketIn) -> Result<Self, EntryError> {
        let header = header(p4info.packet_in(), "packet_in")?;
        let values = message.metadata.iter().map(|one| (one.metadata_id, one.value.as_slice()));
        let fields = action::decode_fields("packet_in", &header.fields, values)?;
        Ok(Self { payload: message.payload, fields })
    }
}

fn header<'a>(header: Option<&'a ControllerHeader>, name: &str) -> Result<&'a ControllerHeader, EntryError> {
    header.ok_or_else(|| EntryError::UnknownName { kind: "controller header", name: name.to_owned() })
}
