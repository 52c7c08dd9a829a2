//! BMv2's `simple_switch_grpc` as a child process.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = "simple_switch_grpc";
/// The port to the controller in our program (`CPU_PORT` in `p4/include/constants.p4`).
const CPU_PORT: &str = "510";
/// First TCP port of this process's switches.
const FIRST_TCP_PORT: u16 = 9559;
/// A switch that is not up by then is broken.
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

/// An address that no other process uses: most of 127.0.0.0/8 belongs to this machine, and has
/// room for process ids.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(FIRST_TCP_PORT);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, high | 0x80, middle, low);
    (host, NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// A switch that waits for a controller, started with `--no-p4` as people do.
/// It is ended when this is dropped.
#[derive(Debug)]
pub struct SimpleSwitch {
    arguments: Vec<String>,
    process: Child,
    address: SocketAddr,
    device_id: u64,
}

impl SimpleSwitch {
    /// Starts it with network interfaces as ports.
    pub fn start(device_id: u64, interfaces: &[(u16, String)]) -> Self {
        let mut switch_options = Vec::new();
        for (port, interface) in interfaces {
            switch_options.extend(["--interface".to_owned(), format!("{port}@{interface}")]);
        }
        Self::with_options(device_id, switch_options, &[])
    }

    /// Starts it with a gRPC service at the returned address in place of interfaces; any port may be used.
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
            // By default its other control port is 9090, open to everyone, and a second switch would fail to start.
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

    /// Waits until it takes connections: it does not say when it is ready.
    fn wait_until_up(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            assert!(Instant::now() < deadline, "BMv2 takes no connections");
            assert_eq!(self.process.try_wait().unwrap(), None, "BMv2 has ended: {:?}", self.arguments);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its P4Runtime address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its P4Runtime device id.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// Ends it, as a power cut would.
    pub fn stop(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }

    /// Starts it again at the same address, with nothing in its memory.
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
