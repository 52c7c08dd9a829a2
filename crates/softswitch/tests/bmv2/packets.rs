//! Sends the same packets through both switches. The frames that leave and the counters must be
//! equal.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::broadcast::Receiver;
use tokio::time::timeout;
use tributary_p4runtime::entry::{ControllerPacket, CounterCell, Entity, Query};
use tributary_p4runtime::session::Notification;
use tributary_p4runtime::{P4Info, Session};
use tributary_softswitch::{Outputs, Switch};
use tributary_testkit::simple_switch;

use crate::packet_stream::PacketStream;
use crate::pair::{ETHERNET, PATIENCE, Pair, Program, TOFINO};
use crate::tables::{self, PORTS, mac};
use crate::traffic::Traffic;

const PACKETS: usize = 6000;
/// A port that belongs to no job and receives no broadcasts.
const FENCE_PORT: u16 = 6;
const CPU_PORT: u16 = 510;
const NO_ID: u64 = 0;

/// The frames that left for one incoming packet, with their ports, sorted.
type Left = Vec<(u16, Vec<u8>)>;

/// BMv2, and its stream of packets.
struct Bmv2<'a> {
    program: &'a Program,
    stream: PacketStream,
    notifications: Receiver<Notification>,
    /// The frames that left, by the id of the packet that came in.
    left: BTreeMap<u64, Left>,
    to_controller: Vec<Vec<u8>>,
}

impl Bmv2<'_> {
    /// Sends packets, and waits until all resulting frames have left.
    async fn process(&mut self, first_id: u64, packets: &[(u16, Vec<u8>)]) {
        for (id, (port, frame)) in (first_id..).zip(packets) {
            self.stream.send(id, *port, frame).await;
        }
        // The last packet to a port is also the last to leave there, so it marks the end of the
        // others.
        for destination in [mac::EVERYONE, mac::CONTROLLER] {
            self.stream.send(NO_ID, FENCE_PORT, &fence(destination)).await;
        }
        let mut open = PORTS.len();
        while open > 0 {
            let packet = self.stream.receive().await;
            if packet.packet == fence(mac::EVERYONE) {
                open -= 1;
            } else {
                self.left.entry(packet.id).or_default().push((packet.port as u16, packet.packet));
            }
        }
        loop {
            let packet = self.packet_in().await;
            if packet.payload == fence(mac::CONTROLLER) {
                break;
            }
            self.to_controller.push(on_the_wire(&packet));
        }
    }

    async fn packet_in(&mut self) -> ControllerPacket {
        match timeout(PATIENCE, self.notifications.recv()).await.unwrap().unwrap() {
            Notification::PacketIn(packet) => {
                ControllerPacket::from_packet_in(&self.program.info, packet).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Makes a frame that the random traffic never contains.
fn fence(destination: u64) -> Vec<u8> {
    let mut frame = destination.to_be_bytes()[2..].to_vec();
    frame.extend([2, 0, 0, 0, 0, 0xfe, 0x88, 0xb5]);
    frame.extend([0xfe; 46]);
    frame
}

/// Converts a packet to the controller to the switch's wire format.
///
/// The port is in the first 9 of 16 bits, and the frame follows.
fn on_the_wire(packet: &ControllerPacket) -> Vec<u8> {
    let port = packet.fields["ingress_port"] as u16;
    [&(port << 7).to_be_bytes()[..], &packet.payload].concat()
}

/// Returns the packets and bytes of every cell of every counter.
/// At egress, BMv2 counts the bytes of a packet as received, so bytes are left out there.
async fn counters(session: &Session, info: &P4Info) -> BTreeMap<(String, u64), (u64, u64)> {
    let cells = session.read(vec![Query::AllCounters.to_proto(info).unwrap()]).await.unwrap();
    let cell = |message| match Entity::from_proto(info, message).unwrap() {
        Entity::Counter(CounterCell { counter, index, packets, bytes }) => {
            let bytes = if counter == "port_egress" { 0 } else { bytes };
            ((counter, index), (packets, bytes))
        }
        other => panic!("{other}"),
    };
    cells.iter().map(cell).collect()
}

/// Processes the same packets and fences with the embedded switch.
fn process(
    switch: &mut Switch,
    packets: &[(u16, Vec<u8>)],
    burst: usize,
) -> (BTreeMap<u64, Left>, Vec<Vec<u8>>) {
    let (mut left, mut to_controller) = (BTreeMap::<u64, Left>::new(), Vec::new());
    let fences = [mac::EVERYONE, mac::CONTROLLER].map(|destination| (FENCE_PORT, fence(destination)));
    let mut outputs = Outputs::new();
    let mut ids = 1..;
    for some in packets.chunks(burst) {
        for (port, frame) in &fences {
            switch.process(*port, frame, &mut outputs);
        }
        for ((port, frame), id) in some.iter().zip(&mut ids) {
            outputs.clear();
            switch.process(*port, frame, &mut outputs);
            for (port, frame) in outputs.iter() {
                if port == CPU_PORT {
                    to_controller.push(frame.to_vec());
                } else {
                    left.entry(id).or_default().push((port, frame.to_vec()));
                }
            }
        }
    }
    (left, to_controller)
}

#[tokio::test]
async fn both_do_the_same_with_random_packets() {
    if simple_switch::is_installed() {
        both_do_the_same(&ETHERNET).await;
    }
}

#[tokio::test]
async fn both_do_the_same_with_tofinos_controls() {
    if simple_switch::is_installed() {
        both_do_the_same(&TOFINO).await;
    }
}

async fn both_do_the_same(program: &Program) {
    let (info, burst) = (&program.info, program.burst);
    let pair = Pair::start().await;
    let [controller, own_controller] = pair.controllers(program, &tables::updates(info)).await;
    let mut bmv2 = Bmv2 {
        program,
        stream: PacketStream::open(pair.packets, pair.bmv2.device_id()).await,
        notifications: controller.notifications(),
        left: BTreeMap::new(),
        to_controller: Vec::new(),
    };
    let traffic: Vec<_> = Traffic::new(1, program.width).take(PACKETS).collect();
    let mut next_id = 1;
    for some in traffic.chunks(burst) {
        bmv2.process(next_id, some).await;
        next_id += some.len() as u64;
    }
    let same = traffic.clone();
    let run = pair.embedded.control().run(move |switch| process(switch, &same, burst));
    let (mut own, own_to_controller) = run.await.unwrap();

    for ((port, frame), id) in traffic.iter().zip(1..) {
        let [mut theirs, mut ours] =
            [&mut bmv2.left, &mut own].map(|left| left.remove(&id).unwrap_or_default());
        theirs.sort();
        ours.sort();
        assert_eq!(ours, theirs, "packet {id} at port {port}: {frame:02x?}");
    }
    assert!(bmv2.left.is_empty() && own.is_empty());
    assert!(!own_to_controller.is_empty());
    assert_eq!(own_to_controller, bmv2.to_controller);
    let (ours, theirs) = (counters(&own_controller, info).await, counters(&controller, info).await);
    let unlike: Vec<_> = ours.iter().filter(|(cell, count)| theirs.get(cell) != Some(count)).collect();
    assert!(unlike.is_empty() && ours.len() == theirs.len(), "{unlike:?}");
    // The traffic has caused every kind of event.
    let reasons: BTreeSet<_> =
        ours.iter().filter(|(_, count)| count.0 > 0).map(|((name, _), _)| name).collect();
    assert_eq!(reasons.len(), info.counters().count(), "{reasons:?}");
}
