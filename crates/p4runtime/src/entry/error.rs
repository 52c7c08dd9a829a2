use thiserror::Error;

use crate::canonical::ByteStringError;
use crate::p4info::MatchType;

/// The reason why an entry does not fit the P4Info. The program and the control plane disagree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// The P4Info has no object of this name.
    #[error("the P4Info has no {kind} called {name}")]
    UnknownName {
        /// The kind of object that was looked up.
        kind: &'static str,
        /// The name given.
        name: String,
    },
    /// The P4Info has no object with this id.
    #[error("the P4Info has no {kind} with the id {id:#010x}")]
    UnknownId {
        /// The kind of object that was looked up.
        kind: &'static str,
        /// The id given.
        id: u32,
    },
    /// The table's key, the action's parameters or the packet's header have no such field.
    #[error("{place} has no field {field}")]
    UnknownField {
        /// The table, action or header.
        place: String,
        /// The field's name or id in the entry.
        field: String,
    },
    /// A required field has no value.
    #[error("{place} needs a value for {field}")]
    MissingField {
        /// The table, action or header.
        place: String,
        /// The field.
        field: String,
    },
    /// A field has two values.
    #[error("{place} has {field} twice")]
    Repeated {
        /// The table, action, header or group.
        place: String,
        /// The field or replica.
        field: String,
    },
    /// The entry uses another kind of match than the field has.
    #[error("{place}.{field} matches {expected:?}, not {given}")]
    MatchKind {
        /// The table.
        place: String,
        /// The field.
        field: String,
        /// The kind of match in the P4Info.
        expected: MatchType,
        /// The kind of match in the entry.
        given: &'static str,
    },
    /// A number does not fit into its field.
    #[error("{place}.{field}: {reason}")]
    Value {
        /// The table, action, header or counter.
        place: String,
        /// The field.
        field: String,
        /// The problem with the number.
        reason: ByteStringError,
    },
    /// A prefix, mask or range is inconsistent, or it matches every value.
    ///
    /// In the second case, leave the field out of the key.
    #[error("{place}.{field}: {reason}")]
    Pattern {
        /// The table.
        place: String,
        /// The field.
        field: String,
        /// The problem with the match.
        reason: &'static str,
    },
    /// The entry has a priority although the table's entries cannot overlap, or has none although
    /// they can.
    #[error("{place}: priority {priority} {reason}")]
    Priority {
        /// The table.
        place: String,
        /// The priority given.
        priority: i32,
        /// The problem with the priority.
        reason: &'static str,
    },
    /// The table may not use the action in this place.
    #[error("{place} can't have the action {action} {reason}")]
    Action {
        /// The table.
        place: String,
        /// The action.
        action: String,
        /// The reason why the table may not use it.
        reason: &'static str,
    },
    /// The entry uses something that this library does not support by name.
    #[error("{place}: {what} is not supported here")]
    Unsupported {
        /// The table or kind of entity.
        place: String,
        /// The unsupported feature.
        what: &'static str,
    },
    /// An index or id is out of range.
    #[error("{place}: {number} is not within {from}..={to}")]
    OutOfRange {
        /// The counter or group.
        place: String,
        /// The number given.
        number: i128,
        /// The smallest valid number.
        from: u64,
        /// The largest valid number.
        to: u64,
    },
}
