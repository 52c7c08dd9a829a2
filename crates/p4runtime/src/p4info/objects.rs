//! The validated objects of a P4Info. Values that are optional or signed in the messages are
//! definite here.

use super::P4InfoError;
use crate::p4::config::v1 as message;

pub use message::action_ref::Scope;
pub use message::counter_spec::Unit;
pub use message::match_field::MatchType;

/// Id and names of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The id; its first byte is the kind of object.
    pub id: u32,
    /// The full name, e.g. `MyIngress.admission`.
    pub full: String,
    /// The shortest unique suffix of the full name, e.g. `admission`.
    pub alias: String,
}

/// A match-action table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Id and names.
    pub name: Name,
    /// The key's fields, in the program's order.
    pub key: Vec<MatchField>,
    /// The actions that entries or the default may use.
    pub actions: Vec<ActionRef>,
    /// The number of entries that the table can hold; `None` if the P4Info does not state it.
    pub size: Option<u64>,
    /// True if the default action can't be changed.
    pub const_default: bool,
    /// True if the table was declared with `const entries`, so that no entry can be written.
    pub const_entries: bool,
    /// The id of the action profile or selector that entries refer to, if the table has one.
    pub implementation: Option<u32>,
    /// Ids of direct counters and direct meters.
    pub direct_resources: Vec<u32>,
}

impl Table {
    /// Returns the key field with this name.
    pub fn field(&self, name: &str) -> Option<&MatchField> {
        self.key.iter().find(|field| field.name == name)
    }

    /// Returns the key field with this id.
    pub fn field_by_id(&self, id: u32) -> Option<&MatchField> {
        self.key.iter().find(|field| field.id == id)
    }

    /// Returns true if entries can overlap, so that each needs a priority.
    pub fn needs_priority(&self) -> bool {
        self.key
            .iter()
            .any(|field| matches!(field.kind, MatchType::Ternary | MatchType::Range | MatchType::Optional))
    }
}

/// One field of a table's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchField {
    /// The id of the field within the table, from 1 on.
    pub id: u32,
    /// The name of the field. It comes from the annotation `@name` if the program has one.
    pub name: String,
    /// Width in bits. 0 means that controllers see the value as a string, because the field's type
    /// is translated.
    pub width: u32,
    /// The kind of match.
    pub kind: MatchType,
}

/// An action that a table may use, and the places where the table may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionRef {
    /// The action's id.
    pub id: u32,
    /// The scope of the action: in entries, as the default, or both.
    pub scope: Scope,
}

/// An action and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Id and names.
    pub name: Name,
    /// The parameters, for which an entry gives values.
    pub parameters: Vec<Field>,
}

/// A parameter of an action, or a field of a packet-in or packet-out header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The id of the field within its action or header, from 1 on.
    pub id: u32,
    /// The name.
    pub name: String,
    /// Width in bits. 0 means that controllers see the value as a string, because the field's type
    /// is translated.
    pub width: u32,
}

/// An indexed counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Id and names.
    pub name: Name,
    /// Number of cells.
    pub size: u64,
    /// The unit of the counter: packets, bytes or both.
    pub unit: Unit,
}

/// A register array.
///
/// P4Runtime servers do not give access to registers. Controllers use the size to learn the
/// parameters with which the program was compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// Id and names.
    pub name: Name,
    /// Number of cells.
    pub size: u64,
    /// Bits of a cell; 0 if the type of a cell is not a single bit string.
    pub bits: u32,
}

/// The header of packets to, or from, the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerHeader {
    /// Id and names; the full name is `packet_in` or `packet_out`.
    pub name: Name,
    /// Its fields, from the first bit on.
    pub fields: Vec<Field>,
}

/// The common interface of all kinds of objects.
pub(super) trait Object: Sized {
    /// The protobuf message from which the object is made.
    type Message;
    /// The name of this kind of object in errors.
    const KIND: &'static str;

    fn check(message: &Self::Message) -> Result<Self, P4InfoError>;
    fn name(&self) -> &Name;
}

impl Object for Table {
    type Message = message::Table;
    const KIND: &'static str = "table";

    fn check(message: &message::Table) -> Result<Self, P4InfoError> {
        let name = name_of(Self::KIND, message.preamble.as_ref())?;
        let key =
            message.match_fields.iter().map(|field| match_field(&name, field)).collect::<Result<_, _>>()?;
        let actions = message
            .action_refs
            .iter()
            .map(|action| ActionRef { id: action.id, scope: action.scope() })
            .collect();
        Ok(Self {
            key,
            actions,
            size: u64::try_from(message.size).ok().filter(|&size| size > 0),
            const_default: message.const_default_action_id != 0,
            const_entries: message.is_const_table,
            implementation: Some(message.implementation_id).filter(|&id| id != 0),
            direct_resources: message.direct_resource_ids.clone(),
            name,
        })
    }

    fn name(&self) -> &Name {
        &self.name
    }
}

impl Object for Action {
    type Message = message::Action;
    const KIND: &'static str = "action";

    fn check(message: &message::Action) -> Result<Self, P4InfoError> {
        let name = name_of(Self::KIND, message.preamble.as_ref())?;
        let parameters = message
            .params
            .iter()
            .map(|one| field(&name, one.id, &one.name, one.bitwidth, one.type_name.is_some()))
            .collect::<Result<_, _>>()?;
        Ok(Self { name, parameters })
    }

    fn name(&self) -> &Name {
        &self.name
    }
}

impl Object for Counter {
    type Message = message::Counter;
    const KIND: &'static str = "counter";

    fn check(message: &message::Counter) -> Result<Self, P4InfoError> {
        let name = name_of(Self::KIND, message.preamble.as_ref())?;
        let unit = message.spec.as_ref().map_or(Unit::Unspecified, message::CounterSpec::unit);
        Ok(Self { size: size(&name, message.size)?, unit, name })
    }

    fn name(&self) -> &Name {
        &self.name
    }
}

impl Object for Register {
    type Message = message::Register;
    const KIND: &'static str = "register";

    fn check(message: &message::Register) -> Result<Self, P4InfoError> {
        let name = name_of(Self::KIND, message.preamble.as_ref())?;
        Ok(Self { size: size(&name, message.size.into())?, bits: bits(message.type_spec.as_ref()), name })
    }

    fn name(&self) -> &Name {
        &self.name
    }
}

impl Object for ControllerHeader {
    type Message = message::ControllerPacketMetadata;
    const KIND: &'static str = "controller header";

    fn check(message: &message::ControllerPacketMetadata) -> Result<Self, P4InfoError> {
        let name = name_of(Self::KIND, message.preamble.as_ref())?;
        let fields = message
            .metadata
            .iter()
            .map(|one| field(&name, one.id, &one.name, one.bitwidth, one.type_name.is_some()))
            .collect::<Result<_, _>>()?;
        Ok(Self { name, fields })
    }

    fn name(&self) -> &Name {
        &self.name
    }
}

fn name_of(kind: &'static str, preamble: Option<&message::Preamble>) -> Result<Name, P4InfoError> {
    let preamble = preamble.ok_or(P4InfoError::NoPreamble { kind })?;
    let alias = if preamble.alias.is_empty() { &preamble.name } else { &preamble.alias };
    Ok(Name { id: preamble.id, full: preamble.name.clone(), alias: alias.clone() })
}

fn match_field(table: &Name, message: &message::MatchField) -> Result<MatchField, P4InfoError> {
    let typed = message.type_name.is_some();
    let Field { id, name, width } = field(table, message.id, &message.name, message.bitwidth, typed)?;
    let kind = match &message.r#match {
        Some(message::match_field::Match::MatchType(number)) => MatchType::try_from(*number).ok(),
        _ => None,
    };
    match kind {
        Some(kind) if kind != MatchType::Unspecified => Ok(MatchField { id, name, width, kind }),
        _ => Err(P4InfoError::Senseless {
            place: format!("{}.{name}", table.alias),
            what: "a match type of no known kind".to_owned(),
        }),
    }
}

/// Makes a field. A width of 0 is allowed if the field's type has a name.
///
/// Such a field must be a string, which [`P4Info::new`](super::P4Info::new) checks.
fn field(owner: &Name, id: u32, name: &str, width: i32, typed: bool) -> Result<Field, P4InfoError> {
    match u32::try_from(width) {
        Ok(width) if width > 0 || typed => Ok(Field { id, name: name.to_owned(), width }),
        _ => Err(P4InfoError::Senseless {
            place: format!("{}.{name}", owner.alias),
            what: format!("a width of {width} bits"),
        }),
    }
}

fn size(owner: &Name, size: i64) -> Result<u64, P4InfoError> {
    u64::try_from(size)
        .map_err(|_| P4InfoError::Senseless { place: owner.alias.clone(), what: format!("{size} cells") })
}

/// Returns the width of a type that is a single bit string, or 0 for other types.
fn bits(spec: Option<&message::P4DataTypeSpec>) -> u32 {
    use message::p4_bitstring_like_type_spec::TypeSpec as BitString;
    use message::p4_data_type_spec::TypeSpec;
    let Some(TypeSpec::Bitstring(string)) = spec.and_then(|spec| spec.type_spec.as_ref()) else { return 0 };
    let width = match &string.type_spec {
        Some(BitString::Bit(bits)) => bits.bitwidth,
        Some(BitString::Int(bits)) => bits.bitwidth,
        Some(BitString::Varbit(bits)) => bits.max_bitwidth,
        None => 0,
    };
    u32::try_from(width).unwrap_or_default()
}
