//! P4Info: the names, ids and widths that a compiled P4 program exposes to its controllers.

mod error;
mod objects;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

pub use error::P4InfoError;
use objects::Object;
pub use objects::{
    Action, ActionRef, ControllerHeader, Counter, Field, MatchField, MatchType, Name, Register, Scope, Table,
    Unit,
};

use crate::p4::config::v1 as message;
use crate::p4::config::v1::p4_new_type_spec::Representation;
use crate::p4::config::v1::p4_new_type_translation::SdnType;
use crate::proto::DESCRIPTORS;

/// The descriptor of P4Info messages, which the text parser needs.
///
/// It is decoded once, because that takes longer than parsing most texts.
static DESCRIPTION: LazyLock<Option<MessageDescriptor>> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).ok()?.get_message_by_name("p4.config.v1.P4Info"));

/// A validated P4Info, which finds its objects by id, full name or alias.
#[derive(Debug, Clone)]
pub struct P4Info {
    message: message::P4Info,
    tables: Objects<Table>,
    actions: Objects<Action>,
    counters: Objects<Counter>,
    registers: Objects<Register>,
    headers: Objects<ControllerHeader>,
}

impl P4Info {
    /// Parses protobuf's text format, as p4c writes it into `.p4info.txtpb` files.
    pub fn parse(text: &str) -> Result<Self, P4InfoError> {
        let syntax = |reason: &dyn std::fmt::Display| P4InfoError::Syntax(reason.to_string());
        let descriptor =
            DESCRIPTION.as_ref().ok_or_else(|| syntax(&"this program was built without its description"))?;
        let dynamic =
            DynamicMessage::parse_text_format(descriptor.clone(), text).map_err(|error| syntax(&error))?;
        Self::new(dynamic.transcode_to().map_err(|error| syntax(&error))?)
    }

    /// Validates a P4Info message.
    pub fn new(message: message::P4Info) -> Result<Self, P4InfoError> {
        let info = Self {
            tables: Objects::check(&message.tables)?,
            actions: Objects::check(&message.actions)?,
            counters: Objects::check(&message.counters)?,
            registers: Objects::check(&message.registers)?,
            headers: Objects::check(&message.controller_packet_metadata)?,
            message,
        };
        info.check_references()?;
        info.check_strings()?;
        Ok(info)
    }

    /// Returns the message, for SetForwardingPipelineConfig.
    pub fn message(&self) -> &message::P4Info {
        &self.message
    }

    /// Returns the table with this name or alias.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.named(name)
    }

    /// Returns the table with this id.
    pub fn table_by_id(&self, id: u32) -> Option<&Table> {
        self.tables.by_id.get(&id)
    }

    /// Returns all tables, ordered by id.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.by_id.values()
    }

    /// Returns the action with this name or alias.
    pub fn action(&self, name: &str) -> Option<&Action> {
        self.actions.named(name)
    }

    /// Returns the action with this id.
    pub fn action_by_id(&self, id: u32) -> Option<&Action> {
        self.actions.by_id.get(&id)
    }

    /// Returns all actions, ordered by id.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.actions.by_id.values()
    }

    /// Returns the indexed counter with this name or alias.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        self.counters.named(name)
    }

    /// Returns the indexed counter with this id.
    pub fn counter_by_id(&self, id: u32) -> Option<&Counter> {
        self.counters.by_id.get(&id)
    }

    /// Returns all indexed counters, ordered by id.
    pub fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.counters.by_id.values()
    }

    /// Returns the register array with this name or alias.
    pub fn register(&self, name: &str) -> Option<&Register> {
        self.registers.named(name)
    }

    /// Returns all register arrays, ordered by id.
    pub fn registers(&self) -> impl Iterator<Item = &Register> {
        self.registers.by_id.values()
    }

    /// Returns the header of packets to the controller, if the program sends any.
    pub fn packet_in(&self) -> Option<&ControllerHeader> {
        self.headers.named("packet_in")
    }

    /// Returns the header of packets from the controller, if the program accepts any.
    pub fn packet_out(&self) -> Option<&ControllerHeader> {
        self.headers.named("packet_out")
    }

    /// Checks that every field without a width has a type whose values are strings.
    fn check_strings(&self) -> Result<(), P4InfoError> {
        let message = &self.message;
        let types = message.type_info.as_ref();
        let is_string = |name: &Option<message::P4NamedType>| {
            let known =
                name.as_ref().and_then(|name| types?.new_types.get(&name.name)?.representation.as_ref());
            let Some(Representation::TranslatedType(translated)) = known else { return false };
            matches!(translated.sdn_type, Some(SdnType::SdnString(_)))
        };
        let keys = message.tables.iter().flat_map(|one| {
            one.match_fields
                .iter()
                .map(|field| (&one.preamble, &field.name, field.bitwidth, &field.type_name))
        });
        let parameters = message.actions.iter().flat_map(|one| {
            one.params.iter().map(|field| (&one.preamble, &field.name, field.bitwidth, &field.type_name))
        });
        let headers = message.controller_packet_metadata.iter().flat_map(|one| {
            one.metadata.iter().map(|field| (&one.preamble, &field.name, field.bitwidth, &field.type_name))
        });
        let mut narrow = keys.chain(parameters).chain(headers).filter(|(_, _, width, _)| *width == 0);
        match narrow.find(|(_, _, _, name)| !is_string(name)) {
            None => Ok(()),
            Some((owner, field, ..)) => Err(P4InfoError::Senseless {
                place: format!("{}.{field}", owner.as_ref().map_or("", |owner| owner.alias.as_str())),
                what: "a width of 0 bits".to_owned(),
            }),
        }
    }

    /// Checks that the P4Info has every object to which its tables refer.
    fn check_references(&self) -> Result<(), P4InfoError> {
        for (table, message) in self
            .message
            .tables
            .iter()
            .filter_map(|table| Some((self.table_by_id(table.preamble.as_ref()?.id)?, table)))
        {
            let fixed = Some(message.const_default_action_id).filter(|&id| id != 0);
            for id in table.actions.iter().map(|action| action.id).chain(fixed) {
                if self.action_by_id(id).is_none() {
                    let place = format!("the table {}", table.name.alias);
                    return Err(P4InfoError::Dangling { place, kind: Action::KIND, id });
                }
            }
        }
        Ok(())
    }
}

/// The objects of one kind, by id and by name.
#[derive(Debug, Clone)]
struct Objects<T> {
    by_id: BTreeMap<u32, T>,
    ids: HashMap<String, u32>,
}

impl<T: Object> Objects<T> {
    fn check(messages: &[T::Message]) -> Result<Self, P4InfoError> {
        let mut objects = Self { by_id: BTreeMap::new(), ids: HashMap::new() };
        for message in messages {
            objects.add(T::check(message)?)?;
        }
        Ok(objects)
    }

    fn add(&mut self, object: T) -> Result<(), P4InfoError> {
        let name = object.name().clone();
        if self.by_id.insert(name.id, object).is_some() {
            return Err(P4InfoError::DuplicateId { kind: T::KIND, name: name.full, id: name.id });
        }
        for one in BTreeSet::from([name.full, name.alias]) {
            if self.ids.insert(one.clone(), name.id).is_some() {
                return Err(P4InfoError::DuplicateName { kind: T::KIND, name: one });
            }
        }
        Ok(())
    }

    fn named(&self, name: &str) -> Option<&T> {
        self.by_id.get(self.ids.get(name)?)
    }
}
