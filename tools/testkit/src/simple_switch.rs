//! BMv2's `simple_switch_grpc` as a child process.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = "simple_switch_grpc";
/// The port to the controller in this project's program (`CPU_PORT` in `p4/include/constants.p4`).
const CPU_PORT: &str = "510";
/// First TCP port of this process's switches.
const FIRST_TCP_PORT: u16 = 9559;
/// Time limit for the start of a switch. A switch that takes longer is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns true if BMv2 is on the PATH; prints a note if it is not.
#[must_use]
pub fn is_installed() -> bool {
    let found = Command::new(PROGRAM).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no `{PROGRAM}` on the PATH: install BMv2 (docs/bmv2.md)");
    }
    found
}

/// Returns an address that no other process uses.
///
/// Most of 127.0.0.0/8 belongs to this machine, so that the address can contain the process id.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(FIRST_TCP_PORT);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, high | 0x80, middle, low);
    (host, NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// A switch that waits for a controller, started with `--no-p4` as usual.
///
/// Its process ends when this value is dropped.
#[derive(Debug)]
pub struct SimpleSwitch {
    arguments: Vec<String>,
    process: Child,
    address: SocketAddr,
    device_id: u64,
}

impl SimpleSwitch {
    /// Starts the switch with network interfaces as ports.
    pub fn start(device_id: u64, interfaces: &[(u16, String)]) -> Self {
        let mut switch_options = Vec::new();
        for (port, interface) in interfaces {
            switch_options.extend(["--interface".to_owned(), format!("{port}@{interface}")]);
        }
        Self::with_options(device_id, switch_options, &[])
    }

    /// Starts the switch with a gRPC service in place of interfaces. Any port may be used.
    ///
    /// Returns the switch, and the address of the service.
    pub fn start_with_packet_stream(device_id: u64) -> (Self, SocketAddr) {
        let packets = own_address();
        let option = ["--dp-grpc-server-addr".to_owned(), packets.to_string()];
        (Self::with_options(device_id, Vec::new(), &option), packets)
    }

    fn with_options(device_id: u64, switch_options: Vec<String>, target_options: &[String]) -> Self {
        let address = own_address();
        let mut arguments = ["--no-p4", "--device-id"].map(str::to_owned).to_vec();
        arguments.push(device_id.to_string());
        if has_thrift() {
            // By default the switch's other control port is 9090. It would be open to everyone, and a second
            // switch would fail to start.
            arguments.extend(["--thrift-port", "0"].map(str::to_owned));
        }
        arguments.extend(switch_options);
        arguments.extend(["--", "--cpu-port", CPU_PORT, "--grpc-server-addr"].map(str::to_owned));
        arguments.push(address.to_string());
        arguments.extend_from_slice(target_options);
        let mut switch = Self { process: spawn(&arguments), arguments, address, device_id };
        switch.wait_until_up();
        switch
    }

    /// Waits until the switch accepts connections, because it does not report when it is ready.
    fn wait_until_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            assert!(Instant::now() < deadline, "BMv2 takes no connections");
            assert_eq!(self.process.try_wait().unwrap(), None, "BMv2 has ended: {:?}", self.arguments);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the switch's P4Runtime address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the switch's P4Runtime device id.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// Kills the switch, as a power cut would.
    pub fn stop(&mut self) {
        // `kill` fails if the process has ended by itself.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }

    /// Starts the switch again at its address. Its memory is empty.
    pub fn restart(&mut self) {
        self.stop();
        self.process = spawn(&self.arguments);
    }
}

impl Drop for SimpleSwitch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns true if BMv2 was built with Thrift; without Thrift, it refuses the option.
fn has_thrift() -> bool {
    let help = Command::new(PROGRAM).arg("--help").output().unwrap();
    String::from_utf8_lossy(&help.stdout).contains("--thrift-port")
}

fn spawn(arguments: &[String]) -> Child {
    Command::new(PROGRAM).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
