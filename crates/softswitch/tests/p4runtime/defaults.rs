//! Default entries, which have counters, meters and metadata like other entries.

use tributary_p4runtime::Code;
use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, CounterData, MeterConfig, TableEntry};

use crate::control::{Request, ask, call, default, exact, id, start, table};
use crate::fixture::{code, read_raw, update};

/// Returns a pattern that requests all parts of the table's default entry.
fn asking() -> TableEntry {
    TableEntry {
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterConfig::default()),
        meter_counter_data: Some(message::MeterCounterData::default()),
        ..default(None)
    }
}

fn counted(packets: i64) -> Option<CounterData> {
    Some(CounterData { packet_count: packets, byte_count: packets * 60 })
}

fn colours(green: i64, red: i64) -> Option<message::MeterCounterData> {
    let (green, yellow, red) = (counted(green), counted(0), counted(red));
    Some(message::MeterCounterData { green, yellow, red })
}

/// Returns rates for two green packets, after which all packets are red.
fn two_green() -> MeterConfig {
    MeterConfig { cir: 0, cburst: 2, pir: 0, pburst: 2, eburst: 0 }
}

#[tokio::test]
async fn a_default_entry_has_a_counter_a_meter_and_metadata() {
    let (mut rig, session) = start().await;
    let written = TableEntry {
        counter_data: counted(7),
        meter_config: Some(two_green()),
        metadata: vec![1, 2, 3],
        ..default(call("answer", &[&[9]]))
    };
    session.write(vec![update(Update::Modify, table(&written))]).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer;
        (rig, answer) = ask(rig, Request::default()).await;
        answers.push((answer.value, answer.entry_colour));
    }
    assert_eq!(answers, [(9, 0), (9, 0), (9, 2)]);
    let expected =
        TableEntry { counter_data: counted(10), meter_counter_data: colours(2, 1), ..written.clone() };
    assert_eq!(read_raw(&session, table(&asking())).await, [table(&expected)]);

    // An update without a counter keeps the counter's value. An update without rates removes the
    // meter's rates.
    let plain = default(call("answer", &[&[8]]));
    session.write(vec![update(Update::Modify, table(&plain))]).await.unwrap();
    let expected = TableEntry { counter_data: counted(10), meter_counter_data: colours(2, 1), ..plain };
    assert_eq!(read_raw(&session, table(&asking())).await, [table(&expected)]);

    // The program's own default is restored, without any data that was written.
    session.write(vec![update(Update::Modify, table(&written))]).await.unwrap();
    session.write(vec![update(Update::Modify, table(&default(None)))]).await.unwrap();
    let original = default(call("answer", &[&[1]]));
    assert_eq!(read_raw(&session, table(&default(None))).await, [table(&original)]);
    let [Entity::TableEntry(read)] = &read_raw(&session, table(&asking())).await[..] else { panic!() };
    assert_eq!(read.meter_config, None);
    assert_eq!(ask(rig, Request::default()).await.1.value, 1);
}

#[tokio::test]
async fn the_counter_and_the_meter_of_a_default_entry_are_entities() {
    let (rig, session) = start().await;
    let counter = |data| {
        let table_entry = Some(default(None));
        Entity::DirectCounterEntry(message::DirectCounterEntry { table_entry, data })
    };
    let meter = |config, counter_data| {
        let table_entry = Some(default(None));
        Entity::DirectMeterEntry(message::DirectMeterEntry { table_entry, config, counter_data })
    };
    let modify = |entity| update(Update::Modify, entity);
    session.write(vec![modify(counter(counted(3))), modify(meter(Some(two_green()), None))]).await.unwrap();
    let (rig, _) = ask(rig, Request::default()).await;
    assert_eq!(read_raw(&session, counter(None)).await, [counter(counted(4))]);
    let asked = meter(None, Some(message::MeterCounterData::default()));
    assert_eq!(read_raw(&session, asked.clone()).await, [meter(Some(two_green()), colours(1, 0))]);
    assert_eq!(read_raw(&session, meter(None, None)).await, [meter(Some(two_green()), None)]);
    // Counts by colour can be cleared, but not set to other values.
    session.write(vec![modify(meter(Some(two_green()), colours(0, 0)))]).await.unwrap();
    assert_eq!(read_raw(&session, asked).await, [meter(Some(two_green()), colours(0, 0))]);
    assert_eq!(code(&session, modify(meter(None, colours(1, 0)))).await, Code::InvalidArgument);
    // An update without data leaves the counter unchanged.
    session.write(vec![modify(counter(None))]).await.unwrap();
    assert_eq!(read_raw(&session, counter(None)).await, [counter(counted(4))]);
    let keyed = TableEntry { r#match: vec![exact(1, &[1])], ..default(None) };
    let keyed = message::DirectCounterEntry { table_entry: Some(keyed), data: counted(1) };
    assert_eq!(code(&session, modify(Entity::DirectCounterEntry(keyed))).await, Code::InvalidArgument);
    drop(rig);
}

#[tokio::test]
async fn a_modify_without_an_action_keeps_the_action() {
    let (rig, session) = start().await;
    let entry = TableEntry {
        table_id: id("answering"),
        r#match: vec![exact(1, &[5])],
        action: call("answer", &[&[77]]),
        metadata: vec![1],
        ..Default::default()
    };
    let modify = |entry: &TableEntry| update(Update::Modify, table(entry));
    let rest =
        TableEntry { action: None, metadata: vec![2], meter_config: Some(two_green()), ..entry.clone() };
    assert_eq!(code(&session, modify(&rest)).await, Code::NotFound);
    assert_eq!(code(&session, update(Update::Insert, table(&rest))).await, Code::InvalidArgument);
    session.write(vec![update(Update::Insert, table(&entry))]).await.unwrap();
    session.write(vec![modify(&rest)]).await.unwrap();
    let (_rig, answer) = ask(rig, Request { class: 5, ..Request::default() }).await;
    assert_eq!(answer.value, 77);
    let pattern = TableEntry {
        meter_config: Some(MeterConfig::default()),
        action: None,
        metadata: Vec::new(),
        ..entry.clone()
    };
    let expected = TableEntry { action: entry.action.clone(), ..rest };
    assert_eq!(read_raw(&session, table(&pattern)).await, [table(&expected)]);
}

#[tokio::test]
async fn counters_and_meters_of_entries_that_are_not_there_are_not_found() {
    let (_rig, session) = start().await;
    let entry = TableEntry { table_id: id("answering"), r#match: vec![exact(1, &[5])], ..Default::default() };
    assert!(read_raw(&session, table(&entry)).await.is_empty());
    let table_entry = Some(entry);
    let counter = message::DirectCounterEntry { table_entry: table_entry.clone(), data: None };
    let meter = message::DirectMeterEntry { table_entry, config: None, counter_data: None };
    for pattern in [Entity::DirectCounterEntry(counter), Entity::DirectMeterEntry(meter)] {
        let pattern = message::Entity { entity: Some(pattern) };
        assert_eq!(session.read(vec![pattern]).await.unwrap_err().code(), Some(Code::NotFound));
    }
}
