//! Checks that processing a packet allocates no memory.

use std::sync::Arc;

use tributary_softswitch::control::{
    ActionCall, CloneSession, DigestConfig, EntryKey, FieldMatch, KeyMatch, MeterConfig, MulticastGroup,
    Replica, TableEntry,
};
use tributary_softswitch::{Outputs, Switch};

use crate::support::{JOB, Rig, Sent, UP, values};

/// Returns packets of every kind.
///
/// They are consumed, complete a sum, are stale, retransmitted, results for one and for all,
/// rejected, plain, or go to the controller.
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

/// Sends the frames into a switch several times, until none of them waits in the switch.
/// Returns the number of frames that left.
fn run(switch: &mut Switch, outputs: &mut Outputs, frames: &[Vec<u8>]) -> usize {
    let mut left = 0;
    for frame in frames {
        outputs.clear();
        switch.process(1, frame, outputs);
        while switch.is_waiting() {
            switch.go_on(outputs);
        }
        left += outputs.len();
    }
    left
}

/// Number of rounds after which the buffers of each waiting packet have held the largest packet.
const ROUNDS: usize = 50;

/// Asserts that the frames allocate nothing once the buffers have their sizes.
fn assert_nothing_is_allocated(switch: &mut Switch, frames: &[Vec<u8>]) {
    let mut outputs = Outputs::new();
    let first = run(switch, &mut outputs, frames);
    for _ in 0..ROUNDS {
        run(switch, &mut outputs, frames);
    }
    let mut again = 0;
    let allocated = allocation_counter::measure(|| again = run(switch, &mut outputs, frames));
    assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0));
    assert!(first > 0 && again == first, "{first} and {again} frames");
}

#[test]
fn clones_and_packets_that_begin_again_allocate_nothing() {
    let mut switch = Switch::new(Arc::new(test_program!("paths")));
    let replicas = vec![Replica { port: 20, instance: 1 }, Replica { port: 21, instance: 2 }];
    switch.insert_session(&CloneSession { id: 5, replicas: replicas.clone(), ..Default::default() }).unwrap();
    switch.insert_group(&MulticastGroup { id: 9, replicas, ..Default::default() }).unwrap();
    // The frames carry all orders for ingress and egress, three rounds, and session 5.
    let orders = (0..=8).flat_map(|ingress| [0, 1, 3, 6].map(|egress| vec![ingress, egress, 3, 5, 0, 0]));
    let frames: Vec<Vec<u8>> = orders
        .map(|mut frame| {
            frame.resize(400, 0x5a);
            frame
        })
        .collect();
    assert_nothing_is_allocated(&mut switch, &frames);
}

#[test]
fn meters_digests_and_value_sets_allocate_nothing() {
    let mut switch = Switch::new(Arc::new(test_program!("externs")));
    let info = switch.pipeline().info().message().clone();
    let digest = info.digests[0].preamble.as_ref().unwrap().id;
    let config = DigestConfig {
        max_timeout: std::time::Duration::from_secs(1000),
        ack_timeout: std::time::Duration::from_secs(1000),
        max_list_size: 1000,
    };
    switch.insert_digest(digest, config).unwrap();
    let meter = info.meters[0].preamble.as_ref().unwrap().id;
    let rates = MeterConfig { committed_burst: 3, peak_burst: 5, ..Default::default() };
    switch.set_meter(meter, None, Some(rates)).unwrap();
    let set = info.value_sets[0].preamble.as_ref().unwrap().id;
    let exact = |value| vec![FieldMatch { field_id: 1, key: KeyMatch::Exact(vec![value]) }];
    switch.set_value_set(set, &[exact(1)]).unwrap();
    let id = |alias: &str| {
        let tables = info.tables.iter().map(|one| &one.preamble);
        let all = tables.chain(info.actions.iter().map(|one| &one.preamble)).flatten();
        all.clone().find(|preamble| preamble.alias == alias).unwrap().id
    };
    for key in 0..4 {
        let key = EntryKey { table_id: id("metered"), matches: exact(key), priority: 0 };
        let mark = ActionCall { action_id: id("mark"), params: Vec::new() };
        switch.insert(&TableEntry::new(key, mark)).unwrap();
    }
    // The bytes are kinds, meters, keys, flows and learned values; the switch sends each digest
    // once.
    let frames: Vec<Vec<u8>> = (0..64)
        .map(|number: u8| {
            let mut frame = vec![number % 4, number % 5, number % 6, number % 3, 0, 0, 0, number % 7];
            frame.resize(100, 0);
            frame
        })
        .collect();
    assert_nothing_is_allocated(&mut switch, &frames);
}
