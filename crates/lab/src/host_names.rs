//! Each node's own host name, and the file from which programs resolve the names of all nodes.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tributary_topology::Topology;

use crate::error::LabError;
use crate::record;
use crate::station::Station;

/// Replaces itself by a program that has the host name `$1` and reads the file `$2` as its
/// `/etc/hosts`. It needs a UTS namespace of its own, and the mount namespace that `ip netns exec` makes.
const SCRIPT: &str = r#"hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@""#;

/// Writes the hosts file of a lab: the name of a host resolves to its address on the data network, and
/// the name of a switch to its address on the management network.
pub(crate) fn write(lab: &str, topology: &Topology, stations: &[Station]) -> Result<(), LabError> {
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for Station { name, management, .. } in stations {
        let Some(node) = topology.find(name) else { continue };
        let address = topology[node].host().map_or(*management, |host| host.ip);
        let _ = writeln!(text, "{address} {name}");
    }
    let path = path(lab);
    fs::write(&path, text).map_err(|reason| LabError::Record { path, step: "write", reason })
}

/// Adds to a command the words that give the program behind them the host name of `node`.
pub(crate) fn add_to(command: &mut Command, lab: &str, node: &str) {
    command.args(["unshare", "--uts", "sh", "-c", SCRIPT, "sh", node]).arg(path(lab));
}

fn path(lab: &str) -> PathBuf {
    record::folder(lab).join("hosts")
}
