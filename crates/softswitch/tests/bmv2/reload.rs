//! Checks that a program starts with empty state when the client installs it again.
//!
//! BMv2 keeps some of the old state, which the client must delete.

use tributary_p4runtime::Session;
use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, TableEntry};
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_p4runtime::p4::v1::forwarding_pipeline_config::Cookie;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::session::Running;
use tributary_testkit::simple_switch;

use crate::packet_stream::PacketStream;
use crate::pair::{ETHERNET, Pair};
use crate::tables::mac;

const GROUP: u16 = 1;
const PORTS: [u16; 4] = [1, 2, 3, 4];
const SENDER: u16 = 6;

/// Sets the switch to send broadcasts to these ports, frames for address 1 to port 1, and so on.
async fn broadcast_to(bmv2: &Session, ports: &[u32]) {
    let forward =
        |dst: u64, call: ActionCall| TableEntry::new("mac_forward").exact("dst", dst).action(call).into();
    let mut entities: Vec<Entity> = vec![
        MulticastGroup::to_ports(GROUP.into(), ports.iter().copied()).into(),
        forward(mac::EVERYONE, ActionCall::new("broadcast").with("group", GROUP)),
    ];
    entities.extend(PORTS.map(|port| forward(port.into(), ActionCall::new("forward").with("port", port))));
    bmv2.write(entities.iter().map(|entity| entity.insert(&ETHERNET.info).unwrap()).collect()).await.unwrap();
}

/// Returns the ports by which a broadcast leaves.
async fn ports_of_a_broadcast(stream: &mut PacketStream) -> Vec<u32> {
    let frame =
        |destination: u64| [&destination.to_be_bytes()[2..], &[2; 6], &[0x88, 0xb5], &[0; 46]].concat();
    let broadcast = frame(mac::EVERYONE);
    stream.send(1, SENDER, &broadcast).await;
    // At each port, this frame leaves after all copies of the broadcast.
    for port in PORTS {
        stream.send(2, SENDER, &frame(port.into())).await;
    }
    let (mut ports, mut open) = (Vec::new(), PORTS.len());
    while open > 0 {
        let packet = stream.receive().await;
        if packet.packet == broadcast { ports.push(packet.port) } else { open -= 1 }
    }
    ports.sort_unstable();
    ports
}

#[tokio::test]
async fn no_packet_goes_where_groups_of_the_program_before_sent_it() {
    if !simple_switch::is_installed() {
        return;
    }
    let pair = Pair::start().await;
    let [bmv2, _] = pair.controllers(&ETHERNET, &[]).await;
    let mut stream = PacketStream::open(pair.packets, pair.bmv2.device_id()).await;
    broadcast_to(&bmv2, &[1, 2]).await;
    assert_eq!(ports_of_a_broadcast(&mut stream).await, [1, 2]);
    bmv2.set_pipeline(ETHERNET.json.as_bytes(), &ETHERNET.info, 2).await.unwrap();
    broadcast_to(&bmv2, &[2, 3]).await;
    assert_eq!(ports_of_a_broadcast(&mut stream).await, [2, 3]);
}

#[tokio::test]
async fn a_program_that_was_installed_by_half_does_not_keep_the_next_one_out() {
    if !simple_switch::is_installed() {
        return;
    }
    let pair = Pair::start().await;
    let [bmv2, _] = pair.controllers(&ETHERNET, &[]).await;
    let saved = ForwardingPipelineConfig {
        p4info: Some(ETHERNET.info.message().clone()),
        p4_device_config: ETHERNET.json.as_bytes().to_vec(),
        cookie: Some(Cookie { cookie: 2 }),
    };
    bmv2.configure(Action::VerifyAndSave, Some(saved.clone())).await.unwrap();
    let refused = bmv2.configure(Action::VerifyAndCommit, Some(saved)).await;
    assert!(refused.is_err(), "BMv2 has learnt it, and needs no help any more");
    bmv2.set_pipeline(ETHERNET.json.as_bytes(), &ETHERNET.info, 3).await.unwrap();
    assert_eq!(bmv2.running(ETHERNET.json.as_bytes(), 3).await, Ok(Running::Same));
    broadcast_to(&bmv2, &[1]).await;
}
