//! Table entries by name: `admission: job 7, ingress_port 3 → admit(slot_base 512, …)`.

use std::collections::BTreeMap;
use std::fmt;

use super::action::{self, ActionCall};
use super::{EntryError, Match, key};
use crate::p4::v1 as message;
use crate::p4info::{P4Info, Table};

/// An entry of a table, or its default action.
///
/// Two entries are equal if their contents are equal; the order of their fields does not matter.
/// [`TableEntry::from_proto`] returns entries with aliases. To compare them with your own entries,
/// use aliases there, too.
///
/// ```
/// # use tributary_p4runtime::entry::{ActionCall, TableEntry};
/// let entry = TableEntry::new("admission").exact("job", 7u16).exact("ingress_port", 3u16)
///     .action(ActionCall::new("admit").with("slot_base", 512u32).with("slot_mask", 255u32));
/// assert_eq!(entry.to_string(), "admission[ingress_port=3, job=7] admit(slot_base=512, slot_mask=255)");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableEntry {
    /// The table's alias.
    pub table: String,
    /// Matches by field name.
    pub key: BTreeMap<String, Match>,
    /// The entry's priority. The larger one wins; it is 0 in tables whose entries cannot overlap.
    pub priority: i32,
    /// The action for packets that match. `None` in a deletion or a query, or to reset a default action.
    pub action: Option<ActionCall>,
    /// True if this is the default action; its key is then empty.
    pub default: bool,
}

impl TableEntry {
    /// Creates an entry with an empty key and no action.
    pub fn new(table: &str) -> Self {
        Self { table: table.to_owned(), ..Self::default() }
    }

    /// Creates the default entry of a table, without an action.
    pub fn default_of(table: &str) -> Self {
        Self { default: true, ..Self::new(table) }
    }

    /// Adds a field to the key.
    #[must_use]
    pub fn matching(mut self, field: &str, pattern: Match) -> Self {
        self.key.insert(field.to_owned(), pattern);
        self
    }

    /// Adds a field to the key, which must match exactly.
    #[must_use]
    pub fn exact(self, field: &str, value: impl Into<u128>) -> Self {
        self.matching(field, Match::Exact(value.into()))
    }

    /// Sets the action.
    #[must_use]
    pub fn action(mut self, action: ActionCall) -> Self {
        self.action = Some(action);
        self
    }

    /// Returns the entry without its action. A deletion needs only this part.
    #[must_use]
    pub fn place(&self) -> Self {
        Self { action: None, ..self.clone() }
    }

    /// Converts the entry to a message with ids and canonical byte strings.
    ///
    /// An error names the part that does not fit the P4Info.
    pub fn to_proto(&self, p4info: &P4Info) -> Result<message::TableEntry, EntryError> {
        let table = p4info
            .table(&self.table)
            .ok_or_else(|| EntryError::UnknownName { kind: "table", name: self.table.clone() })?;
        self.check_place(table)?;
        let action =
            self.action.as_ref().map(|call| action::encode(p4info, table, call, self.default)).transpose()?;
        Ok(message::TableEntry {
            table_id: table.name.id,
            r#match: if self.default { Vec::new() } else { key::encode(table, &self.key)? },
            action: action.map(|action| message::TableAction {
                r#type: Some(message::table_action::Type::Action(action)),
            }),
            priority: self.priority,
            is_default_action: self.default,
            ..Default::default()
        })
    }

    /// Converts a message to an entry.
    pub fn from_proto(p4info: &P4Info, message: &message::TableEntry) -> Result<Self, EntryError> {
        let table = p4info
            .table_by_id(message.table_id)
            .ok_or(EntryError::UnknownId { kind: "table", id: message.table_id })?;
        let action = match message.action.as_ref().and_then(|action| action.r#type.as_ref()) {
            None => None,
            Some(message::table_action::Type::Action(call)) => {
                Some(action::decode(p4info, table, call, message.is_default_action)?)
            }
            Some(_) => {
                return Err(EntryError::Unsupported {
                    place: table.name.alias.clone(),
                    what: "an action profile",
                });
            }
        };
        let entry = Self {
            table: table.name.alias.clone(),
            key: key::decode(table, message)?,
            priority: message.priority,
            action,
            default: message.is_default_action,
        };
        entry.check_place(table)?;
        Ok(entry)
    }

    /// Checks that the priority and the default flag fit the table.
    fn check_place(&self, table: &Table) -> Result<(), EntryError> {
        let place = || table.name.alias.clone();
        if self.default && !self.key.is_empty() {
            return Err(EntryError::Unsupported { place: place(), what: "a default action with a key" });
        }
        let reason = match (table.needs_priority() && !self.default, self.priority) {
            (true, ..=0) => "is no priority, and entries of this table can overlap: give a positive one",
            (false, priority) if priority != 0 => "is not allowed: entries of this table can't overlap",
            _ => return Ok(()),
        };
        Err(EntryError::Priority { place: place(), priority: self.priority, reason })
    }
}

impl fmt::Display for TableEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: Vec<_> = self.key.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
        let key = if self.default { "default".to_owned() } else { key.join(", ") };
        write!(f, "{}[{key}]", self.table)?;
        match &self.action {
            Some(action) => write!(f, " {action}"),
            None => Ok(()),
        }
    }
}
