//! Writes and reads of entities, valid or not, one group of steps after another.

use tributary_p4runtime::entry::{ActionCall, CounterCell, MulticastGroup, Query, TableEntry};
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use tributary_p4runtime::p4::v1::replica::PortKind;
use tributary_p4runtime::p4::v1::{self as message, Update, field_match, table_action, update};

use crate::pair::{DEVICE, ETHERNET};
use crate::requests::Subject;
use crate::steps::{delete, forward, guard, identity, insert, modify, query};

/// Makes an update with a table entry that the client's checks would refuse.
fn tampered(mut update: Update, change: impl FnOnce(&mut message::TableEntry)) -> Update {
    match update.entity.as_mut().and_then(|entity| entity.entity.as_mut()) {
        Some(Kind::TableEntry(entry)) => change(entry),
        other => panic!("not a table entry: {other:?}"),
    }
    update
}

fn set_key(entry: &mut message::TableEntry, bytes: &[u8]) {
    let exact = field_match::Exact { value: bytes.to_vec() };
    entry.r#match[0].field_match_type = Some(field_match::FieldMatchType::Exact(exact));
}

fn set_action(entry: &mut message::TableEntry, change: impl FnOnce(&mut message::Action)) {
    match entry.action.as_mut().and_then(|action| action.r#type.as_mut()) {
        Some(table_action::Type::Action(action)) => change(action),
        other => panic!("not an action: {other:?}"),
    }
}

type Change = fn(&mut message::TableEntry);
const SENSELESS: [(&str, Change); 18] = [
    ("entry, no table", |entry| entry.table_id = 0),
    ("entry, unknown table", |entry| entry.table_id = 0x0200_0000),
    ("entry, id of an action", |entry| entry.table_id = 0x0100_0001),
    ("entry, missing field", |entry| entry.r#match.clear()),
    ("entry, repeated field", |entry| entry.r#match.push(entry.r#match[0].clone())),
    ("entry, unknown field", |entry| entry.r#match[0].field_id = 99),
    ("entry, no bytes", |entry| set_key(entry, &[])),
    ("entry, too many bits", |entry| set_key(entry, &[1, 0, 0, 0, 0, 0, 0])),
    ("entry, another kind of match", |entry| {
        let lpm = field_match::Lpm { value: vec![1], prefix_len: 8 };
        entry.r#match[0].field_match_type = Some(field_match::FieldMatchType::Lpm(lpm));
    }),
    ("entry, no match", |entry| entry.r#match[0].field_match_type = None),
    ("entry, priority", |entry| entry.priority = 1),
    ("entry, no action", |entry| entry.action = None),
    ("entry, unknown action", |entry| set_action(entry, |action| action.action_id = 0x0100_0000)),
    ("entry, action of another table", |entry| {
        set_action(entry, |action| action.action_id = ETHERNET.info.action("allow").unwrap().name.id);
    }),
    ("entry, missing parameter", |entry| set_action(entry, |action| action.params.clear())),
    ("entry, unknown parameter", |entry| set_action(entry, |action| action.params[0].param_id = 9)),
    ("entry, repeated parameter", |entry| {
        set_action(entry, |action| action.params.push(action.params[0].clone()));
    }),
    ("entry, wide parameter", |entry| set_action(entry, |action| action.params[0].value = vec![2, 0])),
];

pub(crate) async fn entries(on: &mut Subject) {
    on.write("no update", Vec::new()).await;
    for (step, change) in SENSELESS {
        on.write(step, vec![tampered(insert(forward(1, 1)), change)]).await;
    }
    on.read("senseless entries", query(&Query::Table("mac_forward".to_owned()))).await;
    on.clean(vec![delete(forward(0, 1))]).await;
    let batch = vec![
        insert(forward(1, 1)),
        insert(forward(1, 1)),
        insert(forward(1, 2)),
        modify(forward(2, 2)),
        delete(forward(2, 2)),
        tampered(insert(forward(3, 3)), |entry| set_key(entry, &[1; 7])),
        insert(forward(4, 4)),
    ];
    on.write("batch of good and bad", batch).await;
    on.write("leading zeros", vec![tampered(insert(forward(5, 5)), |entry| set_key(entry, &[0, 0, 5]))])
        .await;
    on.write(
        "leading zeros beyond the width",
        vec![tampered(insert(forward(6, 6)), |entry| set_key(entry, &[0, 0, 0, 0, 0, 0, 0, 0, 6]))],
    )
    .await;
    on.write("delete with an action", vec![delete(forward(5, 9))]).await;
    on.write("modify", vec![modify(forward(4, 9))]).await;
    on.write(
        "metadata",
        vec![tampered(insert(forward(7, 7)), |entry| {
            entry.metadata = b"mine".to_vec();
            entry.controller_metadata = 9;
        })],
    )
    .await;
    on.write("idle timeout", vec![tampered(insert(forward(8, 8)), |entry| entry.idle_timeout_ns = 5)]).await;
    let unspecified = Update { r#type: update::Type::Unspecified.into(), ..insert(forward(9, 9)) };
    on.write("update of no type", vec![unspecified]).await;
    on.write("update of nothing", vec![Update { r#type: update::Type::Insert.into(), entity: None }]).await;
    on.read("entries", query(&Query::AllTables)).await;

    on.write("default, modify", vec![modify(identity(12))]).await;
    on.read("default", query(&Query::Entry(identity(0)))).await;
    on.write("default, insert", vec![insert(identity(13))]).await;
    on.write("default, delete", vec![delete(identity(13))]).await;
    on.write("default, reset", vec![modify(identity(0).place())]).await;
    on.read("default after reset", query(&Query::Entry(identity(0)))).await;
    on.write(
        "default with a key",
        vec![tampered(modify(forward(1, 1)), |entry| entry.is_default_action = true)],
    )
    .await;
    let keyless = TableEntry::new("identity").action(ActionCall::new("set_identity").with("node", 1u8));
    on.write("entry without a key", vec![insert(keyless)]).await;
    on.read("defaults", query(&Query::AllDefaults)).await;
    let size = ETHERNET.info.table("egress_guard").unwrap().size.unwrap() as u16;
    for first in (0..size).step_by(1000) {
        let some = (first..size.min(first + 1000)).map(|job| insert(guard(job, 1)));
        on.prepare(some.collect()).await;
    }
    on.write("one more than a table holds", vec![insert(guard(size, 1))]).await;
    on.write("a repeated one in a full table", vec![insert(guard(0, 1))]).await;
    on.read("a full table", query(&Query::Table("egress_guard".to_owned()))).await;
    for first in (0..size).step_by(1000) {
        let some = (first..size.min(first + 1000)).map(|job| delete(guard(job, 1)));
        on.prepare(some.collect()).await;
    }
}

pub(crate) async fn counters(on: &mut Subject) {
    let cell = |index| CounterCell { counter: "job_received".to_owned(), index, packets: 3, bytes: 400 };
    let raw = |counter_id, index: Option<i64>, packets| {
        let data = Some(message::CounterData { packet_count: packets, byte_count: 0 });
        let index = index.map(|index| message::Index { index });
        let entity = Kind::CounterEntry(message::CounterEntry { counter_id, index, data });
        message::Entity { entity: Some(entity) }
    };
    let update = |entity| vec![Update { r#type: update::Type::Modify.into(), entity: Some(entity) }];
    let counter = ETHERNET.info.counter("job_received").unwrap();
    let (id, size) = (counter.name.id, counter.size as i64);
    on.write("counter, modify", vec![modify(cell(4))]).await;
    on.write("counter, insert", vec![insert(cell(4))]).await;
    on.write("counter, delete", vec![delete(cell(4))]).await;
    on.read("counter", query(&Query::CounterCell("job_received".to_owned(), 4))).await;
    on.write("counter, out of range", update(raw(id, Some(size), 1))).await;
    on.write("counter, negative index", update(raw(id, Some(-1), 1))).await;
    on.write("counter, unknown", update(raw(0x1200_0000, Some(0), 1))).await;
    on.write("counter, no id", update(raw(0, Some(0), 1))).await;
    on.read("counter, read out of range", raw(id, Some(size), 0)).await;
    on.read("counter, read a negative index", raw(id, Some(-1), 0)).await;
    on.read("counter, read an unknown one", raw(0x1200_0000, None, 0)).await;
    on.read("counter, read an index of none", raw(0, Some(1), 0)).await;
    on.read("counter, all cells", query(&Query::Counter("job_received".to_owned()))).await;
    on.write("counter, all cells at once", update(raw(id, None, 0))).await;
    on.read("all counters", query(&Query::AllCounters)).await;
}

fn replication(kind: Replication) -> message::Entity {
    let entry = message::PacketReplicationEngineEntry { r#type: Some(kind) };
    message::Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}

/// Makes a group that only a client without checks would send.
fn group(id: u32, replicas: &[(PortKind, u32)]) -> message::Entity {
    let replica = |(port, instance): &(PortKind, u32)| message::Replica {
        port_kind: Some(port.clone()),
        instance: *instance,
        backup_replicas: Vec::new(),
    };
    replication(Replication::MulticastGroupEntry(message::MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.iter().map(replica).collect(),
        metadata: Vec::new(),
    }))
}

pub(crate) async fn groups(on: &mut Subject) {
    use PortKind::{EgressPort, Port};
    let update = |entity| vec![Update { r#type: update::Type::Insert.into(), entity: Some(entity) }];
    let nine = MulticastGroup::to_ports(9, [1, 2]);
    on.write("group, insert", vec![insert(nine.clone())]).await;
    on.write("group, insert again", vec![insert(nine.clone())]).await;
    on.write("group, modify", vec![modify(MulticastGroup::to_ports(9, [2, 3]))]).await;
    on.read("group", query(&Query::Group(9))).await;
    on.write("group, modify a missing one", vec![modify(MulticastGroup::to_ports(8, [2]))]).await;
    on.write("group, delete a missing one", vec![delete(MulticastGroup::to_ports(8, [2]))]).await;
    on.read("group, read a missing one", query(&Query::Group(8))).await;
    on.write("group of nobody", update(group(10, &[]))).await;
    on.write("group 0", update(group(0, &[(EgressPort(1), 0)]))).await;
    on.write("the last group", update(group(0x7fff, &[(EgressPort(1), 0)]))).await;
    on.write("group beyond the last", update(group(0x8000, &[(EgressPort(1), 0)]))).await;
    on.write("group with a replica twice", update(group(11, &[(EgressPort(1), 0), (EgressPort(1), 0)])))
        .await;
    on.write("group with a port twice", update(group(12, &[(EgressPort(1), 0), (EgressPort(1), 1)]))).await;
    on.write("group with port 0", update(group(13, &[(EgressPort(0), 0)]))).await;
    on.write("group with a port as bytes", update(group(14, &[(Port(vec![3]), 0)]))).await;
    on.write("group with the CPU port", update(group(15, &[(EgressPort(510), 0)]))).await;
    on.write("group with the drop port", update(group(16, &[(EgressPort(511), 0)]))).await;
    on.write("group with a port of 10 bits", update(group(17, &[(EgressPort(512), 0)]))).await;
    on.write("group with a large instance", update(group(18, &[(EgressPort(1), 65535)]))).await;
    on.write("group with a larger instance", update(group(19, &[(EgressPort(1), 65536)]))).await;
    for id in [9, 10, 0x7fff] {
        on.prepare(vec![delete(MulticastGroup { id, ..Default::default() })]).await;
    }
    for (step, id) in [
        ("delete group 11", 11),
        ("delete group 12", 12),
        ("delete group 13", 13),
        ("delete group 14", 14),
        ("delete group 15", 15),
        ("delete group 16", 16),
        ("delete group 17", 17),
        ("delete group 18", 18),
        ("delete group 19", 19),
    ] {
        on.write(step, vec![delete(MulticastGroup { id, ..Default::default() })]).await;
    }
    on.read("all groups", query(&Query::AllGroups)).await;
}

pub(crate) async fn other_kinds(on: &mut Subject) {
    let clone = message::CloneSessionEntry {
        session_id: 5,
        replicas: vec![message::Replica {
            port_kind: Some(PortKind::EgressPort(1)),
            instance: 1,
            backup_replicas: Vec::new(),
        }],
        ..Default::default()
    };
    let direct = message::DirectCounterEntry {
        table_entry: insert(guard(1, 1)).entity.and_then(|entity| match entity.entity {
            Some(Kind::TableEntry(entry)) => Some(entry),
            _ => None,
        }),
        data: None,
    };
    let register = message::RegisterEntry { register_id: 0x1600_0001, ..Default::default() };
    let kinds: [(&str, &str, message::Entity); 10] = [
        ("write a clone session", "read a clone session", replication(Replication::CloneSessionEntry(clone))),
        ("write a register", "read a register", kind(Kind::RegisterEntry(register))),
        ("write a meter", "read a meter", kind(Kind::MeterEntry(message::MeterEntry::default()))),
        (
            "write a direct meter",
            "read a direct meter",
            kind(Kind::DirectMeterEntry(message::DirectMeterEntry::default())),
        ),
        ("write a direct counter", "read a direct counter", kind(Kind::DirectCounterEntry(direct))),
        (
            "write a member",
            "read a member",
            kind(Kind::ActionProfileMember(message::ActionProfileMember::default())),
        ),
        (
            "write a profile group",
            "read a profile group",
            kind(Kind::ActionProfileGroup(message::ActionProfileGroup::default())),
        ),
        ("write a digest", "read a digest", kind(Kind::DigestEntry(message::DigestEntry::default()))),
        (
            "write a value set",
            "read a value set",
            kind(Kind::ValueSetEntry(message::ValueSetEntry::default())),
        ),
        ("write an extern", "read an extern", kind(Kind::ExternEntry(message::ExternEntry::default()))),
    ];
    for (write, read, entity) in kinds {
        let update = |kind: update::Type| Update { r#type: kind.into(), entity: Some(entity.clone()) };
        on.write(write, vec![update(update::Type::Insert)]).await;
        on.read(read, entity.clone()).await;
        on.clean(vec![update(update::Type::Delete)]).await;
    }
}

fn kind(kind: Kind) -> message::Entity {
    message::Entity { entity: Some(kind) }
}

pub(crate) async fn reads(on: &mut Subject) {
    on.prepare(vec![insert(guard(1, 1)), insert(guard(2, 2))]).await;
    on.read_of("read nothing", DEVICE, Vec::new()).await;
    on.read("read an entity of no kind", message::Entity { entity: None }).await;
    on.read("read one entry", query(&Query::Entry(guard(1, 1)))).await;
    on.read("read a missing entry", query(&Query::Entry(guard(3, 3)))).await;
    on.read("read one table", query(&Query::Table("egress_guard".to_owned()))).await;
    on.read(
        "read an unknown table",
        kind(Kind::TableEntry(message::TableEntry { table_id: 9, ..Default::default() })),
    )
    .await;
    on.read(
        "read an entry by its action",
        tampered(insert(guard(9, 9)), |entry| entry.r#match.clear()).entity.unwrap(),
    )
    .await;
    on.read(
        "read with an incomplete key",
        tampered(insert(guard(1, 1)), |entry| entry.r#match.truncate(1)).entity.unwrap(),
    )
    .await;
    let two = vec![query(&Query::Entry(guard(1, 1))), query(&Query::Table("mac_forward".to_owned()))];
    on.read_of("read two patterns", DEVICE, two).await;
    let one_bad = vec![query(&Query::Entry(guard(1, 1))), message::Entity { entity: None }];
    on.read_of("read two patterns, one bad", DEVICE, one_bad).await;
}
