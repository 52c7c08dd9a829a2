use thiserror::Error;

use crate::canonical::ByteStringError;
use crate::p4info::MatchType;

/// Why an entry does not fit the P4Info: the program and the control plane disagree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// The P4Info has no object of this name.
    #[error("the P4Info has no {kind} called {name}")]
    UnknownName {
        /// What kind of object was looked up.
        kind: &'static str,
        /// The name given.
        name: String,
    },
    /// The P4Info has no object with this id.
    #[error("the P4Info has no {kind} with the id {id:#010x}")]
    UnknownId {
        /// What kind of object was looked up.
        kind: &'static str,
        /// The id given.
        id: u32,
    },
    /// The table's key, the action's parameters or the packet's header have no such field.
    #[error("{place} has no field {field}")]
    UnknownField {
        /// The table, action or header.
        place: String,
        /// The name, or the id, given.
        field: String,
    },
    /// A field was not given a value, and may not be left out.
    #[error("{place} needs a value for {field}")]
    MissingField {
        /// The table, action or header.
        place: String,
        /// The field.
        field: String,
    },
    /// A field was given twice.
    #[error("{place} has {field} twice")]
    Repeated {
        /// The table, action, header or group.
        place: String,
        /// The field or replica.
        field: String,
    },
    /// The field matches in another way than the entry says.
    #[error("{place}.{field} matches {expected:?}, not {given}")]
    MatchKind {
        /// The table.
        place: String,
        /// The field.
        field: String,
        /// What the P4Info says.
        expected: MatchType,
        /// What the entry says.
        given: &'static str,
    },
    /// A number does not fit into its field.
    #[error("{place}.{field}: {reason}")]
    Value {
        /// The table, action, header or counter.
        place: String,
        /// The field.
        field: String,
        /// What is wrong with the number.
        reason: ByteStringError,
    },
    /// Prefix, mask or bounds contradict the value or each other, or match anything: then leave the field out.
    #[error("{place}.{field}: {reason}")]
    Pattern {
        /// The table.
        place: String,
        /// The field.
        field: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A priority where entries can't overlap, or none where they can.
    #[error("{place}: priority {priority} {reason}")]
    Priority {
        /// The table.
        place: String,
        /// What was given.
        priority: i32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The action may not be used here.
    #[error("{place} can't have the action {action} {reason}")]
    Action {
        /// The table.
        place: String,
        /// The action.
        action: String,
        /// Why not.
        reason: &'static str,
    },
    /// The entry uses something that this library has no named form for.
    #[error("{place}: {what} is not supported here")]
    Unsupported {
        /// The table or kind of entity.
        place: String,
        /// What it uses.
        what: &'static str,
    },
    /// An index or id is outside of what there is.
    #[error("{place}: {number} is not within {from}..={to}")]
    OutOfRange {
        /// The counter or group.
        place: String,
        /// What was given.
        number: i128,
        /// The smallest there is.
        from: u64,
        /// The largest there is.
        to: u64,
    },
}
