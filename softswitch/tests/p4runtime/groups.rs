//! Multicast groups.

use std::collections::BTreeSet;

use tributary_p4runtime::Code;
use tributary_p4runtime::entry::{LAST_GROUP, MulticastGroup, Query, Replica};
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type;
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::{self as message, update};

use crate::fixture::{INFO, Rig, code, delete, insert, modify, read};

fn entity(kind: Type) -> message::Entity {
    let entry = message::PacketReplicationEngineEntry { r#type: Some(kind) };
    message::Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}

/// A group that only a client without checks would send.
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
