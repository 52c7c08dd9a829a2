//! Value sets, and entries that are part of the program, with `programs/externs.p4`.

use tributary_p4runtime::Code;
use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use tributary_p4runtime::p4::v1::table_action::Type::Action;
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, CounterData};

use crate::externs::{Request, ask, call, entry, id, start, table};
use crate::fixture::{code, read_raw, update};

fn set(values: &[u8]) -> Entity {
    let member = |value: &u8| {
        let exact = FieldMatchType::Exact(Exact { value: vec![*value] });
        let field = message::FieldMatch { field_id: 1, field_match_type: Some(exact) };
        message::ValueSetMember { r#match: vec![field] }
    };
    let members = values.iter().map(member).collect();
    Entity::ValueSetEntry(message::ValueSetEntry { value_set_id: id("specials"), members })
}

#[tokio::test]
async fn the_parser_follows_a_value_set() {
    let (rig, session) = start().await;
    let kind = |kind| Request { kind, ..Request::default() };
    let (rig, before) = ask(rig, kind(5)).await;
    session.write(vec![update(Update::Modify, set(&[5, 6]))]).await.unwrap();
    let (rig, five) = ask(rig, kind(5)).await;
    let (rig, six) = ask(rig, kind(6)).await;
    let (rig, seven) = ask(rig, kind(7)).await;
    assert_eq!([before, five, six, seven].map(|answer| answer.special), [0, 1, 1, 0]);
    let every = Entity::ValueSetEntry(message::ValueSetEntry::default());
    assert_eq!(read_raw(&session, every).await, [set(&[5, 6])]);
    session.write(vec![update(Update::Modify, set(&[]))]).await.unwrap();
    assert_eq!(ask(rig, kind(5)).await.1.special, 0);
}

#[tokio::test]
async fn value_sets_that_can_not_be_are_refused() {
    let (_rig, session) = start().await;
    assert_eq!(code(&session, update(Update::Modify, set(&[1, 2, 3]))).await, Code::ResourceExhausted);
    assert_eq!(code(&session, update(Update::Modify, set(&[1, 1]))).await, Code::AlreadyExists);
    assert_eq!(code(&session, update(Update::Insert, set(&[1]))).await, Code::InvalidArgument);
    assert_eq!(code(&session, update(Update::Delete, set(&[1]))).await, Code::InvalidArgument);
    assert_eq!(read_raw(&session, set(&[])).await, [set(&[])]);
}

#[tokio::test]
async fn initial_entries_can_be_changed_and_others_added() {
    let (rig, session) = start().await;
    let preset = |key, value| entry("preset", key, Action(call("initial", &[value])));
    let key = |key| Request { key, ..Request::default() };
    let (rig, one) = ask(rig, key(1)).await;
    session
        .write(vec![
            update(Update::Modify, table(&preset(1, 21))),
            update(Update::Delete, table(&preset(2, 0))),
            update(Update::Insert, table(&preset(3, 23))),
        ])
        .await
        .unwrap();
    let (rig, changed) = ask(rig, key(1)).await;
    let (rig, gone) = ask(rig, key(2)).await;
    let (_rig, added) = ask(rig, key(3)).await;
    assert_eq!([one, changed, gone, added].map(|answer| answer.initial), [11, 21, 0, 23]);
    let more = (4..=5).map(|key| update(Update::Insert, table(&preset(key, 0)))).collect();
    session.write(more).await.unwrap();
    assert_eq!(code(&session, update(Update::Insert, table(&preset(6, 0)))).await, Code::ResourceExhausted);
}

#[tokio::test]
async fn of_a_constant_entry_only_the_counter_changes() {
    let (rig, session) = start().await;
    let fixed = entry("fixed", 99, Action(call("initial", &[99])));
    let shown = message::TableEntry { is_const: true, ..fixed.clone() };
    assert_eq!(read_raw(&session, table(&fixed)).await, [table(&shown)]);
    for kind in [Update::Insert, Update::Modify, Update::Delete] {
        assert_eq!(code(&session, update(kind, table(&fixed))).await, Code::PermissionDenied);
    }
    let data = CounterData { packet_count: 41, byte_count: 0 };
    let counted = message::TableEntry { action: None, counter_data: Some(data), ..fixed.clone() };
    session.write(vec![update(Update::Modify, table(&counted))]).await.unwrap();
    let (_rig, answer) = ask(rig, Request { flow: 99, ..Request::default() }).await;
    assert_eq!(answer.initial, 99);
    let asking = message::TableEntry { counter_data: Some(CounterData::default()), ..fixed.clone() };
    match read_raw(&session, table(&asking)).await.as_slice() {
        [Entity::TableEntry(entry)] => assert_eq!(entry.counter_data.unwrap().packet_count, 42),
        other => panic!("{other:?}"),
    }
    let claimed = message::TableEntry { is_const: true, ..entry("preset", 9, Action(call("initial", &[1]))) };
    assert_eq!(code(&session, update(Update::Insert, table(&claimed))).await, Code::InvalidArgument);
}

#[tokio::test]
async fn a_delete_looks_at_nothing_but_the_key() {
    let (_rig, session) = start().await;
    let sound = entry("metered", 1, Action(call("mark", &[])));
    session.write(vec![update(Update::Insert, table(&sound))]).await.unwrap();
    let odd = message::TableEntry {
        action: Some(message::TableAction {
            r#type: Some(Action(message::Action { action_id: 7, params: Vec::new() })),
        }),
        idle_timeout_ns: -5,
        meter_config: Some(message::MeterConfig { cir: -1, ..Default::default() }),
        ..sound
    };
    assert_eq!(code(&session, update(Update::Delete, table(&odd))).await, Code::Ok);
}
