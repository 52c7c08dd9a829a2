//! Converts multicast groups and clone sessions between P4Runtime's messages and the switch's own
//! types.

use tributary_p4runtime::canonical;
use tributary_p4runtime::entry::LAST_GROUP;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use crate::control::{CloneSession, MulticastGroup, Part, Replica};
use crate::pre::LAST_SESSION;
use crate::server::operation::Operation;
use crate::server::query::Query;
use crate::server::status::Refusal;

/// Plans an update of a group or a session.
pub(in crate::server) fn plan(
    kind: update::Type,
    entry: &message::PacketReplicationEngineEntry,
) -> Result<Operation, Refusal> {
    match &entry.r#type {
        Some(Replication::MulticastGroupEntry(group)) => multicast(kind, group),
        Some(Replication::CloneSessionEntry(session)) => clone(kind, session),
        None => Err(neither()),
    }
}

/// Plans a read of groups or sessions.
pub(in crate::server) fn query(entry: &message::PacketReplicationEngineEntry) -> Result<Vec<Query>, Refusal> {
    let wanted = |id: u32, number: Result<u16, Refusal>| (id != 0).then_some(number).transpose();
    match &entry.r#type {
        Some(Replication::MulticastGroupEntry(group)) => {
            let id = group.multicast_group_id;
            Ok(vec![Query::Groups(wanted(id, group_id(id))?)])
        }
        Some(Replication::CloneSessionEntry(session)) => {
            let id = session.session_id;
            Ok(vec![Query::Sessions(wanted(id, session_id(id))?)])
        }
        None => Err(neither()),
    }
}

fn neither() -> Refusal {
    Refusal::invalid("the replication entry is neither a multicast group nor a session")
}

fn multicast(kind: update::Type, entry: &message::MulticastGroupEntry) -> Result<Operation, Refusal> {
    let id = group_id(entry.multicast_group_id)?;
    if kind == update::Type::Delete {
        return Ok(Operation::new(Part::Replication, move |switch| switch.delete_group(id)));
    }
    let place = format!("multicast group {id}");
    let (replicas, mut metadata) = replicas(&place, &entry.replicas)?;
    metadata.extend_from_slice(&entry.metadata);
    let group = MulticastGroup { id, replicas, backups: backups(&place, &entry.replicas)?, metadata };
    Ok(Operation::new(Part::Replication, move |switch| match kind {
        update::Type::Insert => switch.insert_group(&group),
        _ => switch.modify_group(&group),
    }))
}

fn clone(kind: update::Type, entry: &message::CloneSessionEntry) -> Result<Operation, Refusal> {
    let id = session_id(entry.session_id)?;
    if kind == update::Type::Delete {
        return Ok(Operation::new(Part::Replication, move |switch| switch.delete_session(id)));
    }
    if entry.replicas.iter().any(|replica| !replica.backup_replicas.is_empty()) {
        return Err(Refusal::unimplemented("a backup replica of a clone session"));
    }
    let (replicas, metadata) = replicas(&format!("clone session {id}"), &entry.replicas)?;
    let packet_length = u32::try_from(entry.packet_length_bytes)
        .map_err(|_| Refusal::invalid(format!("clone session {id}: a negative packet_length_bytes")))?;
    let class_of_service = entry.class_of_service;
    let session = CloneSession { id, replicas, class_of_service, packet_length, metadata };
    Ok(Operation::new(Part::Replication, move |switch| match kind {
        update::Type::Insert => switch.insert_session(&session),
        _ => switch.modify_session(&session),
    }))
}

/// Checks that a controller may use this multicast group id.
fn group_id(id: u32) -> Result<u16, Refusal> {
    in_range(id, LAST_GROUP, "multicast group")
}

/// Checks that a controller may use this clone session id: a program must be able to name it, and
/// it is not 0.
fn session_id(id: u32) -> Result<u16, Refusal> {
    in_range(id, LAST_SESSION.into(), "clone session")
}

fn in_range(id: u32, last: u32, what: &str) -> Result<u16, Refusal> {
    match u16::try_from(id) {
        Ok(0) => Err(Refusal::invalid(format!("0 is no {what} id"))),
        Ok(small) if id <= last => Ok(small),
        _ => Err(Refusal::new(Code::OutOfRange, format!("{what} ids end at {last}, not at {id}"))),
    }
}

/// The form in which a controller wrote a port, so that the server returns the port in this form.
const AS_NUMBER: u8 = 0;
const AS_BYTES: u8 = 1;

/// Converts the replicas of a group or session.
/// Also returns the first bytes of the controller's data that the switch keeps with it: for each
/// replica, the form of its port. The switch checks that each replica occurs once.
fn replicas(place: &str, messages: &[message::Replica]) -> Result<(Vec<Replica>, Vec<u8>), Refusal> {
    let replica = |one: &message::Replica| match &one.port_kind {
        Some(PortKind::EgressPort(port)) => Ok((replica(place, *port, one.instance)?, AS_NUMBER)),
        Some(PortKind::Port(bytes)) => Ok((replica(place, port(place, bytes)?, one.instance)?, AS_BYTES)),
        None => Err(Refusal::invalid(format!("{place}: a replica has no port"))),
    };
    messages.iter().map(replica).collect()
}

/// Converts the backups of each replica; the list is empty if no replica has any.
fn backups(place: &str, messages: &[message::Replica]) -> Result<Vec<Vec<Replica>>, Refusal> {
    if messages.iter().all(|one| one.backup_replicas.is_empty()) {
        return Ok(Vec::new());
    }
    let backup = |one: &message::BackupReplica| replica(place, port(place, &one.port)?, one.instance);
    messages.iter().map(|one| one.backup_replicas.iter().map(backup).collect()).collect()
}

fn port(place: &str, bytes: &[u8]) -> Result<u32, Refusal> {
    let port = canonical::decode(bytes, u32::BITS);
    let port = port.map_err(|error| Refusal::invalid(format!("{place}, port: {error}")))?;
    Ok(u32::try_from(port).unwrap_or(u32::MAX))
}

fn replica(place: &str, port: u32, instance: u32) -> Result<Replica, Refusal> {
    let number = |what: &str, value: u32| {
        u16::try_from(value).map_err(|_| Refusal::invalid(format!("{place}: there is no {what} {value}")))
    };
    Ok(Replica { port: number("port", port)?, instance: number("instance", instance)? })
}

/// Returns a group as an entity.
pub(in crate::server) fn group_entity(group: &MulticastGroup) -> Entity {
    let mut replicas = replica_messages(&group.replicas, &group.metadata);
    for (replica, backups) in replicas.iter_mut().zip(&group.backups) {
        let backup = |one: &Replica| message::BackupReplica {
            port: canonical::encode(one.port.into()),
            instance: one.instance.into(),
        };
        replica.backup_replicas = backups.iter().map(backup).collect();
    }
    entity(Replication::MulticastGroupEntry(message::MulticastGroupEntry {
        multicast_group_id: group.id.into(),
        replicas,
        metadata: group.metadata.get(group.replicas.len()..).unwrap_or_default().to_vec(),
    }))
}

/// Returns a session as an entity.
pub(in crate::server) fn session_entity(session: &CloneSession) -> Entity {
    entity(Replication::CloneSessionEntry(message::CloneSessionEntry {
        session_id: session.id.into(),
        replicas: replica_messages(&session.replicas, &session.metadata),
        class_of_service: session.class_of_service,
        packet_length_bytes: i32::try_from(session.packet_length).unwrap_or(i32::MAX),
    }))
}

fn replica_messages(replicas: &[Replica], note: &[u8]) -> Vec<message::Replica> {
    let message = |(replica, given): (&Replica, u8)| message::Replica {
        instance: replica.instance.into(),
        port_kind: Some(match given {
            AS_BYTES => PortKind::Port(canonical::encode(replica.port.into())),
            _ => PortKind::EgressPort(replica.port.into()),
        }),
        backup_replicas: Vec::new(),
    };
    replicas.iter().zip(note.iter().copied().chain(std::iter::repeat(AS_NUMBER))).map(message).collect()
}

fn entity(kind: Replication) -> Entity {
    let entry = message::PacketReplicationEngineEntry { r#type: Some(kind) };
    Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}
