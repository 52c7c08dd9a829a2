//! Multicast groups and clone sessions.

/// One copy that a multicast group makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The port by which the copy leaves.
    pub port: u16,
    /// The `egress_rid` of the copy; different for replicas of a group with the same port.
    pub instance: u16,
}

/// A clone session of the packet replication engine. It determines the copies that a clone request
/// makes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneSession {
    /// Id of the session, from 1 to 32767.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// The class of service. The switch only stores it for the controller, because it has one queue
    /// for all classes.
    pub class_of_service: u32,
    /// The maximum length of a clone in bytes; 0 means no limit. Headers are never cut.
    pub packet_length: u32,
    /// The controller's own data, which the switch returns unchanged.
    pub metadata: Vec<u8>,
}

impl CloneSession {
    /// Returns the maximum length of a clone in bytes.
    pub(crate) fn limit(&self) -> usize {
        match self.packet_length {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }
}

/// A multicast group of the packet replication engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MulticastGroup {
    /// Id of the group, which is `mcast_grp` in the program; never 0.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// The backups of each replica, in the order of `replicas`, with the preferred backup first.
    ///
    /// A backup takes the place of its replica while the replica's port is down. A replica with
    /// backups is left out while all these ports are down. The list is empty if no replica has
    /// backups.
    pub backups: Vec<Vec<Replica>>,
    /// The controller's own data, which the switch returns unchanged.
    pub metadata: Vec<u8>,
}
