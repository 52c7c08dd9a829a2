//! Both switches, and a controller for each.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;
use tributary_p4runtime::p4::v1::Update;
use tributary_p4runtime::{P4Info, Session, Target};
use tributary_softswitch::{SoftSwitch, SwitchConfig};
use tributary_testkit::simple_switch::SimpleSwitch;
use tributary_wire::SliceWidth;

/// The device id of both switches.
pub(crate) const DEVICE: u64 = 3;
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A program compiled by p4c.
pub(crate) struct Program {
    pub(crate) json: String,
    pub(crate) info: P4Info,
    /// The width of the program's slices.
    pub(crate) width: SliceWidth,
    /// The maximum number of packets in flight, so that BMv2 processes them in the order of their
    /// arrival.
    pub(crate) burst: usize,
}

/// The program for Ethernet.
/// The number of packets in flight is below the size of BMv2's queues, because BMv2 drops further
/// packets without a report.
pub(crate) static ETHERNET: LazyLock<Program> =
    LazyLock::new(|| Program::read("256", SliceWidth::ETHERNET, 32));
/// Tofino's controls behind the shim.
/// Slots are in egress, where BMv2 has a thread for every fourth port. So a result and a gradient
/// of one slice can overtake each other, as on a network, and the protocol tolerates that.
pub(crate) static TOFINO: LazyLock<Program> =
    LazyLock::new(|| Program::read("tna-32", SliceWidth::NARROWEST, 1));

impl Program {
    fn read(folder: &str, width: SliceWidth, burst: usize) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/build").join(folder);
        let [json, info] = ["tributary.json", "tributary.p4info.txtpb"]
            .map(|file| std::fs::read_to_string(folder.join(file)).unwrap());
        Self { json, info: P4Info::parse(&info).unwrap(), width, burst }
    }
}

/// BMv2 with its packet stream, and the embedded switch without ports.
pub(crate) struct Pair {
    pub(crate) bmv2: SimpleSwitch,
    pub(crate) packets: SocketAddr,
    pub(crate) embedded: SoftSwitch,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let (bmv2, packets) = SimpleSwitch::start_with_packet_stream(DEVICE);
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = SwitchConfig { device_id: DEVICE, ..SwitchConfig::new("embedded", listen, Vec::new()) };
        Self { bmv2, packets, embedded: SoftSwitch::start(config).await.unwrap() }
    }

    /// Returns the P4Runtime addresses: BMv2's, then the embedded switch's.
    pub(crate) fn addresses(&self) -> [(&'static str, SocketAddr); 2] {
        [("bmv2", self.bmv2.address()), ("embedded", self.embedded.p4runtime_addr())]
    }

    /// Sets the program on both switches, and returns their primary controllers.
    pub(crate) async fn controllers(&self, program: &Program, updates: &[Update]) -> [Session; 2] {
        let mut sessions = Vec::new();
        for (name, address) in self.addresses() {
            let target = Target { name: name.to_owned(), address: address.to_string(), device_id: DEVICE };
            let session = Session::connect(target, 1, Instant::now() + PATIENCE).await.unwrap();
            session.set_pipeline(program.json.as_bytes(), &program.info, 1).await.unwrap();
            session.write(updates.to_vec()).await.unwrap();
            sessions.push(session);
        }
        sessions.try_into().unwrap()
    }
}
