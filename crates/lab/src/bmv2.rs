//! BMv2 with its P4Runtime server, as a switch of a lab.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use tributary_wire::constants::CPU_PORT;

use crate::error::LabError;
use crate::lab::Lab;

/// The program, which is looked for on the PATH.
pub(crate) const PROGRAM: &str = "simple_switch_grpc";
/// Option for the address at which it publishes events by nanomsg.
/// A BMv2 built without nanomsg does not know it.
const NOTIFICATIONS: &str = "--notifications-addr";
/// Option for its second control port. A BMv2 built without Thrift does not know it.
const THRIFT_PORT: &str = "--thrift-port";

/// Its path, if the PATH has it.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

/// The command for a station, on all of its interfaces; docs/bmv2.md has the reasons for the options.
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
        // The default is in /tmp, and the same for every switch with that id on the machine.
        let socket = lab.folder().join(format!("{station}.ipc"));
        command.arg(NOTIFICATIONS).arg(format!("ipc://{}", socket.display()));
    }
    command.args(["--", "--cpu-port", &CPU_PORT.to_string(), "--grpc-server-addr", &p4runtime.to_string()]);
    Ok(command)
}

/// Returns true if the BMv2 of this machine knows the option.
fn knows(option: &str) -> bool {
    /// Read once, and not for each switch.
    static HELP: LazyLock<String> = LazyLock::new(|| {
        let help = Command::new(PROGRAM).arg("--help").stdin(Stdio::null()).output();
        // A BMv2 that cannot be started fails later, when the switch is started.
        help.map(|help| String::from_utf8_lossy(&help.stdout).into_owned()).unwrap_or_default()
    });
    HELP.contains(option)
}
