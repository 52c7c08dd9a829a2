//! Setting, getting, replacing and refusing programs.

use tributary_p4runtime::entry::{ActionCall, CounterCell, Entity, MulticastGroup, Query, TableEntry};
use tributary_p4runtime::p4::v1::forwarding_pipeline_config::Cookie;
use tributary_p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{self as message, ForwardingPipelineConfig};
use tributary_p4runtime::session::Running;
use tributary_p4runtime::{Code, P4Info, Session, SessionError};

use crate::fixture::{
    DEVICE, INFO, JSON, Rig, admission, code, delete, entries, guard, insert, modify, read,
};

fn config(cookie: u64) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(INFO.message().clone()),
        p4_device_config: JSON.as_bytes().to_vec(),
        cookie: Some(Cookie { cookie }),
    }
}

fn identity(node: u16) -> TableEntry {
    TableEntry::default_of("identity").action(ActionCall::new("set_identity").with("node", node))
}

async fn verify(session: &Session, json: &[u8], p4info: &P4Info) -> Result<(), SessionError> {
    let (p4info, p4_device_config) = (Some(p4info.message().clone()), json.to_vec());
    let config = ForwardingPipelineConfig { p4info, p4_device_config, cookie: None };
    session.configure(Action::Verify, Some(config)).await
}

async fn refusal(session: &Session, json: &[u8], p4info: &P4Info) -> String {
    let error = verify(session, json, p4info).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument), "{error}");
    error.to_string()
}

/// Returns the P4Info of the project's program after a change.
fn changed(change: impl FnOnce(&mut tributary_p4runtime::p4::config::v1::P4Info)) -> P4Info {
    let mut message = INFO.message().clone();
    change(&mut message);
    P4Info::new(message).unwrap()
}

#[tokio::test]
async fn before_a_program_is_set_nothing_can_be_read_or_written() {
    let rig = Rig::start().await;
    let session = rig.connect(1).await.unwrap();
    assert_eq!(session.pipeline().await, Ok(None));
    assert_eq!(session.running(JSON.as_bytes(), 1).await, Ok(Running::Nothing));
    let read = session.read(vec![Query::AllTables.to_proto(&INFO).unwrap()]).await.unwrap_err();
    assert_eq!(read.code(), Some(Code::FailedPrecondition), "{read}");
    let write = session.write(vec![insert(admission(1, 1))]).await.unwrap_err();
    assert_eq!(write.code(), Some(Code::FailedPrecondition), "{write}");
}

#[tokio::test]
async fn a_program_is_given_back_as_it_was_set() {
    let (_rig, session) = Rig::with_program().await;
    assert_eq!(session.pipeline().await, Ok(Some(config(1))));
    assert_eq!(session.running(JSON.as_bytes(), 1).await, Ok(Running::Same));
    assert_eq!(session.running(JSON.as_bytes(), 2).await, Ok(Running::Other));
    assert_eq!(session.running(b"another one with the cookie", 1).await, Ok(Running::Other));
    let fetch = async |part| session.fetch_pipeline(part).await.unwrap().unwrap();
    let info = fetch(ResponseType::P4infoAndCookie).await;
    assert!(info.p4info.is_some() && info.p4_device_config.is_empty() && info.cookie.is_some());
    let json = fetch(ResponseType::DeviceConfigAndCookie).await;
    assert!(json.p4info.is_none() && !json.p4_device_config.is_empty() && json.cookie.is_some());
    let cookie = fetch(ResponseType::CookieOnly).await;
    assert!(cookie.p4info.is_none() && cookie.p4_device_config.is_empty());
}

#[tokio::test]
async fn programs_that_do_not_fit_are_refused_by_name() {
    let rig = Rig::start().await;
    let session = rig.connect(1).await.unwrap();
    assert!(refusal(&session, b"{", &INFO).await.contains("JSON"));
    assert!(refusal(&session, &[0xff, 0xfe], &INFO).await.contains("not text"));
    let wider = changed(|info| info.tables[1].match_fields[0].bitwidth += 1);
    assert!(refusal(&session, JSON.as_bytes(), &wider).await.contains("admission"));
    let renamed = changed(|info| {
        let preamble = info.counters[0].preamble.as_mut().unwrap();
        (preamble.name, preamble.alias) = ("lost".to_owned(), "lost".to_owned());
    });
    assert!(refusal(&session, JSON.as_bytes(), &renamed).await.contains("lost"));
    let wider = changed(|info| info.controller_packet_metadata[0].metadata[1].bitwidth = 1 << 30);
    assert!(refusal(&session, JSON.as_bytes(), &wider).await.contains("packet_in"));
    assert_eq!(session.pipeline().await, Ok(None), "a verification changes nothing");
}

#[tokio::test]
async fn a_config_without_parts_or_without_an_action_is_refused() {
    let (_rig, session) = Rig::with_program().await;
    let refused = async |action, config| session.configure(action, config).await.unwrap_err().code();
    let bare = ForwardingPipelineConfig { p4info: None, ..config(1) };
    assert_eq!(refused(Action::VerifyAndCommit, Some(bare)).await, Some(Code::InvalidArgument));
    assert_eq!(refused(Action::VerifyAndCommit, None).await, Some(Code::InvalidArgument));
    assert_eq!(refused(Action::Unspecified, Some(config(1))).await, Some(Code::InvalidArgument));
    assert_eq!(refused(Action::Commit, Some(config(1))).await, Some(Code::InvalidArgument));
    assert_eq!(refused(Action::Commit, None).await, Some(Code::NotFound));
}

/// Writes an entity of every kind that a controller can write.
async fn fill(session: &Session) {
    let counter = CounterCell { packets: 5, ..CounterCell::zero("job_received", 2) };
    let group = MulticastGroup::to_ports(6, [1, 2]);
    let updates = vec![insert(admission(1, 1)), insert(group), modify(counter), modify(identity(77))];
    session.write(updates).await.unwrap();
}

async fn everything(session: &Session) -> Vec<Entity> {
    let mut found = read(session, Query::AllTables).await;
    found.extend(read(session, Query::AllGroups).await);
    found.extend(read(session, Query::Entry(identity(0))).await);
    found
}

#[tokio::test]
async fn a_commit_empties_everything() {
    let (_rig, session) = Rig::with_program().await;
    let fresh = everything(&session).await;
    fill(&session).await;
    assert_ne!(everything(&session).await, fresh);
    session.set_pipeline(JSON.as_bytes(), &INFO, 2).await.unwrap();
    assert_eq!(everything(&session).await, fresh);
    let counter = read(&session, Query::CounterCell("job_received".to_owned(), 2)).await;
    assert_eq!(counter, [CounterCell::zero("job_received", 2).into()]);
    let again = code(&session, insert(MulticastGroup::to_ports(6, [1, 2]))).await;
    assert_eq!(again, Code::Ok, "the group is gone, as P4Runtime on BMv2 sees it");
}

#[tokio::test]
async fn a_program_can_be_replaced_under_its_entries() {
    let (_rig, session) = Rig::with_program().await;
    fill(&session).await;
    let before = everything(&session).await;
    session.configure(Action::ReconcileAndCommit, Some(config(9))).await.unwrap();
    assert_eq!(everything(&session).await, before);
    assert_eq!(session.running(JSON.as_bytes(), 9).await, Ok(Running::Same));
}

#[tokio::test]
async fn a_saved_program_takes_requests_until_it_is_committed() {
    let (_rig, session) = Rig::with_program().await;
    fill(&session).await;
    session.configure(Action::VerifyAndSave, Some(config(5))).await.unwrap();
    assert_eq!(session.running(JSON.as_bytes(), 5).await, Ok(Running::Same));
    assert!(entries(&session, "admission").await.is_empty(), "requests refer to the saved program");
    session.write(vec![insert(guard(4, 4)), modify(identity(8))]).await.unwrap();
    session.configure(Action::Commit, None).await.unwrap();
    assert_eq!(entries(&session, "egress_guard").await, [guard(4, 4)]);
    assert_eq!(read(&session, Query::Entry(identity(0))).await, [identity(8).into()]);
    assert!(entries(&session, "admission").await.is_empty());
    session.write(vec![delete(guard(4, 4))]).await.unwrap();
    let again = session.configure(Action::Commit, None).await.unwrap_err();
    assert_eq!(again.code(), Some(Code::NotFound), "a saved program is committed once");
}

#[tokio::test]
async fn a_commit_forgets_what_was_saved() {
    let (_rig, session) = Rig::with_program().await;
    session.configure(Action::VerifyAndSave, Some(config(5))).await.unwrap();
    session.set_pipeline(JSON.as_bytes(), &INFO, 6).await.unwrap();
    assert_eq!(session.running(JSON.as_bytes(), 6).await, Ok(Running::Same));
    let late = session.configure(Action::Commit, None).await.unwrap_err();
    assert_eq!(late.code(), Some(Code::NotFound), "{late}");
}

#[tokio::test]
async fn the_switch_says_which_version_it_speaks() {
    let rig = Rig::start().await;
    let answer = rig.client().await.capabilities(message::CapabilitiesRequest { device_id: DEVICE }).await;
    assert!(answer.unwrap().into_inner().p4runtime_api_version.starts_with("1.4."));
}

#[tokio::test]
async fn requests_for_another_device_are_not_found() {
    let (rig, _session) = Rig::with_program().await;
    let mut client = rig.client().await;
    let read = client.read(message::ReadRequest { device_id: 8, ..Default::default() }).await.unwrap_err();
    let get = message::GetForwardingPipelineConfigRequest { device_id: 8, ..Default::default() };
    let get = client.get_forwarding_pipeline_config(get).await.unwrap_err();
    let write = client.write(message::WriteRequest { device_id: 8, ..Default::default() }).await.unwrap_err();
    for status in [read, get, write] {
        assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
    }
}

/// Checks that the errors of a session name its switch.
#[tokio::test]
async fn errors_name_the_switch() {
    let rig = Rig::start().await;
    let session = rig.connect(1).await.unwrap();
    let error = verify(&session, b"[]", &INFO).await.unwrap_err();
    assert!(error.to_string().starts_with("switch s1 refused the pipeline: INVALID_ARGUMENT"), "{error}");
    assert!(matches!(error, SessionError::Refused { .. }));
}
