//! Notifications of digests and idle entries to the controller, with `programs/externs.p4`.

use std::time::Instant;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tributary_p4runtime::Code;
use tributary_p4runtime::p4::v1::digest_entry::Config;
use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::field_match::{FieldMatchType, Ternary};
use tributary_p4runtime::p4::v1::p4_data::Data;
use tributary_p4runtime::p4::v1::stream_message_request::Update as Request;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Response;
use tributary_p4runtime::p4::v1::table_action::Type::Action;
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, DigestEntry, P4Data, P4StructLike};

use crate::externs::{self, ask, call, entry, id, start, table};
use crate::fixture::{DEVICE, Rig, code, read_raw, soon, update};

/// A bare stream whose controller has become primary.
struct Stream {
    requests: mpsc::Sender<message::StreamMessageRequest>,
    responses: Streaming<message::StreamMessageResponse>,
}

/// An election id above that of the session that has set the program.
const ELECTION_ID: message::Uint128 = message::Uint128 { high: 1, low: 0 };

impl Stream {
    async fn open(rig: &Rig) -> Self {
        let mut client = rig.client().await;
        let (requests, taken) = mpsc::channel(8);
        let responses = client.stream_channel(ReceiverStream::new(taken)).await.unwrap().into_inner();
        let mut stream = Self { requests, responses };
        stream.claim().await;
        stream
    }

    async fn next(&mut self) -> Response {
        soon(self.responses.message()).await.unwrap().unwrap().update.unwrap()
    }

    async fn digests(&mut self) -> message::DigestList {
        match self.next().await {
            Response::Digest(list) => list,
            other => panic!("{other:?}"),
        }
    }

    /// Acknowledges a list, and waits until the switch has processed the acknowledgement.
    async fn acknowledge(&mut self, list: &message::DigestList) {
        let ack = message::DigestListAck { digest_id: list.digest_id, list_id: list.list_id };
        self.send(Request::DigestAck(ack)).await;
        self.claim().await;
    }

    /// Sends an arbitration request. The answer comes after the switch has processed all earlier
    /// messages.
    async fn claim(&mut self) {
        let claim = message::MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: Some(ELECTION_ID),
            ..Default::default()
        };
        self.send(Request::Arbitration(claim)).await;
        assert!(matches!(self.next().await, Response::Arbitration(_)));
    }

    async fn send(&self, update: Request) {
        let request = message::StreamMessageRequest { update: Some(update) };
        self.requests.send(request).await.unwrap();
    }
}

fn digest(config: Option<Config>) -> Entity {
    Entity::DigestEntry(DigestEntry { digest_id: id("learned_t"), config })
}

fn learns(flow: u8, learned: u32) -> externs::Request {
    externs::Request { flow, learned, ..externs::Request::default() }
}

/// Returns a digest's message in P4Runtime's form.
fn message(flow: u8, learned: u32) -> P4Data {
    let bits = |number: u128| Data::Bitstring(tributary_p4runtime::canonical::encode(number));
    let members = [bits(flow.into()), bits(learned.into()), Data::Bool(flow.is_multiple_of(2))];
    let members = members.map(|data| P4Data { data: Some(data) }).into();
    P4Data { data: Some(Data::Struct(P4StructLike { members })) }
}

/// A timeout that no test reaches. Only its size closes a list, and only an acknowledgement removes it.
const NEVER: i64 = i64::MAX / 4;

#[tokio::test]
async fn a_digest_is_told_once_until_it_is_acknowledged() {
    let (rig, session) = start().await;
    let config = Config { max_timeout_ns: NEVER, max_list_size: 2, ack_timeout_ns: NEVER };
    session.write(vec![update(Update::Insert, digest(Some(config)))]).await.unwrap();
    let mut stream = Stream::open(&rig).await;
    let (rig, _) = ask(rig, learns(1, 100)).await;
    let (rig, _) = ask(rig, learns(1, 100)).await;
    let (rig, _) = ask(rig, learns(2, 0xffff_ffff)).await;
    let list = stream.digests().await;
    assert_eq!((list.digest_id, list.list_id), (id("learned_t"), 1));
    assert_eq!(list.data, [message(1, 100), message(2, 0xffff_ffff)]);
    assert!(list.timestamp > 0);
    // The switch does not send known messages again, so only new messages fill the next list.
    let (rig, _) = ask(rig, learns(1, 100)).await;
    let (rig, _) = ask(rig, learns(3, 3)).await;
    let (rig, _) = ask(rig, learns(4, 4)).await;
    let second = stream.digests().await;
    assert_eq!(second.data, [message(3, 3), message(4, 4)]);
    stream.acknowledge(&list).await;
    let (rig, _) = ask(rig, learns(1, 100)).await;
    let (_rig, _) = ask(rig, learns(2, 0xffff_ffff)).await;
    let again = stream.digests().await;
    assert_eq!(again.data, [message(1, 100), message(2, 0xffff_ffff)]);
    assert_eq!(again.list_id, 3);
}

#[tokio::test]
async fn a_list_waits_no_longer_than_it_may_and_is_told_again_after_its_time() {
    let (rig, session) = start().await;
    let config = Config { max_timeout_ns: 1_000_000, max_list_size: 0, ack_timeout_ns: 0 };
    session.write(vec![update(Update::Insert, digest(Some(config)))]).await.unwrap();
    let mut stream = Stream::open(&rig).await;
    let (rig, _) = ask(rig, learns(1, 100)).await;
    assert_eq!(stream.digests().await.data, [message(1, 100)]);
    let (_rig, _) = ask(rig, learns(1, 100)).await;
    assert_eq!(stream.digests().await.data, [message(1, 100)]);
}

#[tokio::test]
async fn a_digests_configuration_is_inserted_read_modified_and_deleted() {
    let (_rig, session) = start().await;
    let config = Config { max_timeout_ns: 5, max_list_size: 6, ack_timeout_ns: 7 };
    let every = Entity::DigestEntry(DigestEntry::default());
    assert_eq!(code(&session, update(Update::Modify, digest(Some(config)))).await, Code::NotFound);
    assert!(read_raw(&session, every.clone()).await.is_empty());
    assert_eq!(code(&session, update(Update::Insert, digest(Some(config)))).await, Code::Ok);
    assert_eq!(code(&session, update(Update::Insert, digest(Some(config)))).await, Code::AlreadyExists);
    assert_eq!(read_raw(&session, every.clone()).await, [digest(Some(config))]);
    let other = Config { max_list_size: 1, ..config };
    assert_eq!(code(&session, update(Update::Modify, digest(Some(other)))).await, Code::Ok);
    assert_eq!(read_raw(&session, digest(None)).await, [digest(Some(other))]);
    let negative = Config { max_timeout_ns: -1, ..config };
    assert_eq!(code(&session, update(Update::Modify, digest(Some(negative)))).await, Code::InvalidArgument);
    assert_eq!(code(&session, update(Update::Delete, digest(None))).await, Code::Ok);
    assert_eq!(code(&session, update(Update::Delete, digest(None))).await, Code::NotFound);
    assert!(read_raw(&session, every).await.is_empty());
}

/// Makes an entry that matches a key in a table with timeouts.
fn timed(key: u8, idle_timeout_ns: i64) -> message::TableEntry {
    let ternary = FieldMatchType::Ternary(Ternary { value: vec![key], mask: vec![0xff] });
    message::TableEntry {
        r#match: vec![message::FieldMatch { field_id: 1, field_match_type: Some(ternary) }],
        priority: 3,
        metadata: vec![9],
        idle_timeout_ns,
        ..entry("timed", key, Action(call("NoAction", &[])))
    }
}

#[tokio::test]
async fn an_idle_entry_is_told_again_and_again() {
    let (rig, session) = start().await;
    let (idle, patient, eternal) = (timed(1, 1_000_000), timed(2, NEVER), timed(3, 0));
    let all = [&idle, &patient, &eternal].map(|entry| update(Update::Insert, table(entry)));
    session.write(all.into()).await.unwrap();
    let mut stream = Stream::open(&rig).await;
    for _ in 0..3 {
        let Response::IdleTimeoutNotification(told) = stream.next().await else { panic!("no notification") };
        assert_eq!(told.table_entry, std::slice::from_ref(&idle));
        assert!(told.timestamp > 0);
    }
}

#[tokio::test]
async fn the_time_since_the_last_hit_is_told_to_who_asks() {
    let (rig, session) = start().await;
    let entry = timed(1, NEVER);
    session.write(vec![update(Update::Insert, table(&entry))]).await.unwrap();
    assert_eq!(read_raw(&session, table(&entry)).await, [table(&entry)]);
    let asking = message::TableEntry { time_since_last_hit: Some(Default::default()), ..entry.clone() };
    let elapsed = async || match read_raw(&session, table(&asking)).await.as_slice() {
        [Entity::TableEntry(entry)] => entry.time_since_last_hit.unwrap().elapsed_ns,
        other => panic!("{other:?}"),
    };
    let first = elapsed().await;
    let second = elapsed().await;
    assert!(0 < first && first < second, "{first} {second}");
    let before = Instant::now();
    let (_rig, _) = ask(rig, externs::Request { key: 1, ..externs::Request::default() }).await;
    let third = elapsed().await;
    assert!(0 < third && third <= before.elapsed().as_nanos() as i64, "since the packet");
    let negative = update(Update::Modify, table(&message::TableEntry { idle_timeout_ns: -1, ..entry }));
    assert_eq!(code(&session, negative).await, Code::InvalidArgument);
}

#[tokio::test]
async fn timeouts_are_refused_where_there_are_none() {
    let (_rig, session) = start().await;
    let mut elsewhere = entry("metered", 1, Action(call("NoAction", &[])));
    elsewhere.idle_timeout_ns = 5;
    assert_eq!(code(&session, update(Update::Insert, table(&elsewhere))).await, Code::InvalidArgument);
    let asking = message::TableEntry { time_since_last_hit: Some(Default::default()), ..timed(1, 0) };
    assert_eq!(code(&session, update(Update::Insert, table(&asking))).await, Code::InvalidArgument);
}
