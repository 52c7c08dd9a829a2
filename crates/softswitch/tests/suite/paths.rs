//! Clones, resubmitted and recirculated packets, with `programs/paths.p4`.

use std::sync::{Arc, LazyLock};

use tributary_softswitch::control::{CloneSession, MulticastGroup, Replica};
use tributary_softswitch::{Outputs, Pipeline, Switch};

/// The program's orders.
const CLONE: u8 = 1;
const CLONE_WIDE: u8 = 2;
const CLONE_AND_DROP: u8 = 3;
const RESUBMIT: u8 = 4;
const CLONE_AND_RESUBMIT: u8 = 5;
const RECIRCULATE: u8 = 6;
const CLONE_AND_FLOOD: u8 = 7;
const LAST_CLONE_COUNTS: u8 = 8;
/// The value that ingress writes to a wide field.
const WIDE: u128 = 0x11_2233_4455_6677_8899;
/// The session whose packets are recirculated forever.
const FOR_EVER: u8 = 0xff;
/// The port by which all packets come in.
const PORT: u16 = 7;
/// The port by which the program forwards packets.
const OUT: u16 = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Order {
    in_ingress: u8,
    in_egress: u8,
    rounds: u8,
    session: u8,
}

impl Order {
    fn frame(self, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![self.in_ingress, self.in_egress, self.rounds, self.session, 0, 0];
        frame.extend_from_slice(payload);
        frame
    }
}

/// The report that a leaving packet carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PacketReport {
    port: u16,
    instance_type: u8,
    egress_rid: u8,
    ingress_port: u16,
    packet_length: u16,
    kept: u8,
    parsed_instance: u8,
    lost: u8,
    wide: u128,
    mark: u16,
}

/// Lengths of the report and of the order in bytes.
const REPORT: usize = 18;
const ORDER: usize = 6;

impl PacketReport {
    fn read(port: u16, frame: &[u8]) -> Self {
        let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        Self {
            port,
            instance_type: frame[0],
            egress_rid: frame[1],
            ingress_port: word(2),
            packet_length: word(4),
            kept: frame[6],
            parsed_instance: frame[7],
            lost: frame[8],
            wide: frame[9..REPORT].iter().fold(0, |number, byte| number << 8 | u128::from(*byte)),
            mark: word(REPORT + 4),
        }
    }

    /// Returns the report of a packet that has passed ingress and egress once.
    fn ordinary(length: usize) -> Self {
        Self {
            port: OUT,
            ingress_port: PORT,
            packet_length: length as u16,
            kept: 1,
            lost: 0xff,
            wide: WIDE,
            ..Self::default()
        }
    }
}

fn switch() -> Switch {
    static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| Arc::new(test_program!("paths")));
    let mut switch = Switch::new(PIPELINE.clone());
    let session = CloneSession { id: 5, replicas: to(&[(20, 3)]), ..CloneSession::default() };
    switch.insert_session(&session).unwrap();
    let both = CloneSession { id: 6, replicas: to(&[(20, 1), (21, 2)]), ..CloneSession::default() };
    switch.insert_session(&both).unwrap();
    switch
}

fn to(replicas: &[(u16, u16)]) -> Vec<Replica> {
    replicas.iter().map(|(port, instance)| Replica { port: *port, instance: *instance }).collect()
}

fn frames(switch: &mut Switch, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut outputs = Outputs::new();
    switch.process(PORT, frame, &mut outputs);
    outputs.iter().map(|(port, frame)| (port, frame.to_vec())).collect()
}

/// Returns reports of the frames that leave when a packet with this order and ten further bytes
/// comes in.
fn reports(switch: &mut Switch, order: Order) -> Vec<PacketReport> {
    let left = frames(switch, &order.frame(&[0xaa; 10]));
    left.iter().map(|(port, frame)| PacketReport::read(*port, frame)).collect()
}

#[test]
fn an_ingress_clone_is_the_packet_as_it_came_with_preserved_fields_as_they_are_at_the_end() {
    let mut switch = switch();
    let order = Order { in_ingress: CLONE, session: 5, ..Order::default() };
    let clone = PacketReport {
        port: 20,
        instance_type: 1,
        egress_rid: 3,
        packet_length: 16,
        kept: 0x40,
        ..PacketReport::default()
    };
    let original = PacketReport { mark: 0xdead, kept: 0x40, ..PacketReport::ordinary(16) };
    assert_eq!(reports(&mut switch, order), [clone, original]);
    let order = Order { in_ingress: CLONE_WIDE, ..order };
    let clone = PacketReport { kept: 1, wide: WIDE, ..clone };
    assert_eq!(reports(&mut switch, order), [clone, PacketReport::ordinary(16)]);
}

#[test]
fn a_dropped_packets_clone_leaves() {
    let mut switch = switch();
    let order = Order { in_ingress: CLONE_AND_DROP, session: 6, ..Order::default() };
    let ports: Vec<_> =
        reports(&mut switch, order).iter().map(|report| (report.port, report.egress_rid)).collect();
    assert_eq!(ports, [(20, 1), (21, 2)]);
    let order = Order { in_egress: CLONE_AND_DROP, session: 6, ..Order::default() };
    let left = reports(&mut switch, order);
    let ports: Vec<_> =
        left.iter().map(|report| (report.port, report.egress_rid, report.instance_type)).collect();
    assert_eq!(ports, [(20, 1, 2), (21, 2, 2)]);
}

#[test]
fn a_session_that_is_not_there_clones_nothing_and_the_last_of_several_counts() {
    let mut switch = switch();
    let order = Order { in_ingress: CLONE_AND_DROP, session: 77, ..Order::default() };
    assert_eq!(reports(&mut switch, order), []);
    let order = Order { in_ingress: LAST_CLONE_COUNTS, session: 5, ..Order::default() };
    let ports: Vec<_> = reports(&mut switch, order).iter().map(|report| report.port).collect();
    assert_eq!(ports, [20, OUT]);
    switch.delete_session(5).unwrap();
    let ports: Vec<_> = reports(&mut switch, order).iter().map(|report| report.port).collect();
    assert_eq!(ports, [OUT]);
}

#[test]
fn an_egress_clone_has_the_headers_of_egresss_end_and_goes_through_egress_again() {
    let mut switch = switch();
    let order = Order { in_egress: CLONE, session: 5, ..Order::default() };
    let clone = PacketReport {
        port: 20,
        instance_type: 2,
        egress_rid: 3,
        // The length includes the header that egress has added.
        packet_length: 16 + REPORT as u16,
        kept: 1,
        wide: WIDE,
        ..PacketReport::default()
    };
    assert_eq!(reports(&mut switch, order), [PacketReport::ordinary(16), clone]);
}

#[test]
fn clones_are_cut_off_behind_their_headers() {
    let mut switch = switch();
    let short =
        CloneSession { id: 5, replicas: to(&[(20, 3)]), packet_length: 10, ..CloneSession::default() };
    switch.modify_session(&short).unwrap();
    let payload: Vec<u8> = (0..10).collect();
    let order = Order { in_ingress: CLONE_AND_DROP, session: 5, ..Order::default() };
    let left = frames(&mut switch, &order.frame(&payload));
    assert_eq!(left[0].1[REPORT + ORDER..], payload[..4]);
    assert_eq!(PacketReport::read(20, &left[0].1).packet_length, 10);
    let order = Order { in_egress: CLONE_AND_DROP, session: 5, ..Order::default() };
    let left = frames(&mut switch, &order.frame(&payload));
    assert!(left[0].1[REPORT + ORDER..].is_empty());
    let longer = CloneSession { packet_length: 26, ..short };
    switch.modify_session(&longer).unwrap();
    let left = frames(&mut switch, &order.frame(&payload));
    assert_eq!(left[0].1[REPORT + ORDER..], payload[..2]);
}

#[test]
fn a_resubmitted_packet_begins_as_it_came_with_preserved_fields_only() {
    let mut switch = switch();
    let order = Order { in_ingress: RESUBMIT, rounds: 3, ..Order::default() };
    // The packet is resubmitted three times. Each time, ingress increments a preserved field. The
    // ingress port is not preserved.
    let report = PacketReport { kept: 4, parsed_instance: 6, ingress_port: 0, ..PacketReport::ordinary(16) };
    assert_eq!(reports(&mut switch, order), [report]);
    // No state of the packet remains for the next packet.
    assert_eq!(reports(&mut switch, Order::default()), [PacketReport::ordinary(16)]);
}

#[test]
fn a_clone_leaves_before_its_packet_is_resubmitted() {
    let mut switch = switch();
    let order = Order { in_ingress: CLONE_AND_RESUBMIT, session: 5, ..Order::default() };
    let left = reports(&mut switch, order);
    let summary: Vec<_> = left.iter().map(|one| (one.port, one.instance_type, one.kept)).collect();
    assert_eq!(summary, [(20, 1, 0), (OUT, 0, 2)]);
}

#[test]
fn a_recirculated_packet_begins_as_it_left() {
    let mut switch = switch();
    let order = Order { in_egress: RECIRCULATE, rounds: 50, ..Order::default() };
    let report = PacketReport {
        kept: 51,
        parsed_instance: 4,
        ingress_port: 0,
        mark: 50,
        ..PacketReport::ordinary(16)
    };
    assert_eq!(reports(&mut switch, order), [report]);
}

#[test]
fn a_clone_and_a_multicast_group_go_together() {
    let mut switch = switch();
    switch
        .insert_group(&MulticastGroup { id: 9, replicas: to(&[(30, 1), (31, 2)]), ..Default::default() })
        .unwrap();
    let order = Order { in_ingress: CLONE_AND_FLOOD, session: 5, ..Order::default() };
    let left = reports(&mut switch, order);
    let summary: Vec<_> = left.iter().map(|one| (one.port, one.instance_type, one.egress_rid)).collect();
    assert_eq!(summary, [(20, 1, 3), (30, 5, 1), (31, 5, 2)]);
}

#[test]
fn packets_that_recirculate_for_ever_let_others_pass_and_are_bounded() {
    let mut switch = switch();
    let order = Order { in_egress: RECIRCULATE, session: FOR_EVER, ..Order::default() };
    for _ in 0..3000 {
        assert_eq!(reports(&mut switch, order), []);
    }
    assert!(switch.is_waiting());
    assert_eq!(reports(&mut switch, Order::default()), [PacketReport::ordinary(16)]);
    // The queue is full: the switch drops a packet that requests one more pass, as on BMv2.
    let once = Order { in_ingress: RESUBMIT, rounds: 1, ..Order::default() };
    assert_eq!(reports(&mut switch, once), []);
}

#[test]
fn a_packet_of_many_rounds_goes_on_in_steps() {
    let mut switch = switch();
    let order = Order { in_egress: RECIRCULATE, rounds: 200, ..Order::default() };
    assert_eq!(reports(&mut switch, order), []);
    let mut outputs = Outputs::new();
    let mut steps = 0;
    while switch.is_waiting() {
        switch.go_on(&mut outputs);
        steps += 1;
        assert!(steps < 100);
    }
    let left: Vec<_> = outputs.iter().map(|(port, frame)| PacketReport::read(port, frame).mark).collect();
    assert_eq!(left, [200]);
}

#[test]
fn an_action_drops_by_the_metadata_that_it_is_given() {
    let mut switch = Switch::new(Arc::new(test_program!("drops")));
    switch
        .insert_group(&MulticastGroup {
            id: 1,
            replicas: vec![Replica { port: 8, instance: 0 }],
            ..Default::default()
        })
        .unwrap();
    // The orders are: drop in ingress, forward after a drop, drop in egress, and send to a group.
    for (order, ports) in [(0, &[2][..]), (1, &[]), (3, &[3]), (4, &[]), (7, &[]), (0x80, &[8]), (0x81, &[])]
    {
        let mut outputs = Outputs::new();
        switch.process(1, &[order], &mut outputs);
        let left: Vec<u16> = outputs.iter().map(|(port, _)| port).collect();
        assert_eq!(left, ports, "{order:#x}");
    }
}
