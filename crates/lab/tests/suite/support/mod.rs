//! Helpers of the labs' tests. The tests need root and the Debian packages that the crate's
//! documentation names. Without them, the tests print that they are skipped, and pass.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use tributary_lab::{Lab, LabError, LabOptions};
use tributary_topology::Topology;

/// Returns a lab name that no other test, and no other run of this test, uses at the same time.
pub(crate) fn name(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

/// Loads one of the repository's topologies.
pub(crate) fn shipped(topology: &str) -> Topology {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    Topology::load(folder.join(topology).with_extension("toml")).unwrap()
}

/// Creates a lab; returns `None` if this machine cannot run these tests.
pub(crate) fn up(topology: &Topology, options: &LabOptions) -> Option<Lab> {
    match Lab::up(topology, options) {
        Err(error @ (LabError::NotPermitted | LabError::MissingTool { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        lab => Some(lab.unwrap()),
    }
}

/// Removes a lab when it is dropped, even if a test fails.
pub(crate) struct Sweeper(pub(crate) String);

impl Drop for Sweeper {
    fn drop(&mut self) {
        let _ = Lab::clean(&self.0);
    }
}

/// Counts of frames that an interface has received, sent, and not sent for lack of space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frames {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) unsent: u64,
}

/// Returns the kernel's counters of all interfaces at a station, by name.
pub(crate) fn counters(lab: &Lab, station: &str) -> HashMap<String, Frames> {
    let text = lab.inside(station, || fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        Some((name.trim().to_owned(), Frames { received: numbers[1], sent: numbers[9], unsent: numbers[11] }))
    };
    text.lines().filter_map(line).collect()
}

/// Returns the name of a node's interface at a port.
pub(crate) fn interface(lab: &Lab, node: &str, port: u16) -> String {
    let interfaces = lab.interfaces(node).unwrap();
    interfaces.iter().find(|interface| interface.port == port).unwrap().name.clone()
}
