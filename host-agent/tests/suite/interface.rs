//! Agents on Linux interfaces, in the test's own network namespace.
//!
//! The tests need root and `ip` (iproute2). Without them, they print that and pass.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;

use crate::job::{Structure, configs};
use tributary_api::Downlink;
use tributary_host_agent::{
    AgentError, HostPort, ServerAgent, SoleSenderError, WorkerAgent, forbid_other_senders,
};
use tributary_link::{LinkError, MutedUdpPort};
use tributary_protocol::{AllReduce, GradientData, Sums, Timers};
use tributary_testkit::netns;
use tributary_wire::constants::INA_UDP_PORT;

#[test]
fn a_worker_and_a_server_reduce_over_a_veth_pair() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    for downlink in [Downlink::Multicast, Downlink::Unicast] {
        let (workers, server) = configs(1, downlink);
        let server = ServerAgent::start(&server, Box::new(HostPort::open("right").unwrap())).unwrap();
        let port = HostPort::open("left").unwrap();
        let meter = port.meter().clone();
        let worker = WorkerAgent::start(&workers[0], Timers::default(), Box::new(port)).unwrap();
        let values: Vec<i32> = (0..100_000).collect();
        let data = GradientData::I32(values.clone());
        let reduced = worker.all_reduce(AllReduce { name: "w".into(), data, weight: 1 }).unwrap();
        assert_eq!(reduced.sums, Sums::I32(values));
        assert!(server.stats().unwrap().protocol.completed >= 391);
        assert!(meter.received.read().frames >= 391);
        worker.stop().unwrap();
        server.stop().unwrap();
    }
}

/// Returns a worker and a server at the two ends of the cable.
fn pair(structure: &Structure) -> (WorkerAgent, ServerAgent) {
    let server = ServerAgent::start(&structure.server(), Box::new(HostPort::open("right").unwrap())).unwrap();
    let port = Box::new(HostPort::open("left").unwrap());
    (WorkerAgent::start(&structure.worker(0), Timers::default(), port).unwrap(), server)
}

/// The test has two jobs between the same two interfaces, each with its own worker and server.
#[test]
fn agents_on_one_interface_are_spared_the_frames_of_each_others_jobs() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    let first = Structure::first(1, Downlink::Multicast);
    // Another generation has its own job id, so it serves as another job.
    let [one, other] = [first.clone(), first.next()].map(|structure| pair(&structure));
    let values: Vec<i32> = (0..100_000).collect();
    let reduce = |worker: &WorkerAgent| {
        let data = GradientData::I32(values.clone());
        let reduced = worker.all_reduce(AllReduce { name: "w".into(), data, weight: 1 }).unwrap();
        assert_eq!(reduced.sums, Sums::I32(values.clone()));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| reduce(&one.0));
        scope.spawn(|| reduce(&other.0));
    });
    for (worker, server) in [one, other] {
        let traffic = [worker.stats().unwrap().traffic, server.stats().unwrap().traffic];
        // A few frames are the kernel's own, and arrived before the agents had set their filters.
        assert!(traffic.iter().all(|traffic| traffic.received > 391 && traffic.not_ours < 50), "{traffic:?}");
    }
}

/// The port distinguishes frames by the job id of the generation.
#[tokio::test]
async fn agents_of_interfaces_go_on_in_the_next_generation() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    let first = Structure::first(1, Downlink::Multicast);
    let (worker, server) = pair(&first);
    let worker = Arc::new(worker);
    for structure in [first.next(), first.next().next()] {
        let reduce = Arc::clone(&worker);
        let reduced = tokio::task::spawn_blocking(move || {
            let data = GradientData::I32(vec![7; 10_000]);
            reduce.all_reduce(AllReduce { name: "w".into(), data, weight: 1 })
        });
        assert_eq!(reduced.await.unwrap().unwrap().sums, Sums::I32(vec![7; 10_000]));
        worker.freeze().await.unwrap();
        server.change(&structure.server()).await.unwrap();
        worker.change(&structure.worker(0)).await.unwrap();
    }
}

#[test]
fn the_kernel_answers_no_ina_packet() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("link set lo up");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(("127.0.0.1", INA_UDP_PORT)).unwrap();
    // A connected socket gets the ICMP answer to the previous datagram.
    let refused = |sender: &UdpSocket| {
        let _ = sender.send(b"gradient");
        sender.send(b"gradient").is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    assert!(refused(&sender), "the test sees answers");
    let _ = sender.take_error().unwrap();
    let port = MutedUdpPort::take(INA_UDP_PORT).unwrap();
    let _ = sender.send(b"the last answer may still come");
    assert!(!refused(&sender));
    drop(port);
    assert!(refused(&sender));
}

/// Any user may send datagrams, and the switch behind the cable would take them for this host's
/// gradients.
#[test]
fn no_socket_of_the_host_sends_ina_packets_and_the_agents_own_get_through() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("addr add 10.9.0.1/24 dev left");
    netns::ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left");
    let other = UdpSocket::bind("0.0.0.0:0").unwrap();
    let is_refused = |address: &str, port: u16| {
        let sent = other.send_to(b"gradient", (address, port));
        sent.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    netns::ip("route add 224.0.0.0/4 dev left");
    let everywhere = ["10.9.0.2", "224.0.0.9", "239.1.2.3", "10.9.0.255"];
    other.set_broadcast(true).unwrap();
    assert!(everywhere.iter().all(|address| !is_refused(address, INA_UDP_PORT)), "the test could see it");
    // The second round simulates a daemon that restarts and finds the rule.
    for _ in 0..2 {
        match forbid_other_senders() {
            Err(error @ SoleSenderError::NoProgram) => return eprintln!("SKIPPED: {error}"),
            forbidden => forbidden.unwrap(),
        }
        for address in everywhere {
            assert!(is_refused(address, INA_UDP_PORT), "{address}");
        }
        assert!(!is_refused("10.9.0.2", INA_UDP_PORT + 1), "other ports are the users' own");
    }
    let (worker, server) = pair(&Structure::first(1, Downlink::Multicast));
    let data = GradientData::I32(vec![7; 10_000]);
    let reduced = worker.all_reduce(AllReduce { name: "w".into(), data, weight: 1 }).unwrap();
    assert_eq!(reduced.sums, Sums::I32(vec![7; 10_000]));
    worker.stop().unwrap();
    server.stop().unwrap();
}

#[test]
fn a_udp_port_that_another_program_holds_is_named() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    let _other = UdpSocket::bind(("0.0.0.0", INA_UDP_PORT)).unwrap();
    let error = HostPort::open("left").unwrap_err();
    assert!(matches!(error, AgentError::UdpPort { port: INA_UDP_PORT, .. }), "{error:?}");
    let error = HostPort::open("middle").unwrap_err();
    assert!(matches!(error, AgentError::Link(LinkError::NoInterface { .. })), "{error:?}");
}
