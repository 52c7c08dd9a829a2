//! Agents on Linux interfaces, in a network namespace of the test's own.
//!
//! Needs root and `ip` (iproute2); says so and passes where they are missing.

#![allow(clippy::unwrap_used)] // helpers of tests

mod job;
#[path = "../../link/tests/netns/mod.rs"]
mod netns;

use std::io::ErrorKind;
use std::net::UdpSocket;

use job::configs;
use tributary_api::Downlink;
use tributary_host_agent::{AgentError, HostPort, ServerAgent, WorkerAgent};
use tributary_link::LinkError;
use tributary_protocol::{AllReduce, GradientData, Sums, Timers};
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

#[test]
fn the_kernel_answers_no_ina_packet() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("link set lo up");
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(("127.0.0.1", INA_UDP_PORT)).unwrap();
    // What a connected socket gets is the ICMP answer to the datagram before.
    let refused = |sender: &UdpSocket| {
        let _ = sender.send(b"gradient");
        sender.send(b"gradient").is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    assert!(refused(&sender), "the test sees answers");
    let _ = sender.take_error().unwrap();
    let port = HostPort::open("left").unwrap();
    let _ = sender.send(b"the last answer may still come");
    assert!(!refused(&sender));
    drop(port);
    assert!(refused(&sender));
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
