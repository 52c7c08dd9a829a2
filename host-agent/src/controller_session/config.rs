//! Configuration of a daemon's session with its controller.

use tributary_transport::Remote;
use tributary_wire::MacAddr;

use crate::part::OpenPort;

/// Configuration of a daemon's session with its controller.
#[derive(Clone)]
pub struct ControllerSessionConfig {
    /// This host's name in the topology.
    pub host: String,
    /// The controller's API.
    pub controller: Remote,
    /// The daemon's version, as `tributary --version` prints it.
    pub version: String,
    /// True if the host can be the aggregation server of jobs.
    pub serves: bool,
    /// True if training processes run on the host.
    pub works: bool,
    /// The interface that leads to this host's switch; the daemon reports its settings to the controller.
    /// `None` reports no settings.
    pub interface: Option<String>,
    /// The cable to this host's switch; `None` if the daemon must not probe it.
    pub cable: Option<Cable>,
}

/// The cable between a host and its switch.
#[derive(Clone)]
pub struct Cable {
    /// The MAC address of the interface at this host's end of the cable.
    pub address: MacAddr,
    /// Opens a port that is used for [probes](tributary_wire::probe) only.
    pub open: OpenPort,
}
