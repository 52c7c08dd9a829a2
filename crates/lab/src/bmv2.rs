//! BMv2 with its P4Runtime server, as a switch of a lab.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tributary_wire::constants::CPU_PORT;

use crate::error::LabError;
use crate::lab::Lab;

/// The name of the program on the PATH.
pub(crate) const PROGRAM: &str = "simple_switch_grpc";
/// Option for the address at which BMv2 publishes events with nanomsg. A build without nanomsg does not
/// know the option.
const NOTIFICATIONS: &str = "--notifications-addr";
/// Option for BMv2's second control port. A build without Thrift does not know the option.
const THRIFT_PORT: &str = "--thrift-port";

/// Returns the path of BMv2 if the PATH contains it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

/// Returns the command that runs BMv2 at a station, on all of its interfaces. docs/bmv2.md explains the
/// options.
pub(crate) fn command(
    lab: &Lab,
    station: &str,
    device_id: u16,
    p4runtime: SocketAddrV4,
) -> Result<Command, LabError> {
    let mut command = lab.command(station, PROGRAM)?;
    command.args(["--no-p4", "--device-id", &device_id.to_string()]);
    if knows(THRIFT_PORT) {
        command.args([THRIFT_PORT, "0"]);
    }
    for interface in lab.interfaces(station)? {
        command.arg("-i").arg(format!("{}@{}", interface.port, interface.name));
    }
    if knows(NOTIFICATIONS) {
        // The default path is in /tmp and depends only on the switch's id, so two labs would share it.
        let socket = lab.folder().join(format!("{station}.ipc"));
        command.arg(NOTIFICATIONS).arg(format!("ipc://{}", socket.display()));
    }
    command.args(["--", "--cpu-port", &CPU_PORT.to_string(), "--grpc-server-addr", &p4runtime.to_string()]);
    Ok(command)
}

/// Returns true if the BMv2 of this machine knows the option.
fn knows(option: &str) -> bool {
    /// The output of `--help`, which is read once for all switches.
    static HELP: LazyLock<String> = LazyLock::new(|| {
        let help = Command::new(PROGRAM).arg("--help").stdin(Stdio::null()).output();
        // If BMv2 cannot be started, the error appears later, when the switch is started.
        help.map(|help| String::from_utf8_lossy(&help.stdout).into_owned()).unwrap_or_default()
    });
    HELP.contains(option)
}
