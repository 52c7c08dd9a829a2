//! Tests of faults in a lab and their repair: cut links, killed daemons, and slow processes.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tributary_lab::{Cut, Lab, LabError, LabOptions, Slowdown, SwitchKind};
use tributary_topology::Topology;

use crate::support;

const PORT: u16 = 7000;
/// The longest wait for one step; every step needs far less time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns a lab with two workers and a server, which a bridge connects.
fn bridged(test: &str) -> Option<(Lab, Topology)> {
    let topology = support::shipped("two-workers");
    let options = LabOptions { switches: SwitchKind::Bridge, ..LabOptions::new(support::name(test)) };
    Some((support::up(&topology, &options)?, topology))
}

/// Returns a UDP socket at a host, with its address.
fn socket(lab: &Lab, topology: &Topology, host: &str) -> (UdpSocket, (Ipv4Addr, u16)) {
    let socket = lab.inside(host, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (socket, (topology[topology.find(host).unwrap()].host().unwrap().ip, PORT))
}

fn receives(socket: &UdpSocket, expected: &[u8]) {
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).unwrap();
    assert_eq!(std::str::from_utf8(&buffer[..length]), std::str::from_utf8(expected));
}

/// Returns for each end of a link true if its interface has a carrier.
fn carriers(lab: &Lab, link: &str) -> Vec<bool> {
    let links = lab.links().unwrap();
    let link = links.iter().find(|found| found.name == link).unwrap();
    let carrier = |station: &str, interface: &str| {
        let mut command = lab.command(station, "cat").unwrap();
        // An interface that is down does not report its carrier at all.
        let output = command.arg(format!("/sys/class/net/{interface}/carrier")).output().unwrap();
        output.stdout == b"1\n"
    };
    link.ends.iter().map(|end| carrier(&end.station, &end.interface)).collect()
}

#[test]
fn what_is_sent_over_a_cut_link_vanishes_and_no_end_notices() {
    let Some((lab, topology)) = bridged("cut") else { return };
    let [w0, w1, server] = ["w0", "w1", "ps"].map(|host| socket(&lab, &topology, host));
    // The hosts learn each other's MAC addresses here. Otherwise ARP would repeat a lost request.
    for (from, to) in [(&w0, &server), (&w1, &server), (&server, &w0)] {
        from.0.send_to(b"hello", to.1).unwrap();
        receives(&to.0, b"hello");
    }
    let cut = lab.cut("w0:leaf", Cut::Silent).unwrap();
    assert_eq!((cut.name.as_str(), cut.cut), ("leaf-w0", Some(Cut::Silent)));
    assert!(matches!(lab.cut("leaf-w0", Cut::Silent), Err(LabError::IsCut(_))));
    assert_eq!(carriers(&lab, "leaf-w0"), [true, true]);
    w0.0.send_to(b"lost", server.1).unwrap();
    server.0.send_to(b"lost", w0.1).unwrap();
    w1.0.send_to(b"another link", server.1).unwrap();
    receives(&server.0, b"another link");

    let again = Lab::open(lab.name()).unwrap();
    let cuts: Vec<_> = again.links().unwrap().into_iter().filter(|link| link.cut.is_some()).collect();
    assert_eq!(cuts, [cut], "any process knows what is cut");
    again.repair("leaf-w0").unwrap();
    assert!(matches!(lab.repair("leaf-w0"), Err(LabError::NotCut(_))));
    w0.0.send_to(b"repaired", server.1).unwrap();
    receives(&server.0, b"repaired");
    server.0.send_to(b"repaired", w0.1).unwrap();
    receives(&w0.0, b"repaired");
    lab.down().unwrap();
}

#[test]
fn a_link_that_loses_its_carrier_is_down_at_the_switch() {
    let Some((lab, topology)) = bridged("carrier") else { return };
    let [w0, server] = ["w0", "ps"].map(|host| socket(&lab, &topology, host));
    lab.cut("leaf-w0", Cut::Carrier).unwrap();
    assert_eq!(carriers(&lab, "leaf-w0"), [false, false]);
    assert_eq!(carriers(&lab, "leaf-w1"), [true, true]);
    lab.repair("leaf-w0").unwrap();
    assert_eq!(carriers(&lab, "leaf-w0"), [true, true]);
    w0.0.send_to(b"repaired", server.1).unwrap();
    receives(&server.0, b"repaired");
    let unknown = lab.cut("leaf-w7", Cut::Silent).unwrap_err();
    assert!(unknown.to_string().contains("its links, leaf-ps, leaf-w0, leaf-w1"), "{unknown}");
    // Removing the lab also removes a link that is still cut.
    lab.cut("leaf-ps", Cut::Carrier).unwrap();
    lab.down().unwrap();
}

/// Returns a process that uses all processor time that it gets.
fn busy_loop(lab: &Lab, station: &str) -> Child {
    let mut command = lab.command(station, "sh").unwrap();
    command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap()
}

/// Returns the processor time that a process has used.
fn processor_time(process: &Child) -> Duration {
    let text = fs::read_to_string(format!("/proc/{}/schedstat", process.id())).unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn a_busy_loop_at_a_slow_station_gets_its_part_of_the_time_and_later_all() {
    let Some((lab, _)) = bridged("slow") else { return };
    const FACTOR: f64 = 4.0;
    let mut busy = busy_loop(&lab, "w0");
    let is_stopped = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", busy.id())).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
    };
    thread::scope(|scope| {
        let lab = &lab;
        let (end, ended) = mpsc::channel();
        let slowing = scope.spawn(move || lab.slow_down("w0", Slowdown::new(FACTOR).unwrap(), &ended));
        // The total processor time is not checked, because it depends on how late a busy machine stops the
        // process. The process must be stopped and continued in turns on any machine.
        for _ in 0..5 {
            wait_until(is_stopped);
            let before = processor_time(&busy);
            wait_until(|| processor_time(&busy) > before);
        }
        end.send(()).unwrap();
        slowing.join().unwrap().unwrap();
    });
    let (before, whole_turns) = (processor_time(&busy), Duration::from_millis(300));
    wait_until(|| {
        assert!(!is_stopped(), "it is as fast as it was");
        processor_time(&busy) - before > whole_turns
    });
    assert!(lab.kill("w0", busy.id()).unwrap());
    assert!(!lab.kill("w0", busy.id()).unwrap(), "it has ended");
    busy.wait().unwrap();
    lab.down().unwrap();
}

#[test]
fn only_a_process_of_the_station_is_killed() {
    let Some((lab, _)) = bridged("kill") else { return };
    let mut busy = busy_loop(&lab, "w0");
    wait_until(|| lab.runs("w0", busy.id()).unwrap());
    assert!(!lab.kill("w1", busy.id()).unwrap(), "it is somewhere else");
    assert!(!lab.kill("w0", std::process::id()).unwrap() && !lab.kill("w0", 0).unwrap());
    assert!(lab.runs("w0", busy.id()).unwrap());
    assert!(lab.kill("w0", busy.id()).unwrap());
    assert!(!lab.runs("w0", busy.id()).unwrap());
    busy.wait().unwrap();

    let mut beside = lab.command_beside("sleep").arg("1000").spawn().unwrap();
    // The kernel shows a program's environment only some moments after its start.
    wait_until(|| lab.runs_beside(beside.id()));
    assert!(!lab.runs_beside(std::process::id()));
    assert!(lab.end_beside(beside.id()).unwrap());
    assert!(!lab.runs_beside(beside.id()) && !lab.end_beside(beside.id()).unwrap());
    beside.wait().unwrap();
    lab.down().unwrap();
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
}
