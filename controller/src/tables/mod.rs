//! The tables that the controller writes, one file each: a typed key, a typed action, and how they are
//! called in P4Info.
//!
//! What a file makes is an entry in the P4 program's names. `Pipeline` refuses a P4Info in which one of
//! the names is missing.

pub(crate) mod admission;
pub(crate) mod egress_guard;
pub(crate) mod identity;
pub(crate) mod mac_forward;
pub(crate) mod multicast;
pub(crate) mod result_group;
pub(crate) mod sender_admission;

use tributary_wire::MacAddr;

/// A table that the controller writes.
///
/// The order is the one in which entries are added: `admission` last of those that a job has, because
/// it is the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    /// Which node this switch is.
    Identity,
    /// Where ordinary frames go.
    MacForward,
    /// To whom a multicast result goes.
    ResultGroup,
    /// Out of which ports a job's packets may go.
    EgressGuard,
    /// The same as the next one, of each host that shares a port.
    SenderAdmission,
    /// Which of a job's packets may come in, and which slots they reach.
    Admission,
}

/// How a table is called in P4Info.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    /// Its match fields, all of them exact; none where only the default action is set.
    pub(crate) key: &'static [&'static str],
    pub(crate) actions: &'static [ActionSchema],
}

/// How an action that the controller uses is called in P4Info.
#[derive(Debug)]
pub(crate) struct ActionSchema {
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [&'static str],
}

impl Table {
    /// All of them, in order.
    pub(crate) const ALL: [Self; 6] = [
        Self::Identity,
        Self::MacForward,
        Self::ResultGroup,
        Self::EgressGuard,
        Self::SenderAdmission,
        Self::Admission,
    ];

    /// Its names.
    pub(crate) fn schema(self) -> &'static TableSchema {
        match self {
            Self::Identity => &identity::SCHEMA,
            Self::MacForward => &mac_forward::SCHEMA,
            Self::ResultGroup => &result_group::SCHEMA,
            Self::EgressGuard => &egress_guard::SCHEMA,
            Self::SenderAdmission => &sender_admission::SCHEMA,
            Self::Admission => &admission::SCHEMA,
        }
    }

    /// The table of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.schema().name == name)
    }
}

/// The address as P4 sees it.
fn mac_number(address: MacAddr) -> u64 {
    address.octets().iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
