//! Multicast groups.

use std::collections::BTreeSet;

use tributary_p4runtime::Code;
use tributary_p4runtime::entry::{LAST_GROUP, MulticastGroup, Query, Replica};
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type;
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::{self as message, update};

use crate::fixture::{INFO, PORT, Rig, code, delete, insert, modify, read, read_raw, update as send};

fn entity(kind: Type) -> message::Entity {
    let entry = message::PacketReplicationEngineEntry { r#type: Some(kind) };
    message::Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}

/// Makes an update of a group that only a client without checks would send.
fn unchecked(id: u32, replicas: &[(PortKind, u32)]) -> message::Update {
    let replicas = replicas.iter().map(|(port, instance)| message::Replica {
        port_kind: Some(port.clone()),
        instance: *instance,
        backup_replicas: Vec::new(),
    });
    let group = message::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.collect(),
        metadata: Vec::new(),
    };
    let entity = entity(Type::MulticastGroupEntry(group));
    message::Update { r#type: update::Type::Insert.into(), entity: Some(entity) }
}

#[tokio::test]
async fn a_group_is_inserted_read_modified_and_deleted() {
    let (_rig, session) = Rig::with_program().await;
    let two = MulticastGroup {
        id: 9,
        replicas: BTreeSet::from([(1, 0), (1, 1), (2, 0)].map(|(port, instance)| Replica { port, instance })),
    };
    let last = MulticastGroup::to_ports(LAST_GROUP, [510]);
    session.write(vec![insert(two.clone()), insert(last.clone())]).await.unwrap();
    assert_eq!(read(&session, Query::AllGroups).await, [two.clone().into(), last.clone().into()]);
    assert_eq!(read(&session, Query::Group(9)).await, [two.clone().into()]);
    assert_eq!(code(&session, insert(two.clone())).await, Code::AlreadyExists);
    let fewer = MulticastGroup::to_ports(9, [4]);
    session.write(vec![modify(fewer.clone())]).await.unwrap();
    assert_eq!(read(&session, Query::Group(9)).await, [fewer.clone().into()]);
    session.write(vec![delete(fewer.clone()), delete(last)]).await.unwrap();
    assert!(read(&session, Query::AllGroups).await.is_empty());
    assert_eq!(code(&session, delete(fewer.clone())).await, Code::NotFound);
    assert_eq!(code(&session, modify(fewer)).await, Code::NotFound);
    let pattern = Query::Group(9).to_proto(&INFO).unwrap();
    assert_eq!(session.read(vec![pattern]).await.unwrap_err().code(), Some(Code::NotFound));
}

/// Makes the entity of a group.
fn raw(group: message::MulticastGroupEntry) -> Kind {
    let r#type = Some(Type::MulticastGroupEntry(group));
    Kind::PacketReplicationEngineEntry(message::PacketReplicationEngineEntry { r#type })
}

#[tokio::test]
async fn ports_and_metadata_are_read_as_they_were_written() {
    let (_rig, session) = Rig::with_program().await;
    let replica = |port_kind, instance| message::Replica {
        port_kind: Some(port_kind),
        instance,
        backup_replicas: Vec::new(),
    };
    let group = message::MulticastGroupEntry {
        multicast_group_id: 3,
        replicas: vec![replica(PortKind::EgressPort(1), 0), replica(PortKind::Port(vec![1, 2]), 5)],
        metadata: vec![0xca, 0xfe],
    };
    let insert = send(update::Type::Insert, raw(group.clone()));
    session.write(vec![insert]).await.unwrap();
    let pattern = raw(message::MulticastGroupEntry { multicast_group_id: 3, ..Default::default() });
    assert_eq!(read_raw(&session, pattern.clone()).await, [raw(group.clone())]);
    let changed = message::MulticastGroupEntry { metadata: Vec::new(), ..group };
    session.write(vec![send(update::Type::Modify, raw(changed.clone()))]).await.unwrap();
    assert_eq!(read_raw(&session, pattern).await, [raw(changed)]);
}

#[tokio::test]
async fn a_replica_whose_port_is_down_is_replaced_by_its_best_backup() {
    let (rig, session) = crate::clones::start().await;
    let backup = |port: u8, instance| message::BackupReplica { port: vec![port], instance };
    let replica = |port: u8, instance, backup_replicas: Vec<_>| message::Replica {
        port_kind: Some(PortKind::Port(vec![port])),
        instance,
        backup_replicas,
    };
    let live = PORT as u8;
    let group = message::MulticastGroupEntry {
        multicast_group_id: 9,
        replicas: vec![
            // The ports 70 to 73 have no link.
            replica(70, 1, vec![backup(71, 2), backup(live, 3)]),
            replica(72, 4, vec![backup(73, 5)]),
            replica(live, 6, vec![backup(73, 7)]),
        ],
        metadata: Vec::new(),
    };
    let insert = send(update::Type::Insert, raw(group.clone()));
    session.write(vec![insert]).await.unwrap();
    let pattern = raw(message::MulticastGroupEntry::default());
    assert_eq!(read_raw(&session, pattern).await, [raw(group.clone())]);
    let mut rig = rig;
    // The byte 7 is the order CLONE_AND_FLOOD.
    rig.send(&[&[7][..], &[0; 59]].concat());
    let mut instances = Vec::new();
    for _ in 0..2 {
        let frame;
        (rig, frame) = rig.receive().await;
        instances.push(frame[1]);
    }
    assert_eq!(instances, [3, 6]);

    let own_port = message::MulticastGroupEntry {
        multicast_group_id: 10,
        replicas: vec![replica(70, 1, vec![backup(70, 2)])],
        ..Default::default()
    };
    let twice = message::MulticastGroupEntry {
        multicast_group_id: 10,
        replicas: vec![replica(70, 1, vec![backup(71, 1)]), replica(71, 1, Vec::new())],
        ..Default::default()
    };
    for bad in [own_port, twice] {
        let bad = send(update::Type::Insert, raw(bad));
        assert_eq!(code(&session, bad).await, Code::InvalidArgument);
    }
}

#[tokio::test]
async fn groups_that_can_not_be_are_refused() {
    let (_rig, session) = Rig::with_program().await;
    let port = PortKind::EgressPort;
    assert_eq!(code(&session, unchecked(0, &[(port(1), 0)])).await, Code::InvalidArgument);
    let delete_zero = message::Update { r#type: update::Type::Delete.into(), ..unchecked(0, &[]) };
    assert_eq!(code(&session, delete_zero).await, Code::InvalidArgument);
    assert_eq!(code(&session, unchecked(LAST_GROUP + 1, &[(port(1), 0)])).await, Code::OutOfRange);
    let twice = [(port(1), 3), (PortKind::Port(vec![0, 1]), 3)];
    assert_eq!(code(&session, unchecked(1, &twice)).await, Code::InvalidArgument);
    assert_eq!(code(&session, unchecked(1, &[(port(70_000), 0)])).await, Code::InvalidArgument);
    assert_eq!(code(&session, unchecked(1, &[(port(1), 70_000)])).await, Code::InvalidArgument);
    assert_eq!(code(&session, unchecked(1, &[(PortKind::Port(Vec::new()), 0)])).await, Code::InvalidArgument);
    assert!(read(&session, Query::AllGroups).await.is_empty());
}
