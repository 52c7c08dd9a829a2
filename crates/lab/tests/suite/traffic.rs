//! Tests that frames reach their destinations once, no faster than the rate, and with the losses of the
//! options.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use tributary_lab::{CONTROLLER, Lab, LabOptions, SwitchKind};
use tributary_link::{FramePort as _, InterfacePort};
use tributary_topology::{Host, Topology};

use crate::support;

/// A UDP and TCP port. Each lab has its own network, so no other program uses it.
const PORT: u16 = 7000;
/// The longest wait for one step; every step needs far less time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a UDP socket at each host, with its address.
fn sockets(lab: &Lab, topology: &Topology) -> Vec<(Ipv4Addr, UdpSocket)> {
    let socket = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket
    };
    topology.hosts().map(|(_, node, host)| (host.ip, lab.inside(&node.name, socket).unwrap())).collect()
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, Ipv4Addr) {
    let mut buffer = [0; 64];
    let (len, from) = socket.recv_from(&mut buffer).unwrap();
    let std::net::IpAddr::V4(from) = from.ip() else { panic!("{from}") };
    (buffer[..len].to_vec(), from)
}

/// Checks that every host reaches every other host, and that a broadcast reaches each host once (no
/// loops).
fn bridges_carry(test: &str, topology: &str) {
    let topology = support::shipped(topology);
    let options = LabOptions { switches: SwitchKind::Bridge, ..LabOptions::new(support::name(test)) };
    let Some(lab) = support::up(&topology, &options) else { return };
    let hosts = sockets(&lab, &topology);
    for (at, (address, socket)) in hosts.iter().enumerate() {
        let others = || hosts[..at].iter().chain(&hosts[at + 1..]);
        for (other, _) in others() {
            socket.send_to(b"hello", (*other, PORT)).unwrap();
        }
        for (_, other) in others() {
            assert_eq!(receive(other), (b"hello".to_vec(), *address));
        }
        for message in [b"first", b"later"] {
            socket.send_to(message, (Ipv4Addr::new(10, 0, 255, 255), PORT)).unwrap();
        }
        // The sender's own kernel also delivers a copy to the sender.
        for (_, other) in &hosts {
            // If the first frame circulated, a copy would arrive before the second frame.
            assert_eq!(receive(other), (b"first".to_vec(), *address));
            assert_eq!(receive(other), (b"later".to_vec(), *address));
        }
    }
    lab.down().unwrap();
}

#[test]
fn bridges_carry_between_all_hosts_of_a_tree() {
    bridges_carry("tree", "three-tier-8");
}

#[test]
fn bridges_cut_the_loops_of_a_leaf_spine_fabric() {
    bridges_carry("loops", "leaf-spine-8");
}

#[test]
fn every_node_reaches_the_controller_over_the_management_network() {
    let (name, topology) = (support::name("management"), support::shipped("leaf-spine-8"));
    let Some(lab) = support::up(&topology, &LabOptions::new(name)) else { return };
    let address = (lab.management_address(CONTROLLER).unwrap(), PORT);
    let listener = lab.inside(CONTROLLER, || TcpListener::bind(address).unwrap()).unwrap();
    for (_, node) in topology.nodes() {
        let connect = || TcpStream::connect_timeout(&address.into(), PATIENCE).unwrap();
        let _stream = lab.inside(&node.name, connect).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), lab.management_address(&node.name).unwrap());
        let data = lab.interfaces(&node.name).unwrap();
        let counters = support::counters(&lab, &node.name);
        assert!(data.iter().all(|interface| counters[&interface.name].sent == 0), "nothing on data links");
    }
    lab.down().unwrap();
}

#[test]
fn hosts_that_know_each_other_ask_nobody() {
    let (name, topology) = (support::name("arp"), support::shipped("two-workers"));
    let options = LabOptions { static_arp: true, switches: SwitchKind::Bridge, ..LabOptions::new(name) };
    let Some(lab) = support::up(&topology, &options) else { return };
    let hosts = sockets(&lab, &topology);
    let [(server, at_server), (worker, at_worker), ..] = &hosts[..] else { panic!("a server, two workers") };
    at_worker.send_to(b"hello", (*server, PORT)).unwrap();
    assert_eq!(receive(at_server), (b"hello".to_vec(), *worker));
    assert_eq!(support::counters(&lab, "w0")["w0-eth1"].sent, 1, "the datagram, and no ARP request");
    lab.down().unwrap();
}

const UNEQUAL_RATES: &str = r#"
name = "unequal"
[defaults]
rate = "50 Mbit/s"
[[switch]]
name = "leaf"
[[host]]
name = "w0"
role = "worker"
[[host]]
name = "ps"
role = "server"
[[link]]
ends = ["leaf", "w0"]
[[link]]
ends = ["leaf", "ps"]
rate = "1 Gbit/s"
"#;

/// Returns the rate to which the kernel limits each interface of a node, in bit/s, by the interface's
/// name.
fn shaped(lab: &Lab, node: &str) -> Vec<(String, u64)> {
    let output = lab.command(node, "tc").unwrap().args(["-j", "qdisc", "show"]).output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let queues = all.as_array().unwrap().iter().filter(|queue| queue["kind"] == "tbf");
    let rate = |queue: &serde_json::Value| queue["options"]["rate"].as_u64().unwrap() * 8;
    let mut rates: Vec<_> =
        queues.map(|queue| (queue["dev"].as_str().unwrap().to_owned(), rate(queue))).collect();
    rates.sort();
    rates
}

#[test]
fn both_ends_of_a_link_hold_its_rate() {
    let topology = Topology::parse(UNEQUAL_RATES, "unequal.toml").unwrap();
    let options = LabOptions { switches: SwitchKind::Bridge, ..LabOptions::new(support::name("rates")) };
    let Some(lab) = support::up(&topology, &options) else { return };
    let (slow, fast) = (50_000_000, 1_000_000_000);
    assert_eq!(shaped(&lab, "leaf"), [("leaf-eth1".to_owned(), slow), ("leaf-eth2".to_owned(), fast)]);
    assert_eq!(shaped(&lab, "w0"), [("w0-eth1".to_owned(), slow)]);
    assert_eq!(shaped(&lab, "ps"), [("ps-eth1".to_owned(), fast)]);
    for (from, to) in [("w0", "ps"), ("ps", "w0")] {
        let bytes = 1 << 20;
        let took = transfer(&lab, &topology, from, to, bytes);
        let least = Duration::from_secs_f64(bytes as f64 * 8.0 / slow as f64);
        // The bucket's initial content is not delayed. The upper bound is not checked, because it depends on
        // the machine.
        assert!(took > least.mul_f64(0.95), "{from} to {to}: {took:?}, at least {least:?}");
    }
    lab.down().unwrap();
}

/// Sends bytes over TCP. Returns the time until the other end had received all of them.
fn transfer(lab: &Lab, topology: &Topology, from: &str, to: &str, bytes: usize) -> Duration {
    let address = (topology[topology.find(to).unwrap()].host().unwrap().ip, PORT);
    let listener = lab.inside(to, || TcpListener::bind(address).unwrap()).unwrap();
    let sender = lab.inside(from, || TcpStream::connect_timeout(&address.into(), PATIENCE).unwrap());
    let (mut sender, mut receiver) = (sender.unwrap(), listener.accept().unwrap().0);
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let start = Instant::now();
    let sending = thread::spawn(move || {
        sender.write_all(&vec![0; bytes]).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    assert_eq!(receiver.read_to_end(&mut Vec::new()).unwrap(), bytes);
    let took = start.elapsed();
    sending.join().unwrap();
    took
}

const LOSS: f64 = 0.1;
const FRAMES: u32 = 20_000;
/// The greatest allowed deviation from the expected share of losses. Chance never exceeds it in
/// practice.
const STANDARD_DEVIATIONS: f64 = 9.0;

/// Returns the number of frames that a node has deliberately lost at a port.
fn lost(lab: &Lab, node: &str, port: u16) -> u64 {
    let chain = format!("port{port}");
    let mut list = lab.command(node, "nft").unwrap();
    let output = list.args(["-j", "list", "chain", "netdev", "loss", &chain]).output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut rules =
        all["nftables"].as_array().unwrap().iter().filter_map(|item| item["rule"]["expr"].as_array());
    let counter = rules.next().unwrap().iter().find_map(|part| part["counter"]["packets"].as_u64());
    counter.unwrap()
}

/// Counts the lost and sent frames of a node's port, from the creation of this value on.
struct Watched<'a> {
    lab: &'a Lab,
    node: &'a str,
    port: u16,
    interface: String,
    before: [u64; 2],
}

impl<'a> Watched<'a> {
    fn new(lab: &'a Lab, node: &'a str, port: u16) -> Self {
        let interface = support::interface(lab, node, port);
        let mut watched = Self { lab, node, port, interface, before: [0; 2] };
        watched.before = [watched.lost(), watched.sent()];
        watched
    }

    /// Returns the number of frames that were deliberately lost.
    fn lost(&self) -> u64 {
        lost(self.lab, self.node, self.port) - self.before[0]
    }

    /// Returns the number of frames that were not deliberately lost. They were sent, or the kernel dropped
    /// them for lack of space.
    fn sent(&self) -> u64 {
        let counter = support::counters(self.lab, self.node)[&self.interface];
        counter.sent + counter.unsent - self.before[1]
    }

    /// Checks the share of deliberate losses. A busy kernel may still be sending frames, or drop some for
    /// lack of space. Neither changes the share.
    fn check(&self) {
        let started = Instant::now();
        while self.lost() + self.sent() < u64::from(FRAMES) / 4 {
            assert!(started.elapsed() < PATIENCE, "{} sends nothing", self.node);
        }
        let (least, lost, most) = (self.sent(), self.lost(), self.sent());
        let share = |sent: u64| lost as f64 / (lost + sent) as f64;
        let tolerance = STANDARD_DEVIATIONS * (LOSS * (1.0 - LOSS) / (lost + least) as f64).sqrt();
        let (low, high) = (share(most) - tolerance, share(least) + tolerance);
        assert!((low..high).contains(&LOSS), "{}: lost {lost}, and sent {least} to {most}", self.node);
    }
}

/// Calls `send` for each frame, and checks the share of losses on two links. On the first link, the
/// host's kernel sends; on the second, the bridge does.
fn check_loss(lab: &Lab, topology: &Topology, from: &str, to: &str, mut send: impl FnMut()) {
    let port = topology.neighbours(topology.find(to).unwrap())[0].remote_port;
    let (first, second) = (Watched::new(lab, from, 1), Watched::new(lab, "leaf", port));
    (0..FRAMES).for_each(|_| send());
    first.check();
    second.check();
}

/// Returns a lab whose links lose this share of frames.
fn lossy(test: &str, topology: &Topology, loss: f64) -> Option<Lab> {
    let options = LabOptions {
        loss,
        rates: false,
        switches: SwitchKind::Bridge,
        static_arp: true,
        ..LabOptions::new(support::name(test))
    };
    support::up(topology, &options)
}

/// Returns a frame of an experimental EtherType, to which no kernel replies.
fn experimental(to: &Host, from: &Host) -> Vec<u8> {
    let addresses = [to.mac, from.mac].map(|mac| [mac.0, mac.1, mac.2, mac.3, mac.4, mac.5]);
    [&addresses.concat()[..], &[0x88, 0xb5], &[0; 100]].concat()
}

#[test]
fn links_lose_frames_of_packet_sockets_of_udp_and_of_bridges() {
    let topology = support::shipped("two-workers");
    let Some(lab) = lossy("loss", &topology, LOSS) else { return };
    for (from, to) in [("w0", "ps"), ("ps", "w0")] {
        let [source, target] =
            [from, to].map(|name| topology[topology.find(name).unwrap()].host().unwrap().clone());

        let port = lab.inside(from, || InterfacePort::open(&support::interface(&lab, from, 1)).unwrap());
        let mut port = port.unwrap();
        let frame = experimental(&target, &source);
        check_loss(&lab, &topology, from, to, || port.send(&frame).unwrap());

        let [sender, _receiver] = [from, to].map(|node| {
            lab.inside(node, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap()).unwrap()
        });
        check_loss(&lab, &topology, from, to, || {
            assert_eq!(sender.send_to(&[0; 100], (target.ip, PORT)).unwrap(), 100);
        });
    }
    lab.down().unwrap();
}

#[test]
fn a_loss_is_told_to_nobody() {
    const SENT: u64 = 1000;
    let topology = support::shipped("two-workers");
    // All frames are lost, because the kernel reports an error for a frame that is not lost if it lacks
    // space.
    let Some(lab) = lossy("untold", &topology, 0.999_999_999) else { return };
    let [source, target] =
        ["w0", "ps"].map(|name| topology[topology.find(name).unwrap()].host().unwrap().clone());
    let port = lab.inside("w0", || InterfacePort::open(&support::interface(&lab, "w0", 1)).unwrap());
    let mut port = port.unwrap();
    let before = lost(&lab, "w0", 1);
    let frame = experimental(&target, &source);
    (0..SENT).for_each(|_| port.send(&frame).unwrap());
    port.flush().unwrap();
    assert_eq!(port.meter().sent.read().dropped, 0);
    assert_eq!(lost(&lab, "w0", 1) - before, SENT);
    let sender = lab.inside("w0", || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap()).unwrap();
    for _ in 0..SENT {
        assert_eq!(sender.send_to(&[0; 100], (target.ip, PORT)).unwrap(), 100);
    }
    lab.down().unwrap();
}
