//! Both switches, and a controller of each.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;
use tributary_p4runtime::p4::v1::Update;
use tributary_p4runtime::{P4Info, Session, Target};
use tributary_softswitch::{RunningSwitch, SoftSwitch, SwitchConfig};

use crate::simple_switch::SimpleSwitch;

/// The device id of both.
pub(crate) const DEVICE: u64 = 3;
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// p4c's JSON of the real program.
pub(crate) static JSON: LazyLock<String> = LazyLock::new(|| p4_build("tributary.json"));
/// And its P4Info.
pub(crate) static INFO: LazyLock<P4Info> =
    LazyLock::new(|| P4Info::parse(&p4_build("tributary.p4info.txtpb")).unwrap());

fn p4_build(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4/build/256").join(file)).unwrap()
}

/// BMv2 and where its packets go, and the embedded switch without ports.
pub(crate) struct Pair {
    pub(crate) bmv2: SimpleSwitch,
    pub(crate) packets: SocketAddr,
    pub(crate) embedded: RunningSwitch,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let (bmv2, packets) = SimpleSwitch::start_with_packet_stream(DEVICE);
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = SwitchConfig { device_id: DEVICE, ..SwitchConfig::new("embedded", listen, Vec::new()) };
        Self { bmv2, packets, embedded: SoftSwitch::start(config).await.unwrap() }
    }

    /// Where they serve P4Runtime: BMv2, then the embedded switch.
    pub(crate) fn addresses(&self) -> [(&'static str, SocketAddr); 2] {
        [("bmv2", self.bmv2.address()), ("embedded", self.embedded.p4runtime_addr())]
    }

    /// Primary controllers of both, with the real program running.
    pub(crate) async fn controllers(&self, updates: &[Update]) -> [Session; 2] {
        let mut sessions = Vec::new();
        for (name, address) in self.addresses() {
            let target = Target { name: name.to_owned(), address: address.to_string(), device_id: DEVICE };
            let session = Session::connect(target, 1, Instant::now() + PATIENCE).await.unwrap();
            session.set_pipeline(JSON.as_bytes(), &INFO, 1).await.unwrap();
            session.write(updates.to_vec()).await.unwrap();
            sessions.push(session);
        }
        sessions.try_into().unwrap()
    }
}
