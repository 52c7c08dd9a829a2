//! Multicast groups and clone sessions.

/// One copy that a multicast group makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The port by which the copy leaves.
    pub port: u16,
    /// The `egress_rid` of the copy; different for replicas of a group with the same port.
    pub instance: u16,
}

/// A clone session of the packet replication engine: what becomes of a clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloneSession {
    /// Its id, from 1 to 32767.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// The class of service, kept for the controller: this switch has one queue for all.
    pub class_of_service: u32,
    /// Number of bytes of the packet that a clone carries; 0: all. Headers stay whole.
    pub packet_length: u32,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
}

impl CloneSession {
    /// The most bytes that a clone carries.
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
    /// Its id, `mcast_grp` in the program; never 0.
    pub id: u16,
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// For each replica, in the same order, those that take its place while its port is down, the best
    /// first. Empty where no replica has any. A replica that has some is left out while none of the ports is up.
    pub backups: Vec<Vec<Replica>>,
    /// The controller's own note, returned unchanged.
    pub metadata: Vec<u8>,
}
