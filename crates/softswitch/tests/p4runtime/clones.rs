//! Clone sessions, and packets that take another pass, with `programs/paths.p4`.

use std::sync::LazyLock;

use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type;
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::{self as message, CloneSessionEntry, update::Type as Update};
use tributary_p4runtime::{Code, P4Info, Session};

use crate::fixture::{PORT, Rig, code, read_raw, update};

const JSON: &str = include_str!("../programs/paths.json");
static PATHS: LazyLock<P4Info> =
    LazyLock::new(|| P4Info::parse(include_str!("../programs/paths.p4info.txtpb")).unwrap());

/// Starts a switch that runs the program, and connects its primary controller.
pub(crate) async fn start() -> (Rig, Session) {
    Rig::running(JSON, &PATHS).await
}

fn entity(session: &CloneSessionEntry) -> Entity {
    let kind = Some(Type::CloneSessionEntry(session.clone()));
    Entity::PacketReplicationEngineEntry(message::PacketReplicationEngineEntry { r#type: kind })
}

/// Makes a session with a copy to the only port.
fn session(id: u32) -> CloneSessionEntry {
    let replica = message::Replica {
        instance: 4,
        port_kind: Some(PortKind::EgressPort(PORT.into())),
        backup_replicas: Vec::new(),
    };
    CloneSessionEntry {
        session_id: id,
        replicas: vec![replica],
        class_of_service: 2,
        packet_length_bytes: 100,
    }
}

/// Returns a pattern that reads a session; 0 reads all sessions.
fn pattern(id: u32) -> Entity {
    entity(&CloneSessionEntry { session_id: id, ..Default::default() })
}

#[tokio::test]
async fn a_session_is_inserted_read_modified_and_deleted() {
    let (_rig, controller) = Rig::running(JSON, &PATHS).await;
    let (five, last) = (session(5), session(0x7fff));
    for one in [&last, &five] {
        assert_eq!(code(&controller, update(Update::Insert, entity(one))).await, Code::Ok);
    }
    assert_eq!(code(&controller, update(Update::Insert, entity(&five))).await, Code::AlreadyExists);
    assert_eq!(read_raw(&controller, pattern(0)).await, [entity(&five), entity(&last)]);
    let changed = CloneSessionEntry { packet_length_bytes: 0, replicas: Vec::new(), ..five };
    assert_eq!(code(&controller, update(Update::Modify, entity(&changed))).await, Code::Ok);
    assert_eq!(read_raw(&controller, pattern(5)).await, [entity(&changed)]);
    // A DELETE ignores all fields except the id.
    let broken = CloneSessionEntry { packet_length_bytes: -1, ..session(5) };
    assert_eq!(code(&controller, update(Update::Delete, entity(&broken))).await, Code::Ok);
    assert_eq!(code(&controller, update(Update::Delete, entity(&changed))).await, Code::NotFound);
    assert_eq!(code(&controller, update(Update::Modify, entity(&changed))).await, Code::NotFound);
    assert_eq!(read_raw(&controller, pattern(0)).await, [entity(&last)]);
}

#[tokio::test]
async fn sessions_that_can_not_be_are_refused() {
    let (_rig, controller) = Rig::running(JSON, &PATHS).await;
    let insert = |session: &CloneSessionEntry| update(Update::Insert, entity(session));
    assert_eq!(code(&controller, insert(&session(0))).await, Code::InvalidArgument);
    assert_eq!(code(&controller, insert(&session(0x8000))).await, Code::OutOfRange);
    let mut odd = session(1);
    odd.packet_length_bytes = -1;
    assert_eq!(code(&controller, insert(&odd)).await, Code::InvalidArgument);
    let mut twice = session(1);
    twice.replicas.extend(session(1).replicas);
    assert_eq!(code(&controller, insert(&twice)).await, Code::InvalidArgument);
    let mut nowhere = session(1);
    nowhere.replicas[0].port_kind = None;
    assert_eq!(code(&controller, insert(&nowhere)).await, Code::InvalidArgument);
    assert!(read_raw(&controller, pattern(0)).await.is_empty());
}

#[tokio::test]
async fn a_clone_leaves_while_another_packet_recirculates_for_ever() {
    let (mut rig, controller) = Rig::running(JSON, &PATHS).await;
    controller.write(vec![update(Update::Insert, entity(&session(5)))]).await.unwrap();
    let padding = [0; 60];
    // The order for egress is to recirculate, with the session that is recirculated forever.
    rig.send(&[&[0, 6, 0, 0xff, 0, 0][..], &padding].concat());
    // The order for ingress is to clone to session 5 and to drop the packet.
    rig.send(&[&[3, 0, 0, 5, 0, 0][..], &padding].concat());
    let (_rig, frame) = rig.receive().await;
    // The frame has the instance type of an ingress clone, and the replica's instance.
    assert_eq!(frame[..2], [1, 4]);
}
