//! Configuration of a daemon's session with its controller.

use tributary_transport::Remote;
use tributary_wire::MacAddr;

use crate::part::OpenPort;

/// A daemon's attendance at its controller.
#[derive(Clone)]
pub struct AttendConfig {
    /// This host's name in the topology.
    pub host: String,
    /// The controller's API.
    pub controller: Remote,
    /// The daemon's version, as `tributary --version` prints it.
    pub version: String,
    /// True if it can be the aggregation server of jobs.
    pub serves: bool,
    /// True if it has training processes.
    pub works: bool,
    /// The interface that leads to this host's switch, whose settings are reported to the controller;
    /// `None`: none are reported.
    pub interface: Option<String>,
    /// The cable to this host's switch; `None`: it is not probed.
    pub cable: Option<Cable>,
}

/// A host's cable.
#[derive(Clone)]
pub struct Cable {
    /// The address of the interface that it is plugged into.
    pub address: MacAddr,
    /// Opens a port that is used for [probes](tributary_wire::probe) only.
    pub open: OpenPort,
}
