//! A whole switch: its thread, its ports and its P4Runtime server.

use std::fmt;
use std::net::SocketAddr;

use tributary_link::FramePort;

use crate::engine::{Control, Engine};
use crate::error::SwitchError;
use crate::packet_log::PacketLog;
use crate::server::{Loaded, RunningServer};

/// The default P4Runtime device id, as with simple_switch_grpc.
const DEVICE_ID: u64 = 0;
/// The port to the controller in the project's program: `CPU_PORT` in `p4/include/constants.p4`.
///
/// The test `tests/p4runtime/cpu_port.rs` compares the two.
pub const CPU_PORT: u16 = 510;

/// The configuration of a switch.
pub struct SwitchConfig {
    /// The switch's name, for logs.
    pub name: String,
    /// The device id of the P4Runtime server.
    pub device_id: u64,
    /// The address of the P4Runtime server; port 0 means any free port.
    pub listen: SocketAddr,
    /// The switch's ports by their number in the program.
    pub ports: Vec<(u16, Box<dyn FramePort>)>,
    /// The program's port to the controller.
    pub cpu_port: u16,
    /// The program that the switch runs from the start. Without one, it waits until a controller
    /// sets a program.
    pub loaded: Option<Loaded>,
    /// The packet log. If the program is loaded already, pass the log to [`Loaded::to_log`] as
    /// well.
    pub log: Option<PacketLog>,
}

impl SwitchConfig {
    /// Returns the configuration of a switch with device id 0 and the CPU port of the project's
    /// program.
    pub fn new(name: &str, listen: SocketAddr, ports: Vec<(u16, Box<dyn FramePort>)>) -> Self {
        Self {
            name: name.to_owned(),
            device_id: DEVICE_ID,
            listen,
            ports,
            cpu_port: CPU_PORT,
            loaded: None,
            log: None,
        }
    }
}

impl fmt::Debug for SwitchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<u16> = self.ports.iter().map(|(number, _)| *number).collect();
        f.debug_struct("SwitchConfig")
            .field("name", &self.name)
            .field("device_id", &self.device_id)
            .field("listen", &self.listen)
            .field("ports", &ports)
            .field("cpu_port", &self.cpu_port)
            .field("loaded", &self.loaded)
            .field("log", &self.log)
            .finish()
    }
}

/// A running switch; it stops when this is dropped.
#[derive(Debug)]
pub struct SoftSwitch {
    server: RunningServer,
    engine: Engine,
}

impl SoftSwitch {
    /// Starts a switch. Its server runs on the current tokio runtime.
    ///
    /// # Errors
    /// [`SwitchError`] names the port or address that cannot be used.
    pub async fn start(config: SwitchConfig) -> Result<Self, SwitchError> {
        let SwitchConfig { name, ports, cpu_port, loaded, .. } = config;
        let (program, (mut engine, packet_ins)) = match loaded.map(Loaded::into_parts) {
            Some((program, switch)) => (Some(program), Engine::start_with(&name, ports, cpu_port, switch)?),
            None => (None, Engine::start(&name, ports, cpu_port)?),
        };
        let listen = config.listen.to_string();
        let control = engine.control().clone().with_log(config.log);
        let notifications = engine.notifications();
        let server =
            RunningServer::start(&listen, config.device_id, control, program, packet_ins, notifications)
                .await?;
        Ok(Self { server, engine })
    }

    /// Returns the address of the P4Runtime server.
    pub fn p4runtime_addr(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the handle on the switch itself, which bypasses the server.
    pub fn control(&self) -> &Control {
        self.engine.control()
    }

    /// Ends the server after the pending requests, and then the switch.
    ///
    /// # Errors
    /// [`SwitchError::Panicked`].
    pub async fn stop(self) -> Result<(), SwitchError> {
        self.server.stop().await;
        // The thread ends within microseconds.
        self.engine.stop()
    }
}
