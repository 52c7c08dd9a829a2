//! Embedded switches, with access to their contents that bypasses the controller.

pub mod gate;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use tributary_controller::SwitchAddress;
use tributary_link::FramePort;
use tributary_p4runtime::entry::{Entity, Query, TableEntry};
use tributary_p4runtime::{P4Info, Session, Target};
use tributary_softswitch::{SoftSwitch, SwitchConfig};
use tributary_testkit::root;
use tributary_topology::Topology;

const PROGRAM: [&str; 2] = ["tributary.json", "tributary.p4info.txtpb"];
const PATIENCE: Duration = Duration::from_secs(120);

#[allow(unused_imports, reason = "each test uses its part")]
pub use crate::common::eventually;

/// The ports of a switch, with their numbers.
pub type Ports = Vec<(u16, Box<dyn FramePort>)>;

/// The switches of a topology, each with its P4Runtime server.
pub struct Switches {
    program: PathBuf,
    running: BTreeMap<String, SoftSwitch>,
    addresses: BTreeMap<String, (SocketAddr, u64)>,
}

impl Switches {
    pub async fn start(topology: &Topology) -> Self {
        Self::start_with(topology, |_| Vec::new()).await
    }

    /// Starts the switches of a topology. `ports` returns a switch's ports, given the switch's name.
    pub async fn start_with(topology: &Topology, mut ports: impl FnMut(&str) -> Ports) -> Self {
        let program = root().join("p4/build/256");
        let mut switches = Self { program, running: BTreeMap::new(), addresses: BTreeMap::new() };
        for (_, node, _) in topology.switches() {
            let any = "127.0.0.1:0".parse().unwrap();
            switches.addresses.insert(node.name.clone(), (any, node.id.get().into()));
            switches.run(&node.name, ports(&node.name)).await;
        }
        switches
    }

    /// Returns access to switches that run outside of this process.
    pub fn elsewhere(addresses: BTreeMap<String, (SocketAddr, u64)>) -> Self {
        Self { program: root().join("p4/build/256"), running: BTreeMap::new(), addresses }
    }

    /// Returns the switches' addresses, for a controller's configuration.
    pub fn addresses(&self) -> BTreeMap<String, SwitchAddress> {
        let address = |(name, (address, device_id)): (&String, &(SocketAddr, u64))| {
            (name.clone(), SwitchAddress { address: address.to_string(), device_id: *device_id })
        };
        self.addresses.iter().map(address).collect()
    }

    pub async fn stop(&mut self, name: &str) {
        self.running.remove(name).unwrap().stop().await.unwrap();
    }

    /// Restarts a stopped switch at its old address, with an empty memory.
    pub async fn restart(&mut self, name: &str) {
        self.run(name, Vec::new()).await;
    }

    async fn run(&mut self, name: &str, ports: Ports) {
        let (address, device_id) = self.addresses[name];
        let config = SwitchConfig { device_id, ..SwitchConfig::new(name, address, ports) };
        let switch = SoftSwitch::start(config).await.unwrap();
        self.addresses.insert(name.to_owned(), (switch.p4runtime_addr(), device_id));
        self.running.insert(name.to_owned(), switch);
    }

    pub async fn reboot(&mut self, name: &str) {
        self.stop(name).await;
        self.restart(name).await;
    }

    /// From now on, reads entities with the P4Info of another program.
    pub fn use_program(&mut self, directory: &Path) {
        self.program = directory.to_owned();
    }

    /// Opens a session whose election id is below each controller's id. It can read, and write until a
    /// controller connects.
    async fn session(&self, name: &str) -> Result<Session, tributary_p4runtime::SessionError> {
        let (address, device_id) = self.addresses[name];
        let target = Target { name: name.to_owned(), address: address.to_string(), device_id };
        // No two sessions share an id, because a switch may not have noticed the end of the previous session.
        static SESSIONS: AtomicU32 = AtomicU32::new(1);
        let election_id = SESSIONS.fetch_add(1, Ordering::Relaxed).into();
        Session::connect(target, election_id, Instant::now() + PATIENCE).await
    }

    fn p4info(&self) -> P4Info {
        P4Info::parse(&fs::read_to_string(self.program.join(PROGRAM[1])).unwrap()).unwrap()
    }

    /// Returns all entities of a switch, in order; `None` if the switch is unreachable or has no program.
    pub async fn try_read(&self, name: &str) -> Option<Vec<Entity>> {
        let p4info = self.p4info();
        let identity = Query::Entry(TableEntry::default_of("identity"));
        let queries = [Query::AllTables, identity, Query::AllGroups];
        let patterns = queries.map(|query| query.to_proto(&p4info).unwrap()).to_vec();
        let read = self.session(name).await.ok()?.read(patterns).await.ok()?;
        let mut entities: Vec<_> =
            read.iter().map(|entity| Entity::from_proto(&p4info, entity).unwrap()).collect();
        entities.sort();
        Some(entities)
    }

    /// Returns all entities of each switch.
    pub async fn read_all(&self) -> BTreeMap<String, Vec<Entity>> {
        let mut all = BTreeMap::new();
        for name in self.addresses.keys() {
            all.insert(name.clone(), self.try_read(name).await.unwrap());
        }
        all
    }

    /// Returns the program that the switch runs, and the program's cookie.
    pub async fn running(&self, name: &str) -> (Vec<u8>, u64) {
        let program = self.session(name).await.unwrap().pipeline().await.unwrap().unwrap();
        (program.p4_device_config, program.cookie.unwrap().cookie)
    }

    /// Installs the program and writes entries, like an earlier controller.
    pub async fn install_and_write(&self, name: &str, cookie: u64, entities: &[Entity]) {
        let json = fs::read(self.program.join(PROGRAM[0])).unwrap();
        let p4info = self.p4info();
        let session = self.session(name).await.unwrap();
        session.primary().await.unwrap();
        session.set_pipeline(&json, &p4info, cookie).await.unwrap();
        let update = |entity: &Entity| match entity {
            Entity::Table(entry) if entry.default => entity.modify(&p4info).unwrap(),
            _ => entity.insert(&p4info).unwrap(),
        };
        session.write(entities.iter().map(update).collect()).await.unwrap();
    }
}

/// Returns a folder with the compiled program, in which `table` has room for only `size` entries.
pub fn program_with_small_table(table: &str, size: u64) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let source = root().join("p4/build/256");
    let json = fs::read_to_string(source.join(PROGRAM[0])).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for pipeline in json["pipelines"].as_array_mut().unwrap() {
        for one in pipeline["tables"].as_array_mut().unwrap() {
            if one["name"] == table {
                one["max_size"] = size.into();
            }
        }
    }
    fs::write(directory.path().join(PROGRAM[0]), json.to_string()).unwrap();
    let p4info = fs::read_to_string(source.join(PROGRAM[1])).unwrap();
    let (before, after) = p4info.split_once(&format!("name: \"{table}\"")).unwrap();
    let after = after.replacen("size: 4096", &format!("size: {size}"), 1);
    let p4info = format!("{before}name: \"{table}\"{after}");
    fs::write(directory.path().join(PROGRAM[1]), p4info).unwrap();
    directory
}
