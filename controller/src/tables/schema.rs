//! The form in which each table's file describes its table.

use tributary_wire::MacAddr;

/// The names of a table in P4Info.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    /// Its match fields, all of them exact; empty if only the default action is set.
    pub(crate) key: &'static [&'static str],
    pub(crate) actions: &'static [ActionSchema],
}

/// The names of an action in P4Info.
#[derive(Debug)]
pub(crate) struct ActionSchema {
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

/// The address as a P4 number.
pub(super) fn mac_number(address: MacAddr) -> u64 {
    address.octets().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
