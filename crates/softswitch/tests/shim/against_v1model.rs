//! Sends the same packets through the program for Tofino and the program for v1model.
//!
//! The same frames must leave by the same ports, and the counters must be equal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;
use tributary_p4runtime::entry::{CounterCell, Entity, Query};
use tributary_p4runtime::{P4Info, Session, Target};
use tributary_softswitch::{Outputs, SoftSwitch, Switch, SwitchConfig};
use tributary_wire::SliceWidth;

use crate::program::PROGRAM;
use crate::support::program_in;
use crate::tables;
use crate::traffic::Traffic;

const PACKETS: usize = 60_000;
const DEVICE: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(120);

/// The frames that left for each incoming packet, with their ports, sorted.
pub(crate) type Left = Vec<Vec<(u16, Vec<u8>)>>;
/// The number of packets by counter and index.
pub(crate) type Counted = BTreeMap<(String, u64), u64>;

fn process(switch: &mut Switch, packets: &[(u16, Vec<u8>)]) -> Left {
    let mut outputs = Outputs::new();
    let mut left = |(port, frame): &(u16, Vec<u8>)| {
        outputs.clear();
        switch.process(*port, frame, &mut outputs);
        let mut left: Vec<_> = outputs.iter().map(|(port, frame)| (port, frame.to_vec())).collect();
        left.sort();
        left
    };
    packets.iter().map(&mut left).collect()
}

/// Returns packets for both programs.
pub(crate) fn packets(count: usize) -> Vec<(u16, Vec<u8>)> {
    Traffic::new(16, SliceWidth::NARROWEST).take(count).collect()
}

/// Runs the packets through a program.
pub(crate) async fn run([json, info]: &[String; 2], packets: &[(u16, Vec<u8>)]) -> (Left, Counted) {
    let info = P4Info::parse(info).unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = SwitchConfig { device_id: DEVICE, ..SwitchConfig::new("leaf", listen, Vec::new()) };
    let switch = SoftSwitch::start(config).await.unwrap();
    let address = switch.p4runtime_addr().to_string();
    let target = Target { name: "leaf".to_owned(), address, device_id: DEVICE };
    let session = Session::connect(target, 1, Instant::now() + PATIENCE).await.unwrap();
    session.set_pipeline(json.as_bytes(), &info, 1).await.unwrap();
    session.write(tables::updates(&info)).await.unwrap();
    let packets = packets.to_vec();
    let left = switch.control().run(move |switch| process(switch, &packets)).await.unwrap();
    let cells = session.read(vec![Query::AllCounters.to_proto(&info).unwrap()]).await.unwrap();
    let cell = |message| match Entity::from_proto(&info, message).unwrap() {
        Entity::Counter(CounterCell { counter, index, packets, .. }) => ((counter, index), packets),
        other => panic!("{other}"),
    };
    (left, cells.iter().map(cell).collect())
}

#[tokio::test]
async fn both_do_the_same_with_random_packets() {
    let packets = packets(PACKETS);
    let (expected, counted) = run(&program_in("32"), &packets).await;
    let (left, counted_too) = run(&program_in(PROGRAM.0), &packets).await;
    for (((port, frame), expected), left) in packets.iter().zip(&expected).zip(&left) {
        assert_eq!(left, expected, "at port {port}: {frame:02x?}");
    }
    assert_eq!(counted_too, counted);
    // The traffic has caused every kind of event.
    let reasons: BTreeSet<_> =
        counted.iter().filter(|(_, packets)| **packets > 0).map(|((name, _), _)| name).collect();
    assert_eq!(reasons.len(), 14, "{reasons:?}");
}
