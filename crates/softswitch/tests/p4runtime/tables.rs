//! Entries and default actions.

use std::collections::BTreeSet;

use tributary_p4runtime::entry::{ActionCall, Query, TableEntry};
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::field_match::FieldMatchType;
use tributary_p4runtime::p4::v1::{self as message, update};
use tributary_p4runtime::{Code, Session};

use crate::fixture::{
    INFO, Rig, admission, admit, code, delete, entries, failures, guard, insert, modify, read,
};

/// Makes an update with a table entry that the client's checks would refuse.
fn tampered(mut update: message::Update, change: impl FnOnce(&mut message::TableEntry)) -> message::Update {
    let Some(Kind::TableEntry(entry)) = update.entity.as_mut().and_then(|entity| entity.entity.as_mut())
    else {
        panic!("not a table entry: {update:?}")
    };
    change(entry);
    update
}

fn set_key(entry: &mut message::TableEntry, bytes: &[u8]) {
    let value = bytes.to_vec();
    entry.r#match[0].field_match_type = Some(FieldMatchType::Exact(message::field_match::Exact { value }));
}

async fn raw(session: &Session) -> Vec<message::TableEntry> {
    let found = session.read(vec![Query::AllTables.to_proto(&INFO).unwrap()]).await.unwrap();
    found
        .into_iter()
        .map(|entity| match entity.entity {
            Some(Kind::TableEntry(entry)) => entry,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[tokio::test]
async fn an_entry_is_inserted_read_modified_and_deleted() {
    let (_rig, session) = Rig::with_program().await;
    let entry = admission(7, 259);
    session.write(vec![insert(entry.clone())]).await.unwrap();
    assert_eq!(read(&session, Query::Entry(entry.clone())).await, [entry.clone().into()]);
    let changed = admission(7, 259).action(admit(4032));
    session.write(vec![modify(changed.clone())]).await.unwrap();
    assert_eq!(entries(&session, "admission").await, std::slice::from_ref(&changed));
    session.write(vec![delete(changed.place())]).await.unwrap();
    assert!(entries(&session, "admission").await.is_empty());
    assert!(read(&session, Query::Entry(entry)).await.is_empty(), "what is not there is not an error");
}

#[tokio::test]
async fn every_update_of_a_batch_is_tried_and_told_apart() {
    let (_rig, session) = Rig::with_program().await;
    let failures = failures(
        &session,
        vec![
            insert(admission(1, 1)),
            insert(admission(1, 1)),
            modify(admission(2, 2)),
            delete(admission(2, 2)),
            tampered(insert(admission(3, 3)), |entry| set_key(entry, &[1, 0, 0])),
            insert(admission(4, 4)),
        ],
    )
    .await;
    let told: Vec<_> = failures.iter().map(|failure| (failure.index, failure.code)).collect();
    let expected =
        [(1, Code::AlreadyExists), (2, Code::NotFound), (3, Code::NotFound), (4, Code::InvalidArgument)];
    assert_eq!(told, expected);
    assert!(failures.iter().all(|failure| failure.reason.contains("admission")), "{failures:?}");
    let there: BTreeSet<_> = entries(&session, "admission").await.into_iter().collect();
    assert_eq!(there, BTreeSet::from([admission(1, 1), admission(4, 4)]));
}

#[tokio::test]
async fn a_batch_that_fails_throughout_is_told_throughout() {
    let (_rig, session) = Rig::with_program().await;
    let updates = (0..2500).map(|job| modify(admission(job, 1))).collect();
    let failures = failures(&session, updates).await;
    assert_eq!(failures.len(), 2500);
    assert!(failures.iter().enumerate().all(|(at, one)| one.index == at && one.code == Code::NotFound));
}

#[tokio::test]
async fn what_contradicts_the_program_is_an_invalid_argument() {
    let (_rig, session) = Rig::with_program().await;
    type Change = fn(&mut message::TableEntry);
    let changes: [(&str, Change); 11] = [
        ("unknown table", |entry| entry.table_id = 0x0200_0000),
        ("missing field", |entry| entry.r#match.truncate(1)),
        ("repeated field", |entry| entry.r#match[1] = entry.r#match[0].clone()),
        ("unknown field", |entry| entry.r#match[0].field_id = 99),
        ("empty byte string", |entry| set_key(entry, &[])),
        ("priority", |entry| entry.priority = 1),
        ("no action", |entry| entry.action = None),
        ("unknown action", |entry| set_action(entry, |action| action.action_id = 0x0100_0000)),
        ("missing parameter", |entry| set_action(entry, |action| action.params.truncate(3))),
        ("wide parameter", |entry| set_action(entry, |action| action.params[0].value = vec![1; 20])),
        ("idle timeout", |entry| entry.idle_timeout_ns = 5),
    ];
    for (what, change) in changes {
        let code = code(&session, tampered(insert(admission(1, 1)), change)).await;
        assert_eq!(code, Code::InvalidArgument, "{what}");
    }
    let unset = message::Update { r#type: update::Type::Unspecified.into(), ..insert(admission(1, 1)) };
    assert_eq!(code(&session, unset).await, Code::InvalidArgument);
    assert!(raw(&session).await.is_empty());
}

fn set_action(entry: &mut message::TableEntry, change: impl FnOnce(&mut message::Action)) {
    match entry.action.as_mut().and_then(|action| action.r#type.as_mut()) {
        Some(message::table_action::Type::Action(action)) => change(action),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn leading_zeros_are_accepted_and_canonical_bytes_returned() {
    let (_rig, session) = Rig::with_program().await;
    let padded = tampered(insert(admission(7, 1)), |entry| set_key(entry, &[0, 0, 0, 7]));
    assert_eq!(code(&session, padded).await, Code::Ok);
    assert_eq!(code(&session, insert(admission(7, 1))).await, Code::AlreadyExists);
    let mut expected = insert(admission(7, 1));
    let entry = raw(&session).await.remove(0);
    expected = tampered(expected, |expected| assert_eq!(expected.r#match, entry.r#match));
    tampered(expected, |expected| assert_eq!(expected.action, entry.action));
}

#[tokio::test]
async fn a_controllers_own_notes_come_back_with_an_entry() {
    let (_rig, session) = Rig::with_program().await;
    let noted = |older, newer: &'static [u8]| {
        move |entry: &mut message::TableEntry| {
            entry.controller_metadata = older;
            entry.metadata = newer.to_vec();
        }
    };
    session.write(vec![tampered(insert(admission(1, 1)), noted(9, b"mine"))]).await.unwrap();
    session.write(vec![tampered(insert(admission(2, 2)), noted(0, b"mine"))]).await.unwrap();
    let pattern =
        message::TableEntry { metadata: b"mine".to_vec(), controller_metadata: 9, ..Default::default() };
    let found =
        session.read(vec![message::Entity { entity: Some(Kind::TableEntry(pattern)) }]).await.unwrap();
    let [message::Entity { entity: Some(Kind::TableEntry(entry)) }] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((entry.controller_metadata, entry.metadata.as_slice()), (9, &b"mine"[..]));
    session.write(vec![tampered(modify(admission(1, 1)), noted(4, b""))]).await.unwrap();
    let notes = raw(&session).await.into_iter().map(|entry| (entry.controller_metadata, entry.metadata));
    assert_eq!(notes.collect::<BTreeSet<_>>(), BTreeSet::from([(4, Vec::new()), (0, b"mine".to_vec())]));
}

#[tokio::test]
async fn tables_fill_up_to_their_size_and_empty_again() {
    let (_rig, session) = Rig::with_program().await;
    let sizes = ["admission", "egress_guard"].map(|name| INFO.table(name).unwrap().size.unwrap() as u16);
    let all = |make: fn(u16, u16) -> TableEntry, size: u16| (0..size).map(move |n| make(n, n % 500));
    let everything: Vec<_> = all(admission, sizes[0]).chain(all(guard, sizes[1])).collect();
    session.write(everything.iter().cloned().map(insert).collect()).await.unwrap();
    assert_eq!(code(&session, insert(admission(u16::MAX, 1))).await, Code::ResourceExhausted);
    assert_eq!(code(&session, insert(guard(u16::MAX, 1))).await, Code::ResourceExhausted);
    assert_eq!(code(&session, insert(admission(0, 0))).await, Code::AlreadyExists, "also when it is full");
    assert_eq!(read(&session, Query::AllTables).await.len(), everything.len());
    session.write(everything.into_iter().map(delete).collect()).await.unwrap();
    assert!(read(&session, Query::AllTables).await.is_empty());
}

#[tokio::test]
async fn a_default_action_is_modified_and_reset() {
    let (_rig, session) = Rig::with_program().await;
    let identity = |node: u16| {
        TableEntry::default_of("identity").action(ActionCall::new("set_identity").with("node", node))
    };
    let current = async || read(&session, Query::Entry(identity(0))).await;
    assert_eq!(current().await, [identity(0).into()], "what the program says");
    session.write(vec![modify(identity(12))]).await.unwrap();
    assert_eq!(current().await, [identity(12).into()]);
    assert_eq!(code(&session, insert(identity(13))).await, Code::InvalidArgument);
    assert_eq!(code(&session, delete(identity(13))).await, Code::InvalidArgument);
    session.write(vec![modify(identity(0).place())]).await.unwrap();
    assert_eq!(current().await, [identity(0).into()]);
    let defaults = read(&session, Query::AllDefaults).await;
    assert_eq!(defaults.len(), INFO.tables().count());
}

#[tokio::test]
async fn a_table_without_a_key_takes_no_entries() {
    let (_rig, session) = Rig::with_program().await;
    let entry = TableEntry::new("identity").action(ActionCall::new("set_identity").with("node", 1u8));
    assert_eq!(code(&session, insert(entry)).await, Code::InvalidArgument);
}

#[tokio::test]
async fn objects_that_the_program_has_not_got_can_not_be_written() {
    let (_rig, session) = Rig::with_program().await;
    for kind in [
        Kind::RegisterEntry(message::RegisterEntry::default()),
        Kind::MeterEntry(message::MeterEntry::default()),
        Kind::DirectMeterEntry(message::DirectMeterEntry::default()),
        Kind::ActionProfileMember(message::ActionProfileMember::default()),
        Kind::ActionProfileGroup(message::ActionProfileGroup::default()),
        Kind::DigestEntry(message::DigestEntry::default()),
        Kind::ValueSetEntry(message::ValueSetEntry::default()),
    ] {
        let entity = message::Entity { entity: Some(kind.clone()) };
        let update = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity) };
        assert_eq!(code(&session, update).await, Code::InvalidArgument, "{kind:?}");
    }
}

#[tokio::test]
async fn kinds_that_this_switch_has_not_got_are_refused_by_name() {
    let (_rig, session) = Rig::with_program().await;
    // A read of all externs returns nothing.
    let all = message::Entity { entity: Some(Kind::ExternEntry(message::ExternEntry::default())) };
    assert!(session.read(vec![all]).await.unwrap().is_empty());
    let one = message::ExternEntry { extern_type_id: 0x81, ..Default::default() };
    let entity = message::Entity { entity: Some(Kind::ExternEntry(one)) };
    let update = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity.clone()) };
    let failed = failures(&session, vec![update]).await.remove(0);
    assert_eq!(failed.code, Code::Unimplemented);
    assert!(failed.reason.contains("extern"), "{}", failed.reason);
    let read = session.read(vec![entity]).await.unwrap_err();
    assert_eq!(read.code(), Some(Code::Unimplemented), "{read}");
    assert!(read.to_string().contains("extern"), "{read}");
    let nothing = message::Update { r#type: update::Type::Insert.into(), entity: None };
    assert_eq!(code(&session, nothing).await, Code::InvalidArgument);
}

#[tokio::test]
async fn a_read_covers_its_patterns_and_refuses_senseless_ones() {
    let (_rig, session) = Rig::with_program().await;
    session.write(vec![insert(admission(1, 1)), insert(guard(1, 1))]).await.unwrap();
    let patterns =
        ["admission", "egress_guard"].map(|name| Query::Table(name.to_owned()).to_proto(&INFO).unwrap());
    assert_eq!(session.read(patterns.to_vec()).await.unwrap().len(), 2);
    assert!(session.read(Vec::new()).await.unwrap().is_empty());
    let homeless = tampered(insert(admission(1, 1)), |entry| entry.table_id = 0).entity.unwrap();
    assert_eq!(session.read(vec![homeless]).await.unwrap_err().code(), Some(Code::InvalidArgument));
    let unknown = tampered(insert(admission(1, 1)), |entry| entry.table_id = 9).entity.unwrap();
    assert_eq!(session.read(vec![unknown]).await.unwrap_err().code(), Some(Code::InvalidArgument));
    let direct = message::DirectCounterEntry {
        table_entry: Some(message::TableEntry {
            table_id: INFO.table("admission").unwrap().name.id,
            ..Default::default()
        }),
        data: None,
    };
    let direct = message::Entity { entity: Some(Kind::DirectCounterEntry(direct)) };
    let refused = session.read(vec![direct]).await.unwrap_err();
    assert!(refused.to_string().contains("admission has no direct counter"), "{refused}");
}
