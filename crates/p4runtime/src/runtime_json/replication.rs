//! The multicast groups and clone sessions of a file. This module does not check their ids; the
//! switch does.

use serde::Deserialize;
use serde_json::Value;

use super::{Entry, RuntimeJsonError, keys};
use crate::p4::v1::packet_replication_engine_entry::Type as Replication;
use crate::p4::v1::{
    self as message, CloneSessionEntry, MulticastGroupEntry, PacketReplicationEngineEntry, entity,
    replica::PortKind, update,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    multicast_group_id: u32,
    replicas: Vec<Replica>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloneSession {
    clone_session_id: u32,
    replicas: Vec<Replica>,
    /// The maximum number of bytes of a clone; 0 for whole packets.
    #[serde(default)]
    packet_length_bytes: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replica {
    egress_port: u32,
    #[serde(default)]
    instance: u32,
}

pub(super) fn group(place: &str, value: &Value) -> Result<Entry, RuntimeJsonError> {
    let Group { multicast_group_id, replicas } = keys(place, value)?;
    let place = format!("{place} (group {multicast_group_id})");
    let replicas = messages(replicas);
    let group = MulticastGroupEntry { multicast_group_id, replicas, ..Default::default() };
    Ok(insert(place, Replication::MulticastGroupEntry(group)))
}

pub(super) fn session(place: &str, value: &Value) -> Result<Entry, RuntimeJsonError> {
    let CloneSession { clone_session_id, replicas, packet_length_bytes } = keys(place, value)?;
    let place = format!("{place} (session {clone_session_id})");
    let session = CloneSessionEntry {
        session_id: clone_session_id,
        replicas: messages(replicas),
        class_of_service: 0,
        packet_length_bytes,
    };
    Ok(insert(place, Replication::CloneSessionEntry(session)))
}

fn messages(replicas: Vec<Replica>) -> Vec<message::Replica> {
    let message = |replica: Replica| message::Replica {
        instance: replica.instance,
        port_kind: Some(PortKind::EgressPort(replica.egress_port)),
        backup_replicas: Vec::new(),
    };
    replicas.into_iter().map(message).collect()
}

fn insert(place: String, kind: Replication) -> Entry {
    let entry = PacketReplicationEngineEntry { r#type: Some(kind) };
    Entry {
        place,
        update: super::update(update::Type::Insert, entity::Entity::PacketReplicationEngineEntry(entry)),
    }
}
