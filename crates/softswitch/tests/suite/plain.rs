//! Frames without the project's protocol (INA), and the path to and from the controller.

use crate::support::{JOB_INDEX, NODE, Rig, Sent, values};

const CPU_PORT: u16 = 510;
const TO: u64 = 0x0200_0000_0002;

/// Makes a frame of `len` bytes to [`TO`], of a protocol that the switch does not know.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x12, 0x34];
    frame.extend((14..len).map(|byte| byte as u8));
    frame
}

#[test]
fn a_frame_to_nowhere_is_dropped() {
    let mut rig = Rig::new();
    assert_eq!(rig.send(1, &frame(60)), []);
    assert_eq!(rig.counter("port_ingress", 1).packets, 1);
}

#[test]
fn a_known_address_decides_the_port() {
    let mut rig = Rig::new();
    rig.insert("mac_forward", &[TO], "forward", &[3]);
    for len in [14, 15, 60, 1514, 9000] {
        assert_eq!(rig.send(1, &frame(len)), [(3, frame(len))]);
    }
    assert_eq!(rig.counter("port_egress", 3).packets, 5);
    assert_eq!(rig.counter("port_egress", 3).bytes, 14 + 15 + 60 + 1514 + 9000);
}

#[test]
fn a_flood_spares_the_port_it_came_from() {
    let mut rig = Rig::new();
    rig.group(2, &[1, 2, 3]);
    rig.insert("mac_forward", &[TO], "broadcast", &[2]);
    assert_eq!(rig.send(2, &frame(60)), [(1, frame(60)), (3, frame(60))]);
    assert_eq!(rig.send(9, &frame(60)).len(), 3);
    assert_eq!(rig.counter("port_egress", 2).packets, 1);
}

#[test]
fn a_frame_for_the_controller_says_where_it_came_in() {
    let mut rig = Rig::new();
    rig.insert("mac_forward", &[TO], "to_controller", &[]);
    for port in [0_u16, 5, 255, 256, 509] {
        let mut expected = (port << 7).to_be_bytes().to_vec();
        expected.extend(frame(60));
        assert_eq!(rig.send(port, &frame(60)), [(CPU_PORT, expected)]);
    }
}

#[test]
fn a_frame_of_the_controller_leaves_where_it_says() {
    let mut rig = Rig::new();
    for port in [0_u16, 7, 300] {
        let mut sent = (port << 7).to_be_bytes().to_vec();
        // The switch does not process an INA frame from the controller.
        sent.extend(Sent::gradient(0, 1, 1, values(1)).frame());
        assert_eq!(rig.send(CPU_PORT, &sent), [(port, sent[2..].to_vec())]);
    }
}

#[test]
fn a_switch_without_a_node_id_forwards_everything_by_address() {
    let mut rig = Rig::aggregating(1);
    let nobody = rig.call("set_identity", &[0]);
    let identity = rig.table("identity");
    rig.switch.set_default(identity, Some(&nobody)).unwrap();
    rig.insert("mac_forward", &[TO], "forward", &[4]);
    let sent = Sent::gradient(0, 1, 1, values(1)).frame();
    let tagged = [&sent[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &sent[12..]].concat();
    for frame in [&sent, &tagged] {
        assert_eq!(rig.send(1, frame), [(4, frame.clone())]);
    }
    assert_eq!(rig.counter("job_received", JOB_INDEX).packets, 0);
    assert_eq!(rig.port_rejected(1), 0);
    // The table's initial default has the same effect.
    rig.switch.set_default(identity, None).unwrap();
    assert_eq!(rig.send(1, &sent), [(4, sent.clone())]);
    let someone = rig.call("set_identity", &[NODE.into()]);
    rig.switch.set_default(identity, Some(&someone)).unwrap();
    assert_eq!(rig.counter("job_received", JOB_INDEX).packets, 0);
    assert_eq!(rig.send(1, &sent).len(), 1);
    assert_eq!(rig.counter("job_received", JOB_INDEX).packets, 1);
}

#[test]
fn ports_that_no_switch_has_take_nothing() {
    let mut rig = Rig::new();
    rig.insert("mac_forward", &[TO], "forward", &[3]);
    assert_eq!(rig.send(511, &frame(60)), []);
    assert_eq!(rig.send(u16::MAX, &frame(60)), []);
}
