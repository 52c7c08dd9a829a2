//! The host name of each node, and the file from which programs resolve the names of all nodes.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tributary_topology::Topology;

use crate::error::LabError;
use crate::record;
use crate::station::Station;

/// A shell script that sets the host name `$1`, mounts the file `$2` on `/etc/hosts`, and executes the
/// rest of its arguments. It needs a separate UTS namespace, and the mount namespace that `ip netns
/// exec` creates.
const SCRIPT: &str = r#"hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@""#;

/// Writes the hosts file of a lab. The name of a host resolves to its address on the data network, the
/// name of a switch to its address on the management network.
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

/// Adds arguments to a command, so that the program after them runs with the host name `node`.
pub(crate) fn add_to(command: &mut Command, lab: &str, node: &str) {
    command.args(["unshare", "--uts", "sh", "-c", SCRIPT, "sh", node]).arg(path(lab));
}

fn path(lab: &str) -> PathBuf {
    record::folder(lab).join("hosts")
}
