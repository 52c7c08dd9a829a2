//! A controller's requests other than those for entities, valid or not, one group of steps after
//! another.

use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, Query, TableEntry};
use tributary_p4runtime::p4::v1::forwarding_pipeline_config::Cookie;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::stream_message_request::Update as Request;
use tributary_p4runtime::p4::v1::{self as message, ForwardingPipelineConfig, Update};

use crate::pair::{DEVICE, ETHERNET};
use crate::requests::{Stream, Subject};

pub(crate) fn insert(entity: impl Into<Entity>) -> Update {
    entity.into().insert(&ETHERNET.info).unwrap()
}

pub(crate) fn modify(entity: impl Into<Entity>) -> Update {
    entity.into().modify(&ETHERNET.info).unwrap()
}

pub(crate) fn delete(entity: impl Into<Entity>) -> Update {
    entity.into().delete(&ETHERNET.info).unwrap()
}

pub(crate) fn guard(job: u16, port: u16) -> TableEntry {
    let entry = TableEntry::new("egress_guard").exact("job", job).exact("egress_port", port);
    entry.action(ActionCall::new("allow"))
}

pub(crate) fn forward(dst: u64, port: u16) -> TableEntry {
    TableEntry::new("mac_forward").exact("dst", dst).action(ActionCall::new("forward").with("port", port))
}

pub(crate) fn identity(node: u16) -> TableEntry {
    TableEntry::default_of("identity").action(ActionCall::new("set_identity").with("node", node))
}

pub(crate) fn query(query: &Query) -> message::Entity {
    query.to_proto(&ETHERNET.info).unwrap()
}

fn config(cookie: u64) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(ETHERNET.info.message().clone()),
        p4_device_config: ETHERNET.json.as_bytes().to_vec(),
        cookie: Some(Cookie { cookie }),
    }
}

pub(crate) async fn before_a_program(on: &mut Subject) {
    on.election_id = Some(1);
    on.write("write, no controller, an election id", vec![insert(guard(1, 1))]).await;
    on.set_pipeline("pipeline, no controller, an election id", Action::VerifyAndCommit, Some(config(1)))
        .await;
    on.election_id = None;
    on.write("write, no controller, no election id, no program", vec![insert(guard(1, 1))]).await;
    on.read("read, no program", query(&Query::AllTables)).await;
    on.read_of("read, another device", DEVICE + 1, vec![query(&Query::AllTables)]).await;
    on.get_pipeline("get pipeline, no program", 0).await;
    on.version("version").await;
}

/// Tests arbitration. One controller stays connected, with the election id that later writes use.
pub(crate) async fn arbitration(on: &mut Subject) -> Stream {
    let mut first = on.stream();
    first.claim(DEVICE, Some(10)).await;
    let told = first.told().await;
    on.note("first claims 10", told);
    let mut second = on.stream();
    second.claim(DEVICE, Some(5)).await;
    let told = second.told().await;
    on.note("second claims 5", told);
    let mut third = on.stream();
    third.claim(DEVICE, Some(10)).await;
    let told = third.told().await;
    on.note("third claims 10, too", told);

    second.claim(DEVICE, Some(20)).await;
    let told = (first.told().await, second.told().await);
    on.note("second claims 20: first, second", format!("{told:?}"));
    on.election_id = Some(10);
    on.write("write, not primary", vec![insert(guard(1, 1))]).await;
    on.election_id = None;
    on.write("write, no election id", vec![insert(guard(1, 1))]).await;
    on.set_pipeline("pipeline, no election id", Action::VerifyAndCommit, Some(config(1))).await;
    on.election_id = Some(20);
    on.write("write, no program", vec![insert(guard(1, 1))]).await;
    second.claim(DEVICE + 1, Some(20)).await;
    let told = second.told().await;
    on.note("second claims another device", told);
    let told = first.told().await;
    on.note("first, when second has ended", told);

    let mut listener = on.stream();
    listener.claim(DEVICE, None).await;
    let told = listener.told().await;
    on.note("a claim without an election id", told);
    drop(listener);
    let mut stranger = on.stream();
    stranger.claim(DEVICE + 1, Some(1)).await;
    let told = stranger.told().await;
    on.note("a claim for another device", told);
    first.claim(DEVICE, Some(7)).await;
    let told = first.told().await;
    on.note("the primary lowers its id", told);
    on.election_id = Some(7);
    first
}

pub(crate) async fn pipelines(on: &mut Subject) {
    let broken = ForwardingPipelineConfig { p4_device_config: b"{".to_vec(), ..config(2) };
    let nameless = ForwardingPipelineConfig { p4info: None, ..config(2) };
    on.set_pipeline("pipeline, commit with nothing saved", Action::Commit, None).await;
    on.set_pipeline("pipeline, no action", Action::Unspecified, Some(config(2))).await;
    on.set_pipeline("pipeline, verify", Action::Verify, Some(config(2))).await;
    on.get_pipeline("get pipeline after verify", 0).await;
    on.set_pipeline("pipeline, verify nothing", Action::Verify, None).await;
    on.set_pipeline("pipeline, verify without a P4Info", Action::Verify, Some(nameless)).await;
    on.set_pipeline("pipeline, save", Action::VerifyAndSave, Some(config(3))).await;
    on.get_pipeline("get pipeline after save", 1).await;
    on.set_pipeline("pipeline, commit what was saved", Action::Commit, None).await;
    on.set_pipeline("pipeline, commit broken JSON", Action::VerifyAndCommit, Some(broken)).await;
    on.set_pipeline("pipeline, commit after broken JSON", Action::VerifyAndCommit, Some(config(4))).await;
    on.set_pipeline("pipeline, commit nothing after that", Action::Commit, None).await;
    on.set_pipeline("pipeline, commit", Action::VerifyAndCommit, Some(config(4))).await;
    for (step, part) in [
        ("get pipeline", 0),
        ("get pipeline, cookie", 1),
        ("get pipeline, P4Info", 2),
        ("get pipeline, program", 3),
        ("get pipeline, unknown part", 9),
    ] {
        on.get_pipeline(step, part).await;
    }
}

pub(crate) async fn packet_outs(on: &mut Subject, mut primary: Stream) -> Stream {
    let mut election_id = 7;
    let metadata = |values: &[(u32, &[u8])]| {
        let one =
            |(id, value): &(u32, &[u8])| message::PacketMetadata { metadata_id: *id, value: value.to_vec() };
        Request::Packet(message::PacketOut {
            payload: vec![0; 60],
            metadata: values.iter().map(one).collect(),
        })
    };
    for (step, packet) in [
        ("packet without metadata", metadata(&[])),
        ("packet with too much metadata", metadata(&[(1, &[1]), (2, &[0]), (3, &[0])])),
        ("packet with a wide port", metadata(&[(1, &[4, 0]), (2, &[0])])),
        ("packet with unknown metadata", metadata(&[(1, &[1]), (9, &[0])])),
    ] {
        primary.send(packet).await;
        // The switch answers every arbitration request.
        election_id += 1;
        primary.claim(DEVICE, Some(election_id)).await;
        let mut told = vec![primary.told().await];
        while !told.last().unwrap().starts_with("Ok") {
            told.push(primary.told().await);
        }
        told.pop();
        on.note(step, format!("{told:?}"));
    }
    on.election_id = Some(election_id);
    primary
}

pub(crate) async fn reload(on: &mut Subject) {
    on.prepare(vec![modify(identity(77)), insert(MulticastGroup::to_ports(9, [1]))]).await;
    on.set_pipeline("pipeline, commit anew", Action::VerifyAndCommit, Some(config(5))).await;
    on.read("tables after commit", query(&Query::AllTables)).await;
    on.read("default after commit", query(&Query::Entry(identity(0)))).await;
    on.read("groups after commit", query(&Query::AllGroups)).await;
    on.write("a group of before, after commit", vec![insert(MulticastGroup::to_ports(9, [1]))]).await;
    on.set_pipeline("pipeline, reconcile", Action::ReconcileAndCommit, Some(config(6))).await;
}
