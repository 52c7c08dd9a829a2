//! Tables and their actions.

use super::key::KeyField;
use super::machine::CodeIndex;
use super::meter::DirectMeter;
use super::pattern::Pattern;

/// Lookup of a table's entries.
#[derive(Debug, Clone)]
pub(crate) struct TableProgram {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Number of entries that it has room for.
    pub(crate) size: usize,
    /// The fields of the key.
    pub(crate) key: Vec<KeyField>,
    /// Words of the packed key.
    pub(crate) key_words: usize,
    /// Its actions.
    pub(crate) actions: Vec<ActionProgram>,
    /// The action of a miss, and its arguments.
    pub(crate) default: Option<Invocation>,
    /// True if the action of a miss cannot be changed.
    pub(crate) default_is_constant: bool,
    /// Entries that the program fixes; if there are any, no others can be added.
    pub(crate) fixed: Vec<FixedEntry>,
    /// True if the table counts the packets that its entries match.
    pub(crate) counts: bool,
    /// Index of the action profile that its entries refer to.
    pub(crate) profile: Option<usize>,
    /// True if its entries can time out.
    pub(crate) times_out: bool,
    /// The meter that each of its entries has.
    pub(crate) meter: Option<DirectMeter>,
}

/// An action of a table.
#[derive(Debug, Clone)]
pub(crate) struct ActionProgram {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Where its code begins.
    pub(crate) code: CodeIndex,
    /// Widths of its parameters in bits.
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
