//! Batches that are carried out as a whole or not at all.

use prost::Message;
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::table_action::Type::ActionProfileMemberId as MemberId;
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, entity::Entity, write_request::Atomicity};
use tributary_p4runtime::{Code, Session};

use crate::externs::{call, entry, id, start, table};
use crate::fixture::{DEVICE, Rig, read_raw, update};

/// Writes a batch. Returns the code of each update, or nothing if all were carried out.
async fn batch(
    rig: &Rig,
    session: &Session,
    atomicity: Atomicity,
    updates: Vec<message::Update>,
) -> Vec<Code> {
    let request = message::WriteRequest {
        device_id: DEVICE,
        election_id: Some(message::Uint128 { high: 0, low: session.election_id() as u64 }),
        updates,
        atomicity: atomicity.into(),
        ..Default::default()
    };
    let mut client = rig.client().await;
    let Err(status) = client.write(request).await else { return Vec::new() };
    let details = rpc::Status::decode(status.details()).unwrap().details;
    let code = |detail: &prost_types::Any| {
        let error: message::Error = detail.to_msg().unwrap();
        Code::try_from(error.canonical_code).unwrap()
    };
    details.iter().map(code).collect()
}

/// Reads all entities that controllers have written, and the counters.
async fn everything(session: &Session) -> Vec<Entity> {
    let table_entry = Some(message::TableEntry::default());
    let patterns = [
        Entity::TableEntry(message::TableEntry {
            meter_config: Some(message::MeterConfig::default()),
            counter_data: Some(message::CounterData::default()),
            ..Default::default()
        }),
        Entity::TableEntry(message::TableEntry { is_default_action: true, ..Default::default() }),
        Entity::DirectCounterEntry(message::DirectCounterEntry { table_entry, data: None }),
        Entity::ActionProfileMember(message::ActionProfileMember::default()),
        Entity::ActionProfileGroup(message::ActionProfileGroup::default()),
        Entity::MeterEntry(message::MeterEntry::default()),
        Entity::RegisterEntry(message::RegisterEntry::default()),
        Entity::ValueSetEntry(message::ValueSetEntry::default()),
        Entity::DigestEntry(message::DigestEntry::default()),
        group(0),
    ];
    let mut all = Vec::new();
    for pattern in patterns {
        let mut found = read_raw(session, pattern).await;
        // The entries of a table have no order.
        found.sort_by_key(|entity| format!("{entity:?}"));
        all.extend(found);
    }
    all
}

fn group(id: u32) -> Entity {
    let group = message::MulticastGroupEntry { multicast_group_id: id, ..Default::default() };
    let kind = message::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    Entity::PacketReplicationEngineEntry(message::PacketReplicationEngineEntry { r#type: Some(kind) })
}

fn member(member_id: u32, value: u8) -> Entity {
    let (action_profile_id, action) = (id("plain"), Some(call("choose", &[value])));
    Entity::ActionProfileMember(message::ActionProfileMember { action_profile_id, member_id, action })
}

#[tokio::test]
async fn a_batch_with_a_failure_changes_nothing() {
    let (rig, session) = start().await;
    let there = entry("indirect", 1, MemberId(1));
    let before = vec![
        update(Update::Insert, member(1, 10)),
        update(Update::Insert, member(2, 20)),
        update(Update::Insert, table(&there)),
        update(Update::Insert, group(1)),
    ];
    session.write(before).await.unwrap();
    let state = everything(&session).await;

    let set = message::ValueSetEntry {
        value_set_id: id("specials"),
        members: vec![message::ValueSetMember { r#match: there.r#match.clone() }],
    };
    let rates = message::MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1, eburst: 0 };
    let meter =
        message::MeterEntry { meter_id: id("packet_meters"), config: Some(rates), ..Default::default() };
    let register = message::RegisterEntry {
        register_id: id("narrow_register"),
        index: None,
        data: Some(message::P4Data { data: Some(message::p4_data::Data::Bitstring(vec![7])) }),
    };
    let digest = message::DigestEntry { digest_id: id("learned_t"), config: None };
    let good = vec![
        update(Update::Delete, table(&there)),
        update(Update::Delete, member(1, 0)),
        update(Update::Modify, member(2, 21)),
        update(Update::Insert, table(&entry("indirect", 2, MemberId(2)))),
        update(Update::Insert, group(2)),
        update(Update::Delete, group(1)),
        update(Update::Modify, Entity::ValueSetEntry(set)),
        update(Update::Modify, Entity::MeterEntry(meter)),
        update(Update::Modify, Entity::RegisterEntry(register)),
        update(Update::Insert, Entity::DigestEntry(digest)),
    ];
    let bad = update(Update::Insert, member(2, 0));
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let all = [good.clone(), vec![bad.clone()]].concat();
        let codes = batch(&rig, &session, atomicity, all).await;
        let (last, others) = codes.split_last().unwrap();
        assert_eq!(*last, Code::AlreadyExists);
        assert_eq!(others, [Code::Aborted; 10]);
        assert_eq!(everything(&session).await, state, "{atomicity:?}");
    }
    // A batch with an update that the server cannot parse is also rolled back.
    let unreadable = vec![good[4].clone(), message::Update::default()];
    let codes = batch(&rig, &session, Atomicity::RollbackOnError, unreadable).await;
    assert_eq!(codes, [Code::Aborted, Code::InvalidArgument]);
    assert_eq!(everything(&session).await, state);

    assert_eq!(batch(&rig, &session, Atomicity::DataplaneAtomic, good).await, []);
    assert_ne!(everything(&session).await, state);
}
