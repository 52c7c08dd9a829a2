//! The tables that the controller writes, one file each: a typed key, a typed action,
//! and their names in P4Info.
//!
//! Each file makes entries in the P4 program's names. `Pipeline` refuses a P4Info that lacks one of the names.

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
/// Entries are added in the order of the variants. Of a job's entries those of `admission` are added last, because they
/// let the job's packets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    /// The identity of this switch's node.
    Identity,
    /// Forwards ordinary frames.
    MacForward,
    /// Selects the multicast group of results.
    ResultGroup,
    /// Limits the ports through which a job's packets may leave.
    EgressGuard,
    /// The same as `Admission`, for each host that shares a port.
    SenderAdmission,
    /// Admits packets of a job, and gives the slots that they reach.
    Admission,
}

impl Table {
    /// All tables, in order.
    pub(crate) const ALL: [Self; 6] = [
        Self::Identity,
        Self::MacForward,
        Self::ResultGroup,
        Self::EgressGuard,
        Self::SenderAdmission,
        Self::Admission,
    ];

    /// Its names in P4Info.
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
