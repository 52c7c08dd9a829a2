//! Tables and their actions.

use super::key::KeyField;
use super::machine::CodeIndex;
use super::meter::DirectMeter;
use super::pattern::Pattern;

/// A table, as the program declares it.
#[derive(Debug, Clone)]
pub(crate) struct TableProgram {
    /// The table's name, for messages.
    pub(crate) name: String,
    /// The maximum number of entries.
    pub(crate) size: usize,
    /// The fields of the key.
    pub(crate) key: Vec<KeyField>,
    /// Number of words of the packed key.
    pub(crate) key_words: usize,
    /// The table's actions.
    pub(crate) actions: Vec<ActionProgram>,
    /// The default action, for packets that match no entry, and its arguments.
    pub(crate) default: Option<Invocation>,
    /// True if the default action cannot be changed.
    pub(crate) default_is_constant: bool,
    /// The entries that the program itself gives the table.
    pub(crate) fixed: Vec<FixedEntry>,
    /// True if the table counts the packets that its entries match.
    pub(crate) counts: bool,
    /// Index of the action profile to which the table's entries refer.
    pub(crate) profile: Option<usize>,
    /// True if the table's entries can time out.
    pub(crate) times_out: bool,
    /// The kind of the meters of the table's entries, if they have meters.
    pub(crate) meter: Option<DirectMeter>,
}

/// An action of a table.
#[derive(Debug, Clone)]
pub(crate) struct ActionProgram {
    /// The action's name, for messages.
    pub(crate) name: String,
    /// The start of the action's code.
    pub(crate) code: CodeIndex,
    /// Widths of the action's parameters in bits.
    pub(crate) parameters: Vec<u32>,
}

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// Index among the table's actions.
    pub(crate) action: usize,
    /// A big-endian byte string for each parameter.
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// An entry that the program fixes.
#[derive(Debug, Clone)]
pub(crate) struct FixedEntry {
    /// The keys that the entry matches.
    pub(crate) pattern: Pattern,
    /// The action that the entry runs.
    pub(crate) action: Invocation,
}
