//! The command lines that start Tributary's daemons at a lab's stations.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use tributary_topology::Topology;

use crate::bmv2;
use crate::error::LabError;
use crate::lab::Lab;
use crate::options::SwitchKind;
use crate::station::CONTROLLER;

/// The P4Runtime port of every switch. Each station has a separate address, so all can use the same
/// port.
const P4RUNTIME_PORT: u16 = 9559;
const CONTROLLER_PORT: u16 = 29810;
/// The name of the controller's state folder in the lab's folder.
const CONTROLLER_STATE: &str = "controller-state";

/// Variables that make `tributary` use TLS. A lab's network is isolated, so its daemons use plain text.
const CERTIFICATES: [&str; 3] = ["TRIBUTARY_TLS_CA", "TRIBUTARY_TLS_CERT", "TRIBUTARY_TLS_KEY"];

/// The program that runs at a switch. The controller treats all programs alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwitchProgram {
    /// The embedded switch, `tributary switch`.
    #[default]
    Embedded,
    /// BMv2, `simple_switch_grpc` from the PATH.
    Bmv2,
}

impl SwitchProgram {
    /// Checks that the program is installed.
    ///
    /// # Errors
    /// [`LabError::NoBmv2`].
    pub fn check(self) -> Result<(), LabError> {
        let found = self == Self::Embedded || bmv2::find().is_some();
        if found { Ok(()) } else { Err(LabError::NoBmv2(bmv2::PROGRAM)) }
    }
}

/// Makes the commands that start the `tributary` binary, and BMv2, in a lab. Control messages use the
/// management network.
#[derive(Debug)]
pub struct Daemons<'a> {
    lab: &'a Lab,
    /// The path of the `tributary` binary.
    program: PathBuf,
    switches: SwitchProgram,
    /// True if the daemons use the interfaces' offloads.
    offloads: bool,
}

impl<'a> Daemons<'a> {
    /// Creates the commands for the `tributary` binary `program`.
    pub fn new(lab: &'a Lab, program: impl Into<PathBuf>) -> Self {
        Self {
            lab,
            program: program.into(),
            switches: SwitchProgram::default(),
            offloads: lab.has_offloads(),
        }
    }

    /// Sets the program of the switches.
    #[must_use]
    pub fn with_switches(self, switches: SwitchProgram) -> Self {
        Self { switches, ..self }
    }

    /// Makes the daemons send one frame at a time, even if the lab's interfaces accept several frames at
    /// once.
    #[must_use]
    pub fn without_offloads(self) -> Self {
        Self { offloads: false, ..self }
    }

    /// Returns the program that runs at the switches.
    pub fn switches(&self) -> SwitchProgram {
        self.switches
    }

    /// Returns a command that runs `tributary` with these arguments at a station.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn command(&self, station: &str, arguments: &[&str]) -> Result<Command, LabError> {
        let mut command = self.lab.command(station, &self.program)?;
        command.args(arguments);
        Self::without_certificates(&mut command);
        Ok(command)
    }

    /// Removes the certificates from the environment of a command that starts `tributary`, because they
    /// belong to the user's own fabric.
    pub fn without_certificates(command: &mut Command) {
        for variable in CERTIFICATES {
            command.env_remove(variable);
        }
    }

    /// Returns the address at which the controller listens.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn controller_address(&self) -> Result<SocketAddrV4, LabError> {
        Ok(SocketAddrV4::new(self.lab.management_address(CONTROLLER)?, CONTROLLER_PORT))
    }

    /// Returns the path of the socket on which a host's agent accepts processes. It is in the lab's folder,
    /// and is removed with the lab.
    pub fn socket(&self, host: &str) -> PathBuf {
        self.lab.folder().join(format!("{host}.sock"))
    }

    /// Returns the command that runs a switch on all interfaces of a station. `device_id` is its node id in
    /// the topology.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn switch(&self, name: &str, device_id: u16) -> Result<Command, LabError> {
        match self.switches {
            SwitchProgram::Embedded => self.embedded_switch(name, device_id),
            SwitchProgram::Bmv2 => bmv2::command(self.lab, name, device_id, self.p4runtime_address(name)?),
        }
    }

    fn embedded_switch(&self, name: &str, device_id: u16) -> Result<Command, LabError> {
        let listen = self.p4runtime_address(name)?.to_string();
        let id = device_id.to_string();
        let arguments = ["switch", "--name", name, "--device-id", &id, "--p4runtime", &listen];
        let mut command = self.command(name, &arguments)?;
        for interface in self.lab.interfaces(name)? {
            command.arg("--port").arg(format!("{}={}", interface.port, interface.name));
        }
        command.args(self.offloads());
        Ok(command)
    }

    /// Returns the command of the controller for all switches of the topology, which it reads from `file`.
    /// The controller ignores kernel bridges (see [`SwitchKind::for_daemons`]).
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn controller(
        &self,
        topology: &Topology,
        (file, mtu): (&Path, Option<u16>),
    ) -> Result<Command, LabError> {
        let listen = self.controller_address()?.to_string();
        let mut command = self.command(CONTROLLER, &["controller", "--listen", &listen])?;
        command.arg("--topology").arg(file);
        command.args(mtu.map(|mtu| format!("--mtu={mtu}")));
        command.arg("--state").arg(self.lab.folder().join(CONTROLLER_STATE));
        if SwitchKind::for_daemons(topology) == SwitchKind::Bridge {
            return Ok(command);
        }
        for (_, node, _) in topology.switches() {
            let address = self.p4runtime_address(&node.name)?;
            command.arg("--switch").arg(format!("{}={address}", node.name));
        }
        Ok(command)
    }

    /// Returns the command of a host's agent, which listens on its [`socket`](Self::socket).
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn agent(&self, host: &str) -> Result<Command, LabError> {
        let mut command = self.member("agent", host)?;
        command.arg("--socket").arg(self.socket(host));
        Ok(command)
    }

    /// Returns the command of a host's aggregation server, which serves the jobs that the controller
    /// assigns to it.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn server(&self, host: &str) -> Result<Command, LabError> {
        self.member("server", host)
    }

    /// Returns the command of a host's daemon (`agent` or `server`), with the options that both share.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn member(&self, daemon: &str, host: &str) -> Result<Command, LabError> {
        let controller = self.controller_address()?.to_string();
        let mut command = self.command(host, &[daemon, "--host", host, "--controller", &controller])?;
        for interface in self.lab.interfaces(host)? {
            command.args(["--interface", &interface.name]);
        }
        command.args(self.offloads());
        Ok(command)
    }

    /// Returns the option that uses the interfaces' offloads, if they are enabled.
    fn offloads(&self) -> Option<&'static str> {
        self.offloads.then_some("--segmentation-offload")
    }

    /// Returns the address at which a switch listens for the controller.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn p4runtime_address(&self, switch: &str) -> Result<SocketAddrV4, LabError> {
        Ok(SocketAddrV4::new(self.lab.management_address(switch)?, P4RUNTIME_PORT))
    }
}
