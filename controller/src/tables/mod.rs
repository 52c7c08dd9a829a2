//! The tables that the controller writes, one in each file: a typed key, a typed action, and their
//! names in P4Info.
//!
//! Each file creates entries with the names of the P4 program. `Pipeline` refuses a P4Info that lacks one of these
//! names.

pub(crate) mod admission;
pub(crate) mod egress_guard;
pub(crate) mod identity;
pub(crate) mod mac_forward;
pub(crate) mod multicast;
pub(crate) mod result_group;
mod schema;
pub(crate) mod sender_admission;

pub(crate) use schema::TableSchema;

/// A table that the controller writes.
///
/// Entries are added in the order of the variants. A job's entries of `admission` are added last, because they admit
/// the job's packets to the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    /// Gives the switch its node id.
    Identity,
    /// Forwards ordinary frames.
    MacForward,
    /// Selects the multicast group of results.
    ResultGroup,
    /// Limits the ports through which a job's packets may leave the switch.
    EgressGuard,
    /// Admits packets of a job by their sender, for ports that several hosts share.
    SenderAdmission,
    /// Admits packets of a job, and selects the slots that they reach.
    Admission,
}

impl Table {
    /// All tables, in the order of adding entries.
    pub(crate) const ALL: [Self; 6] = [
        Self::Identity,
        Self::MacForward,
        Self::ResultGroup,
        Self::EgressGuard,
        Self::SenderAdmission,
        Self::Admission,
    ];

    /// Returns the table's names in P4Info.
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

    /// Returns the table with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.schema().name == name)
    }
}
