//! The form in which each table's module describes its table.

use tributary_wire::MacAddr;

/// The names of a table in P4Info.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    /// The names of the match fields, which are all exact. Empty if the table has only a default action.
    pub(crate) key: &'static [&'static str],
    pub(crate) actions: &'static [ActionSchema],
}

/// The names of an action in P4Info.
#[derive(Debug)]
pub(crate) struct ActionSchema {
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

/// Converts a MAC address to a P4 number.
pub(super) fn mac_number(address: MacAddr) -> u64 {
    address.octets().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
