//! Multicast groups, which replicate a packet to several ports.

use std::collections::BTreeSet;

use super::EntryError;
use crate::canonical;
use crate::p4::v1::{self as message, replica::PortKind};

/// The largest id that P4Runtime leaves to controllers. BMv2 uses higher ids for clone sessions.
pub const LAST_GROUP: u32 = (1 << 15) - 1;

/// One copy of the packet: its egress port, and an instance number that the egress pipeline can
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// The egress port.
    pub port: u32,
    /// Distinguishes copies that leave by the same port.
    pub instance: u32,
}

/// A multicast group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MulticastGroup {
    /// The group's id, from 1 to [`LAST_GROUP`].
    pub id: u32,
    /// The copies that the group makes.
    pub replicas: BTreeSet<Replica>,
}

impl MulticastGroup {
    /// Creates a group that sends one copy, with instance 0, out of each of these ports.
    pub fn to_ports(id: u32, ports: impl IntoIterator<Item = u32>) -> Self {
        Self { id, replicas: ports.into_iter().map(|port| Replica { port, instance: 0 }).collect() }
    }

    /// Converts the group to a message, or returns an error if P4Runtime does not leave the id to
    /// controllers.
    pub fn to_proto(&self) -> Result<message::MulticastGroupEntry, EntryError> {
        let group = message::MulticastGroupEntry { multicast_group_id: self.id, ..Default::default() };
        check_id(self.id)?;
        // This is the older form of the port. Many switches in use know only this form, and PI
        // refuses port 0 in the newer one.
        let replicas = self.replicas.iter().map(|&Replica { port, instance }| message::Replica {
            instance,
            port_kind: Some(PortKind::EgressPort(port)),
            backup_replicas: Vec::new(),
        });
        Ok(message::MulticastGroupEntry { replicas: replicas.collect(), ..group })
    }

    /// Converts a message to a group.
    pub fn from_proto(message: &message::MulticastGroupEntry) -> Result<Self, EntryError> {
        let id = message.multicast_group_id;
        check_id(id)?;
        let mut replicas = BTreeSet::new();
        for replica in &message.replicas {
            let replica = Replica { port: port_of(id, replica)?, instance: replica.instance };
            if !replicas.insert(replica) {
                let field = format!("port {}, instance {}", replica.port, replica.instance);
                return Err(EntryError::Repeated { place: place(id), field });
            }
        }
        Ok(Self { id, replicas })
    }
}

fn place(id: u32) -> String {
    format!("multicast group {id}")
}

fn check_id(id: u32) -> Result<(), EntryError> {
    if (1..=LAST_GROUP).contains(&id) {
        return Ok(());
    }
    Err(EntryError::OutOfRange {
        place: "multicast group id".to_owned(),
        number: id.into(),
        from: 1,
        to: LAST_GROUP.into(),
    })
}

fn port_of(group: u32, replica: &message::Replica) -> Result<u32, EntryError> {
    let field = || "port".to_owned();
    if !replica.backup_replicas.is_empty() {
        return Err(EntryError::Unsupported { place: place(group), what: "a backup replica" });
    }
    match &replica.port_kind {
        Some(PortKind::EgressPort(port)) => Ok(*port),
        Some(PortKind::Port(bytes)) => canonical::decode(bytes, u32::BITS)
            // The port fits, because its width was checked.
            .map(|port| u32::try_from(port).unwrap_or(u32::MAX))
            .map_err(|reason| EntryError::Value { place: place(group), field: field(), reason }),
        None => Err(EntryError::MissingField { place: place(group), field: field() }),
    }
}
