//! Indexed counters.

use tributary_p4runtime::Code;
use tributary_p4runtime::entry::{CounterCell, Entity, Query};
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::{self as message, update};

use crate::fixture::{INFO, Rig, code, delete, insert, modify, read};

fn cell(index: u64, packets: u64, bytes: u64) -> CounterCell {
    CounterCell { counter: "job_received".to_owned(), index, packets, bytes }
}

fn pattern(counter_id: u32, index: Option<i64>) -> message::CounterEntry {
    message::CounterEntry { counter_id, index: index.map(|index| message::Index { index }), data: None }
}

fn entity(entry: message::CounterEntry) -> message::Entity {
    message::Entity { entity: Some(Kind::CounterEntry(entry)) }
}

#[tokio::test]
async fn cells_are_read_one_by_one_by_counter_or_all_together() {
    let (_rig, session) = Rig::with_program().await;
    session.write(vec![modify(cell(4, 3, 400))]).await.unwrap();
    assert_eq!(
        read(&session, Query::CounterCell("job_received".to_owned(), 4)).await,
        [cell(4, 3, 400).into()]
    );
    let size = INFO.counter("job_received").unwrap().size;
    let expected: Vec<Entity> =
        (0..size).map(|index| if index == 4 { cell(4, 3, 400) } else { cell(index, 0, 0) }.into()).collect();
    assert_eq!(read(&session, Query::Counter("job_received".to_owned())).await, expected);
    let cells: u64 = INFO.counters().map(|counter| counter.size).sum();
    assert_eq!(read(&session, Query::AllCounters).await.len() as u64, cells);
}

#[tokio::test]
async fn a_counter_is_set_and_cleared_but_not_inserted() {
    let (_rig, session) = Rig::with_program().await;
    let huge = u64::MAX - 1;
    session.write(vec![modify(cell(0, 1, huge)), modify(cell(255, 9, 9))]).await.unwrap();
    assert_eq!(code(&session, insert(cell(0, 1, 1))).await, Code::InvalidArgument);
    assert_eq!(
        read(&session, Query::CounterCell("job_received".to_owned(), 0)).await,
        [cell(0, 1, huge).into()]
    );
    session.write(vec![delete(cell(0, 1, 1))]).await.unwrap();
    let all = pattern(INFO.counter("job_received").unwrap().name.id, None);
    let still: u64 = counted(&read(&session, Query::Counter("job_received".to_owned())).await);
    assert_eq!(still, 9);
    // A write without data changes nothing.
    let touch = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity(all)) };
    session.write(vec![touch]).await.unwrap();
    assert_eq!(counted(&read(&session, Query::AllCounters).await), 9);
    let all = message::CounterEntry { data: Some(message::CounterData::default()), ..all };
    let clear_all = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity(all)) };
    session.write(vec![clear_all]).await.unwrap();
    assert_eq!(counted(&read(&session, Query::AllCounters).await), 0);
}

fn counted(entities: &[Entity]) -> u64 {
    entities.iter().map(|entity| if let Entity::Counter(cell) = entity { cell.packets } else { 0 }).sum()
}

#[tokio::test]
async fn cells_that_are_not_there_are_refused() {
    let (_rig, session) = Rig::with_program().await;
    let id = INFO.counter("job_received").unwrap().name.id;
    let refused = async |entry| session.read(vec![entity(entry)]).await.unwrap_err();
    assert_eq!(refused(pattern(id, Some(-1))).await.code(), Some(Code::InvalidArgument));
    let beyond = refused(pattern(id, Some(256))).await;
    assert_eq!(beyond.code(), Some(Code::OutOfRange), "{beyond}");
    assert!(beyond.to_string().contains("256"), "{beyond}");
    assert_eq!(refused(pattern(77, None)).await.code(), Some(Code::InvalidArgument));
    let write = |entry| message::Update { r#type: update::Type::Modify.into(), entity: Some(entity(entry)) };
    assert_eq!(code(&session, write(pattern(id, Some(256)))).await, Code::OutOfRange);
    assert_eq!(code(&session, write(pattern(id, Some(-1)))).await, Code::InvalidArgument);
    assert_eq!(code(&session, write(pattern(0, Some(0)))).await, Code::InvalidArgument);
}
