//! Reads of several patterns.

use prost::Message;
use tributary_p4runtime::entry::Query;
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::{self as message, entity::Entity};
use tributary_p4runtime::{Code, Session};

use crate::fixture::{DEVICE, INFO, Rig, admission, insert};

fn pattern(query: &Query) -> message::Entity {
    query.to_proto(&INFO).unwrap()
}

fn counter(index: i64) -> message::Entity {
    let counter_id = INFO.counter("job_received").unwrap().name.id;
    let entry = message::CounterEntry { counter_id, index: Some(message::Index { index }), data: None };
    message::Entity { entity: Some(Entity::CounterEntry(entry)) }
}

#[tokio::test]
async fn of_several_patterns_the_good_ones_are_answered_and_each_has_its_error() {
    let (rig, session) = Rig::with_program().await;
    session.write(vec![insert(admission(1, 1))]).await.unwrap();
    let good = pattern(&Query::Table("admission".to_owned()));
    let entities = vec![good.clone(), counter(1 << 40), message::Entity::default(), good, counter(0)];
    let request = message::ReadRequest { device_id: DEVICE, entities, ..Default::default() };
    let mut client = rig.client().await;
    let mut responses = client.read(request).await.unwrap().into_inner();
    let mut found = Vec::new();
    let status = loop {
        match responses.message().await {
            Ok(response) => found.extend(response.expect("an error comes").entities),
            Err(status) => break status,
        }
    };
    assert_eq!(found.len(), 3);
    assert_eq!(status.code(), tonic::Code::Unknown);
    let details = rpc::Status::decode(status.details()).unwrap().details;
    let code = |detail: &prost_types::Any| {
        let error: message::Error = detail.to_msg().unwrap();
        Code::try_from(error.canonical_code).unwrap()
    };
    let codes: Vec<_> = details.iter().map(code).collect();
    assert_eq!(codes, [Code::Ok, Code::OutOfRange, Code::InvalidArgument, Code::Ok, Code::Ok]);
}

#[tokio::test]
async fn a_pattern_alone_fails_with_its_own_code() {
    let (_rig, session) = Rig::with_program().await;
    assert_eq!(refused(&session, counter(1 << 40)).await, Some(Code::OutOfRange));
    assert_eq!(refused(&session, message::Entity::default()).await, Some(Code::InvalidArgument));
}

async fn refused(session: &Session, pattern: message::Entity) -> Option<Code> {
    session.read(vec![pattern]).await.unwrap_err().code()
}

#[tokio::test]
async fn everything_is_read_at_once() {
    let (_rig, session) = Rig::with_program().await;
    session.write(vec![insert(admission(1, 1))]).await.unwrap();
    let every = [
        Entity::ExternEntry(message::ExternEntry::default()),
        Entity::TableEntry(message::TableEntry::default()),
        Entity::ActionProfileMember(message::ActionProfileMember::default()),
        Entity::ActionProfileGroup(message::ActionProfileGroup::default()),
        Entity::MeterEntry(message::MeterEntry::default()),
        Entity::DirectMeterEntry(message::DirectMeterEntry {
            table_entry: Some(message::TableEntry::default()),
            ..Default::default()
        }),
        Entity::ValueSetEntry(message::ValueSetEntry::default()),
        Entity::DigestEntry(message::DigestEntry::default()),
    ];
    let patterns = every.map(|entity| message::Entity { entity: Some(entity) });
    assert_eq!(session.read(patterns.into()).await.unwrap().len(), 1);
}
