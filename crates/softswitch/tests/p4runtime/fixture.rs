//! A switch with its server on the loopback interface, and controllers that connect to it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::transport::Channel;
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};
use tributary_p4runtime::entry::{ActionCall, Entity, Query, TableEntry};
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::{self as message, update};
use tributary_p4runtime::session::{Mastership, UpdateFailure};
use tributary_p4runtime::{Code, P4Info, Session, SessionError, Target};
use tributary_softswitch::{SoftSwitch, SwitchConfig};

/// The device id of the switch under test, which differs from the default.
pub(crate) const DEVICE: u64 = 3;
/// The port of the switch's only link.
pub(crate) const PORT: u16 = 2;
/// Time limit that only a test that fails reaches, on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// p4c's JSON of the project's program.
pub(crate) static JSON: LazyLock<String> = LazyLock::new(|| p4_build("tributary.json"));
/// The P4Info of the project's program.
pub(crate) static INFO: LazyLock<P4Info> =
    LazyLock::new(|| P4Info::parse(&p4_build("tributary.p4info.txtpb")).unwrap());

fn p4_build(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/build/256").join(file))
        .unwrap()
}

/// A switch with one port, and its server.
pub(crate) struct Rig {
    pub(crate) switch: SoftSwitch,
    /// The other end of the link on port [`PORT`].
    pub(crate) host: InProcessPort,
}

impl Rig {
    /// Starts a switch that runs no program yet.
    pub(crate) async fn start() -> Self {
        let (host, port, _) = link(&LinkConfig { loss: 0.0, seed: 1, queue_frames: 64 }).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = SwitchConfig::new("s1", address, vec![(PORT, Box::new(port))]);
        let switch = SoftSwitch::start(SwitchConfig { device_id: DEVICE, ..config }).await.unwrap();
        Self { switch, host }
    }

    /// Starts a switch that runs the project's program, and connects its primary controller.
    pub(crate) async fn with_program() -> (Self, Session) {
        let rig = Self::start().await;
        let session = rig.connect(10).await.unwrap();
        session.set_pipeline(JSON.as_bytes(), &INFO, 1).await.unwrap();
        (rig, session)
    }

    /// Starts a switch that runs a program of `tests/programs`, and connects its primary
    /// controller.
    pub(crate) async fn running(json: &str, info: &P4Info) -> (Self, Session) {
        let rig = Self::start().await;
        let session = rig.connect(10).await.unwrap();
        session.set_pipeline(json.as_bytes(), info, 1).await.unwrap();
        (rig, session)
    }

    /// Sends a frame into the switch's only port.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.host.send(frame).unwrap();
        self.host.flush().unwrap();
    }

    /// Waits for a frame that leaves by the switch's only port.
    pub(crate) async fn receive(self) -> (Self, Vec<u8>) {
        let Self { switch, mut host } = self;
        let received = tokio::task::spawn_blocking(move || {
            let frame = receive(&mut host);
            (host, frame)
        });
        let (host, frame) = received.await.unwrap();
        (Self { switch, host }, frame)
    }

    /// Connects a client that makes no checks itself.
    pub(crate) async fn client(&self) -> P4RuntimeClient<Channel> {
        let address = format!("http://{}", self.switch.p4runtime_addr());
        P4RuntimeClient::connect(address).await.unwrap().max_encoding_message_size(usize::MAX)
    }

    pub(crate) async fn connect(&self, election_id: u128) -> Result<Session, SessionError> {
        self.connect_to(DEVICE, election_id).await
    }

    pub(crate) async fn connect_to(
        &self,
        device_id: u64,
        election_id: u128,
    ) -> Result<Session, SessionError> {
        let target =
            Target { name: "s1".to_owned(), address: self.switch.p4runtime_addr().to_string(), device_id };
        Session::connect(target, election_id, Instant::now() + PATIENCE).await
    }
}

/// Waits for a frame at the end of a link.
pub(crate) fn receive(port: &mut dyn FramePort) -> Vec<u8> {
    let mut poll = mio::Poll::new().unwrap();
    port.register(poll.registry(), mio::Token(0)).unwrap();
    let mut events = mio::Events::with_capacity(1);
    loop {
        if let Some(frame) = port.receive().unwrap() {
            return frame.to_vec();
        }
        poll.poll(&mut events, Some(PATIENCE)).unwrap();
        assert!(!events.is_empty(), "no frame came");
    }
}

/// Waits until a session has this mastership.
pub(crate) async fn told(session: &Session, expected: Mastership) {
    let mut watch: watch::Receiver<Mastership> = session.mastership();
    let wait = timeout(PATIENCE, watch.wait_for(|state| *state == expected)).await;
    assert!(wait.is_ok(), "not told {expected:?} but {:?}", *session.mastership().borrow());
}

/// Waits for a result that must arrive in time.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it should have come by now")
}

/// Makes an entry that fits the project's program.
pub(crate) fn admission(job: u16, port: u16) -> TableEntry {
    TableEntry::new("admission").exact("job", job).exact("ingress_port", port).action(admit(0))
}

pub(crate) fn admit(slot_base: u32) -> ActionCall {
    let call = ActionCall::new("admit").with("job_index", 1u8).with("slot_base", slot_base);
    let call = call.with("slot_mask", 63u8).with("children", 1u8).with("kinds", 3u8);
    call.with("aggregate", 1u8).with("fan_in", 2u8).with("rank", 5u8)
}

pub(crate) fn guard(job: u16, port: u16) -> TableEntry {
    TableEntry::new("egress_guard")
        .exact("job", job)
        .exact("egress_port", port)
        .action(ActionCall::new("allow"))
}

pub(crate) fn insert(entity: impl Into<Entity>) -> message::Update {
    entity.into().insert(&INFO).unwrap()
}

pub(crate) fn modify(entity: impl Into<Entity>) -> message::Update {
    entity.into().modify(&INFO).unwrap()
}

pub(crate) fn delete(entity: impl Into<Entity>) -> message::Update {
    entity.into().delete(&INFO).unwrap()
}

/// Returns the entities that a query finds, by name.
pub(crate) async fn read(session: &Session, query: Query) -> Vec<Entity> {
    let found = session.read(vec![query.to_proto(&INFO).unwrap()]).await.unwrap();
    found.iter().map(|entity| Entity::from_proto(&INFO, entity).unwrap()).collect()
}

/// Returns the entries of a table.
pub(crate) async fn entries(session: &Session, table: &str) -> Vec<TableEntry> {
    let found = read(session, Query::Table(table.to_owned())).await.into_iter();
    found.map(|entity| if let Entity::Table(entry) = entity { entry } else { panic!("{entity}") }).collect()
}

/// Writes updates, and returns the failed ones with their errors.
pub(crate) async fn failures(session: &Session, updates: Vec<message::Update>) -> Vec<UpdateFailure> {
    match session.write(updates).await {
        Ok(()) => Vec::new(),
        Err(SessionError::Write { failures, .. }) => failures,
        Err(error) => panic!("{error}"),
    }
}

/// Makes an update of an entity that the client cannot name.
pub(crate) fn update(kind: update::Type, entity: message::entity::Entity) -> message::Update {
    let entity = message::Entity { entity: Some(entity) };
    message::Update { r#type: kind.into(), entity: Some(entity) }
}

/// Returns the entities that a pattern covers.
pub(crate) async fn read_raw(
    session: &Session,
    pattern: message::entity::Entity,
) -> Vec<message::entity::Entity> {
    let pattern = message::Entity { entity: Some(pattern) };
    let found = session.read(vec![pattern]).await.unwrap();
    found.into_iter().map(|entity| entity.entity.unwrap()).collect()
}

/// Writes one update, and returns its code.
pub(crate) async fn code(session: &Session, update: message::Update) -> Code {
    failures(session, vec![update]).await.first().map_or(Code::Ok, |failure| failure.code)
}
