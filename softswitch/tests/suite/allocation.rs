//! Processing a packet allocates no memory.

use crate::support::{JOB, Rig, Sent, UP, values};

/// Every kind of packet: consumed, completing, stale, retransmitted, results for one and for all, rejected, plain, for
/// the controller.
fn packets() -> Vec<(u16, Vec<u8>)> {
    let mut packets = Vec::new();
    for seq in 100..120 {
        packets.push((1, Sent::gradient(0, 2, seq, values(1)).frame()));
        packets.push((1, Sent::gradient(0, 2, seq, values(1)).retransmitted().frame()));
        packets.push((2, Sent::gradient(1, 2, seq, values(2)).max().frame()));
        packets.push((2, Sent::gradient(1, 2, seq - 64, values(2)).frame()));
        packets.push((UP, Sent::result(seq, 1).frame()));
        let mut result = Sent::result(seq, 1);
        result.hops.clear();
        packets.push((UP, result.frame()));
        packets.push((2, Sent::gradient(0, 2, seq, values(2)).frame()));
        packets.push((3, vec![0; 600]));
        packets.push((3, vec![1; 600]));
    }
    packets
}

#[test]
fn packets_allocate_nothing_once_the_outputs_have_their_size() {
    let mut rig = Rig::aggregating(2);
    rig.group(1, &[1, 2, 3, 4]);
    rig.insert("result_group", &[JOB.into()], "deliver", &[1, 1]);
    rig.insert("mac_forward", &[0], "broadcast", &[1]);
    rig.insert("mac_forward", &[0x0101_0101_0101], "to_controller", &[]);
    let packets = packets();
    let mut left = 0;
    let mut round = || {
        for (port, frame) in &packets {
            rig.outputs.clear();
            rig.switch.process(*port, frame, &mut rig.outputs);
            left += rig.outputs.len();
        }
    };
    round();
    let allocated = allocation_counter::measure(round);
    assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0));
    assert!(left > packets.len());
}
