//! Roles, each of which has its own primary.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_p4runtime::p4::v1::stream_message_request::Update as Request;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Response;
use tributary_p4runtime::p4::v1::{self as message, MasterArbitrationUpdate, Role, Uint128};

use crate::fixture::{DEVICE, INFO, JSON, Rig, admission, insert, soon};

/// A controller's stream.
struct Controller {
    requests: mpsc::Sender<message::StreamMessageRequest>,
    responses: Streaming<message::StreamMessageResponse>,
}

impl Controller {
    async fn connect(rig: &Rig) -> Self {
        let (requests, receiver) = mpsc::channel(8);
        let responses = rig.client().await.stream_channel(ReceiverStream::new(receiver)).await.unwrap();
        Self { requests, responses: responses.into_inner() }
    }

    async fn claim(&self, role: Option<Role>, election_id: u64) {
        let claim = MasterArbitrationUpdate {
            device_id: DEVICE,
            role,
            election_id: Some(Uint128 { high: 0, low: election_id }),
            status: None,
        };
        let update = Some(Request::Arbitration(claim));
        self.requests.send(message::StreamMessageRequest { update }).await.unwrap();
    }

    async fn told(&mut self) -> Result<MasterArbitrationUpdate, Status> {
        match soon(self.responses.message()).await?.unwrap().update.unwrap() {
            Response::Arbitration(update) => Ok(update),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the status and the role of the next message.
    async fn verdict(&mut self) -> (i32, Option<Role>) {
        let update = self.told().await.unwrap();
        (update.status.unwrap().code, update.role)
    }
}

fn role(name: &str) -> Option<Role> {
    Some(Role { name: name.to_owned(), ..Role::default() })
}

async fn write(rig: &Rig, role: &str, election_id: u64) -> Result<(), Status> {
    let request = message::WriteRequest {
        device_id: DEVICE,
        role: role.to_owned(),
        election_id: Some(Uint128 { high: 0, low: election_id }),
        ..Default::default()
    };
    rig.client().await.write(request).await.map(drop)
}

#[tokio::test]
async fn each_role_has_its_own_primary_which_writes() {
    let (rig, default) = Rig::with_program().await;
    assert!(default.is_primary());
    let unknown = write(&rig, "painter", 10).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    assert!(unknown.message().contains("painter"), "{unknown}");

    let mut first = Controller::connect(&rig).await;
    first.claim(role("painter"), 10).await;
    assert_eq!(first.verdict().await, (Code::Ok as i32, role("painter")));
    let mut second = Controller::connect(&rig).await;
    second.claim(role("painter"), 9).await;
    assert_eq!(second.verdict().await, (Code::AlreadyExists as i32, role("painter")));
    assert!(default.is_primary());
    write(&rig, "painter", 10).await.unwrap();
    assert_eq!(write(&rig, "painter", 9).await.unwrap_err().code(), Code::PermissionDenied);
    default.write(vec![insert(admission(1, 1))]).await.unwrap();

    // When the primary leaves, the server notifies the other controllers of the role.
    drop(first);
    assert_eq!(second.verdict().await, (Code::Ok as i32, role("painter")));
    write(&rig, "painter", 9).await.unwrap();
}

#[tokio::test]
async fn a_role_can_do_all_that_the_default_role_can() {
    let rig = Rig::start().await;
    let mut controller = Controller::connect(&rig).await;
    controller.claim(role("painter"), 1).await;
    controller.told().await.unwrap();
    let config = message::ForwardingPipelineConfig {
        p4info: Some(INFO.message().clone()),
        p4_device_config: JSON.as_bytes().to_vec(),
        cookie: None,
    };
    let request = message::SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        role: "painter".to_owned(),
        election_id: Some(Uint128 { high: 0, low: 1 }),
        action: message::set_forwarding_pipeline_config_request::Action::VerifyAndCommit.into(),
        config: Some(config),
        ..Default::default()
    };
    let mut client = rig.client().await;
    client.set_forwarding_pipeline_config(request).await.unwrap();
    let request = message::WriteRequest {
        device_id: DEVICE,
        role: "painter".to_owned(),
        election_id: Some(Uint128 { high: 0, low: 1 }),
        updates: vec![insert(admission(1, 1))],
        ..Default::default()
    };
    client.write(request).await.unwrap();
    let entities = vec![tributary_p4runtime::entry::Query::AllTables.to_proto(&INFO).unwrap()];
    let read = message::ReadRequest { device_id: DEVICE, role: "painter".to_owned(), entities };
    let mut found = client.read(read).await.unwrap().into_inner();
    assert_eq!(found.message().await.unwrap().unwrap().entities.len(), 1);
}

#[tokio::test]
async fn roles_that_can_not_be_end_the_stream() {
    let rig = Rig::start().await;
    let config = Role { name: "painter".to_owned(), config: Some(Default::default()), id: 0 };
    let numbered = Role { id: 7, ..Role::default() };
    for bad in [config, numbered] {
        let mut controller = Controller::connect(&rig).await;
        controller.claim(Some(bad), 1).await;
        assert_eq!(controller.told().await.unwrap_err().code(), Code::InvalidArgument);
    }
    let mut controller = Controller::connect(&rig).await;
    controller.claim(role("painter"), 1).await;
    controller.told().await.unwrap();
    controller.claim(role("plumber"), 1).await;
    assert_eq!(controller.told().await.unwrap_err().code(), Code::FailedPrecondition);
}
