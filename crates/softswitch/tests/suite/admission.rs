//! Admission: the packets that pass, and the counter for each reason to reject a packet.

use std::net::Ipv4Addr;

use tributary_wire::constants::{FLAG_PROBE, HOP_BYTES, INA_HEADER_BYTES, INA_UDP_PORT};
use tributary_wire::{MacAddr, Rank};

use crate::program::{CHILDREN, PROGRAM};
use crate::support::{
    Address, Admit, BASE, GRADIENT, JOB, JOB_INDEX, NODE, RESULT, Rig, Sent, UP, WINDOW, hop, values,
};

const SEQ: u32 = 9;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const INA: usize = ETHERNET + IPV4 + UDP;

fn good() -> Sent {
    Sent::gradient(0, 2, SEQ, values(1))
}

/// Sets the IPv4 checksum, which is computed here in the simplest way.
fn fix_checksum(frame: &mut [u8]) {
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let words = frame[ETHERNET..ETHERNET + IPV4].as_chunks::<2>().0;
    let mut sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Checks that the switch drops the frame before the slot is read. The counter is the only effect.
#[track_caller]
fn is_rejected(rig: &mut Rig, port: u16, frame: &[u8], by_job: bool) {
    let before = (rig.port_rejected(port), rig.job("job_rejected"));
    assert_eq!(rig.send(port, frame), []);
    let after = (rig.port_rejected(port), rig.job("job_rejected"));
    let expected = if by_job { (before.0, before.1 + 1) } else { (before.0 + 1, before.1) };
    assert_eq!(after, expected, "(port_rejected, job_rejected)");
    let touched =
        ["job_contributed", "job_stale", "job_duplicate", "job_consumed", "job_forwarded", "job_result"];
    assert_eq!(touched.map(|counter| rig.job(counter)), [0; 6]);
}

#[test]
fn a_job_that_is_not_admitted_at_the_port_is_rejected_there() {
    let mut rig = Rig::aggregating(2);
    is_rejected(&mut rig, 5, &good().frame(), false);
    let mut other = good();
    other.header.job = tributary_wire::JobId::new(JOB + 1).unwrap();
    is_rejected(&mut rig, 1, &other.frame(), false);
}

#[test]
fn a_packet_for_another_node_is_rejected_at_the_port() {
    let mut rig = Rig::aggregating(2);
    let mut sent = good();
    sent.hops[0].node = tributary_wire::NodeId::new(NODE + 1).unwrap();
    is_rejected(&mut rig, 1, &sent.frame(), false);
}

#[test]
fn a_child_can_speak_only_for_itself() {
    let mut rig = Rig::aggregating(2);
    for child in [1, 2, 63] {
        let mut sent = good();
        sent.hops[0].child = child;
        is_rejected(&mut rig, 1, &sent.frame(), true);
    }
    // The number of children exceeds a bitmap, so no sender of this project can write it.
    let mut frame = good().frame();
    frame[INA + INA_HEADER_BYTES + 4] = 0x80 | 64;
    is_rejected(&mut rig, 1, &frame, true);
}

#[test]
fn a_worker_by_itself_at_a_port_can_send_as_its_own_rank_only() {
    let mut rig = Rig::aggregating(1);
    let own = good().header.rank;
    let (base, window, job_index, kinds) = (BASE, WINDOW, JOB_INDEX, GRADIENT | RESULT);
    let (children, aggregate, fan_in) = (1, true, 2);
    let admit = Admit { job: JOB, port: 6, job_index, base, window, children, kinds, aggregate, fan_in };
    rig.admit_rank(own.get().into(), admit);
    let mut other = good();
    for rank in [Rank::new(own.get() + 1), Rank::new(0), Rank::ALL] {
        other.header.rank = rank;
        let mut probe = other.clone();
        probe.values = None;
        is_rejected(&mut rig, 6, &other.frame(), true);
        is_rejected(&mut rig, 6, &probe.frame(), true);
    }
    rig.send(6, &good().frame());
    assert_eq!(rig.job("job_contributed"), 1);
    // If the host is also the job's server, its results may have any rank.
    let mut result = Sent::result(SEQ, UP);
    result.header.rank = Rank::new(own.get() + 1);
    assert_eq!(rig.send(6, &result.frame()).len(), 1);
}

#[test]
fn claims_about_the_tree_are_not_believed() {
    let mut rig = Rig::aggregating(2);
    let mut fan_in = good();
    fan_in.hops[0].fan_in = 1;
    is_rejected(&mut rig, 1, &fan_in.frame(), true);
    let mut passing = good();
    passing.hops[0].aggregate = false;
    is_rejected(&mut rig, 1, &passing.frame(), true);
}

#[test]
fn kinds_come_in_only_where_they_may() {
    let mut rig = Rig::aggregating(2);
    is_rejected(&mut rig, 1, &Sent::result(SEQ, 2).frame(), true);
    is_rejected(&mut rig, UP, &good().frame(), true);
    // The entry admits both kinds of packet at one port.
    let (base, window, job_index, fan_in) = (BASE, WINDOW, JOB_INDEX, 2);
    let kinds = GRADIENT | RESULT;
    rig.admit(Admit {
        job: JOB,
        port: 6,
        job_index,
        base,
        window,
        children: 1,
        kinds,
        aggregate: true,
        fan_in,
    });
    assert_eq!(rig.send(6, &Sent::result(SEQ, 2).frame()).len(), 1);
    assert_eq!(rig.send(6, &good().frame()), []);
    assert_eq!((rig.job("job_result"), rig.job("job_contributed")), (1, 1));
}

fn address(number: u8) -> Address {
    (MacAddr::new(2, 0, 0, 0, 1, number), Ipv4Addr::new(10, 0, 1, number))
}

/// Makes a switch whose port 1 leads to two children and the server, distinguished by their
/// addresses.
fn shared() -> Rig {
    let mut rig = Rig::new();
    rig.admit_by_sender(JOB, 1);
    for (number, children, kinds) in [(0, 1, GRADIENT), (1, 2, GRADIENT), (2, 3, RESULT)] {
        let admit = Admit {
            job: JOB,
            port: 1,
            job_index: JOB_INDEX,
            base: BASE,
            window: WINDOW,
            children,
            kinds,
            aggregate: true,
            fan_in: 2,
        };
        rig.admit_sender(address(number), admit);
    }
    rig.allow(JOB, 1);
    rig.allow(JOB, UP);
    rig
}

#[test]
fn behind_a_shared_port_each_sender_speaks_for_itself() {
    let mut rig = shared();
    let of = |child: u8| Sent::gradient(child, 2, SEQ, values(child.into()));
    let result = Sent::result(SEQ, 1);
    for (sender, sent) in [(0, &of(1)), (1, &of(0)), (2, &of(0)), (0, &result), (1, &result)] {
        is_rejected(&mut rig, 1, &sent.frame_from(address(sender)), true);
    }
    assert_eq!(rig.send(1, &of(0).frame_from(address(0))), []);
    assert_eq!(rig.send(1, &of(1).frame_from(address(1))).len(), 1);
    assert_eq!(rig.send(1, &result.frame_from(address(2))).len(), 1);
    assert_eq!([rig.job("job_contributed"), rig.job("job_completed"), rig.job("job_released")], [2, 1, 1]);
}

#[test]
fn behind_a_shared_port_who_is_no_sender_is_rejected_there() {
    let mut rig = shared();
    let ((mac, ip), (neighbours_mac, neighbours_ip)) = (address(0), address(9));
    let mut probe = good();
    probe.values = None;
    let mut multicast = Sent::result(SEQ, 0);
    multicast.hops.clear();
    for from in [(neighbours_mac, neighbours_ip), (mac, neighbours_ip), (neighbours_mac, ip)] {
        for sent in [good(), probe.clone(), Sent::result(SEQ, 1), multicast.clone()] {
            is_rejected(&mut rig, 1, &sent.frame_from(from), false);
        }
    }
    // The entries admit a sender at another port, and a sender in another job.
    rig.admit_by_sender(JOB, 2);
    is_rejected(&mut rig, 2, &good().frame_from(address(0)), false);
    rig.admit_by_sender(JOB + 1, 1);
    let mut other = good();
    other.header.job = tributary_wire::JobId::new(JOB + 1).unwrap();
    is_rejected(&mut rig, 1, &other.frame_from(address(0)), false);
    assert_eq!(rig.job("job_received"), 0);
}

#[test]
fn a_packet_leaves_only_where_its_job_may() {
    let mut rig = Rig::aggregating(2);
    for port in [UP + 1, UP + 512, 0xffff] {
        let mut sent = good();
        sent.hops[0].egress_port = port;
        is_rejected(&mut rig, 1, &sent.frame(), true);
    }
    // The frame is a multicast result of a job that has no group here.
    let mut result = Sent::result(SEQ, 0);
    result.hops.clear();
    is_rejected(&mut rig, UP, &result.frame(), true);
}

#[test]
fn a_time_to_live_that_would_end_here_is_rejected() {
    let mut rig = Rig::aggregating(2);
    for ttl in [0, 1] {
        let mut frame = good().frame();
        frame[ETHERNET + 8] = ttl;
        fix_checksum(&mut frame);
        is_rejected(&mut rig, 1, &frame, true);
    }
}

#[test]
fn a_wrong_ipv4_checksum_is_rejected_at_the_port() {
    let mut rig = Rig::aggregating(2);
    let mut frame = good().frame();
    frame[ETHERNET + 10] ^= 1;
    is_rejected(&mut rig, 1, &frame, false);
}

#[test]
fn a_wrong_number_of_blocks_is_rejected() {
    let mut rig = Rig::aggregating(2);
    for blocks in [0, 7, 9, 255] {
        let mut frame = good().frame();
        frame[INA + 7] = blocks;
        is_rejected(&mut rig, 1, &frame, true);
    }
}

#[test]
fn a_probe_that_claims_values_is_rejected_whether_it_has_them_or_not() {
    let mut rig = Rig::aggregating(2);
    let mut with = good().frame();
    with[INA + 1] |= FLAG_PROBE;
    is_rejected(&mut rig, 1, &with, true);
    let mut probe = good();
    probe.values = None;
    let mut without = probe.frame();
    without[INA + 7] = with[INA + 7];
    // The frame ends before its values do.
    is_rejected(&mut rig, 1, &without, false);
}

#[test]
fn a_frame_that_ends_early_is_rejected_at_the_port_wherever_it_ends() {
    let mut rig = Rig::aggregating(2);
    let frame = good().frame();
    assert_eq!(frame.len(), INA + INA_HEADER_BYTES + 2 * HOP_BYTES + PROGRAM.1.bytes());
    for len in [INA, INA + 1, INA + INA_HEADER_BYTES, INA + INA_HEADER_BYTES + 7, frame.len() - 1] {
        is_rejected(&mut rig, 1, &frame[..len], false);
    }
}

#[test]
fn what_could_hide_a_packet_is_rejected_at_the_port() {
    let plain = good().frame();
    let mut options = plain.clone();
    options[ETHERNET] = 0x46;
    let mut fragment = plain.clone();
    fragment[ETHERNET + 6] = 0x20;
    let mut version = plain.clone();
    version[INA] = 0x11;
    let mut kind = plain.clone();
    kind[INA] = 0x23;
    let mut hops = plain.clone();
    hops[INA + 6] = 9;
    let mut no_hops = plain;
    no_hops[INA + 6] = 0;
    for (what, mut frame) in [
        ("IP options", options),
        ("a first fragment", fragment),
        ("version 1", version),
        ("kind 3", kind),
        ("nine hops", hops),
        ("a gradient without hops", no_hops),
    ] {
        let mut rig = Rig::aggregating(2);
        fix_checksum(&mut frame);
        println!("{what}");
        is_rejected(&mut rig, 1, &frame, false);
    }
}

/// Puts VLAN tags of these types, the outermost first, in front of `frame`. All have one VLAN id.
fn tagged(frame: &[u8], types: &[u16], vlan: u16) -> Vec<u8> {
    let tags: Vec<u8> =
        types.iter().flat_map(|tag| [tag.to_be_bytes(), vlan.to_be_bytes()].concat()).collect();
    [&frame[..12], &tags, &frame[12..]].concat()
}

/// Returns the frame behind every stack of one to three VLAN tags.
///
/// The tags have the types of 802.1Q, 802.1ad and their predecessors, each in a VLAN and with a
/// priority only.
fn every_tagging(frame: &[u8]) -> Vec<Vec<u8>> {
    const TYPES: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
    let one = TYPES.map(|outer| vec![outer]);
    let two = one.iter().flat_map(|outer| TYPES.map(|inner| [&outer[..], &[inner]].concat()));
    let mut stacks: Vec<_> = one.iter().cloned().chain(two).collect();
    stacks.extend([vec![0x8100; 3], vec![0x88a8; 3], vec![0x88a8, 0x8100, 0x8100]]);
    stacks.iter().flat_map(|types| [0, 5, 0xfff].map(|vlan| tagged(frame, types, vlan))).collect()
}

#[test]
fn what_has_a_vlan_tag_is_rejected_at_the_port_whatever_is_behind_it() {
    let (gradient, result) = (good().frame(), Sent::result(SEQ, 2).frame());
    let arp = [&gradient[..12], &[0x08, 0x06], &[0; 46]].concat();
    let nothing = gradient[..12].to_vec();
    let mut rig = Rig::aggregating(2);
    // The entry sends a plain frame to this port.
    rig.insert("mac_forward", &[0x0200_0000_0002], "forward", &[4]);
    for behind in [gradient, result, arp, nothing] {
        for frame in every_tagging(&behind) {
            println!("{:02x?}", &frame[12..frame.len().min(40)]);
            is_rejected(&mut rig, 1, &frame, false);
        }
    }
}

#[test]
fn what_is_not_ours_is_a_frame_like_any_other() {
    let plain = good().frame();
    let mut other_port = plain.clone();
    other_port[ETHERNET + IPV4 + 2..ETHERNET + IPV4 + 4].copy_from_slice(&(INA_UDP_PORT + 1).to_be_bytes());
    let mut later_fragment = plain.clone();
    later_fragment[ETHERNET + 7] = 1;
    let mut tcp = plain.clone();
    tcp[ETHERNET + 9] = 6;
    let mut ipv6 = plain;
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    for frame in [other_port, later_fragment, tcp, ipv6] {
        let mut rig = Rig::aggregating(2);
        rig.insert("mac_forward", &[0x0200_0000_0002], "forward", &[4]);
        assert_eq!(rig.send(1, &frame), [(4, frame.clone())], "unchanged");
        assert_eq!((rig.port_rejected(1), rig.job("job_received")), (0, 0));
    }
}

#[test]
fn entries_taken_away_are_gone_at_once() {
    let mut rig = Rig::aggregating(1);
    let sent = Sent::gradient(0, 1, SEQ, values(1));
    assert_eq!(rig.send(1, &sent.frame()).len(), 1);
    let key = rig.key("egress_guard", &[JOB.into(), UP.into()]);
    rig.switch.delete(&key).unwrap();
    assert_eq!(rig.send(1, &sent.frame()), []);
    assert_eq!(rig.job("job_rejected"), 1);
    let key = rig.key("admission", &[JOB.into(), 1]);
    rig.switch.delete(&key).unwrap();
    assert_eq!(rig.send(1, &sent.frame()), []);
    assert_eq!(rig.port_rejected(1), 1);
}

#[test]
fn as_many_children_as_a_slot_has_room_for_can_be_told_apart() {
    let mut rig = Rig::new();
    let (base, window, job_index, kinds) = (BASE, WINDOW, JOB_INDEX, GRADIENT);
    rig.admit(Admit {
        job: JOB,
        port: 1,
        job_index,
        base,
        window,
        children: u64::MAX >> (64 - CHILDREN),
        kinds,
        aggregate: true,
        fan_in: CHILDREN,
    });
    rig.allow(JOB, UP);
    for child in 0..CHILDREN {
        let mut sent = Sent::gradient(0, CHILDREN, SEQ, values(1));
        sent.hops[0] = hop(NODE, UP, true, child, CHILDREN);
        assert_eq!(rig.send(1, &sent.frame()).len(), usize::from(child == CHILDREN - 1));
    }
    // The next child has no bit in the bitmap, so it is rejected, regardless of the entry.
    let mut frame = Sent::gradient(0, CHILDREN, SEQ, values(1)).frame();
    frame[INA + INA_HEADER_BYTES + 4] = 0x80 | CHILDREN;
    let rejected = rig.job("job_rejected");
    assert_eq!(rig.send(1, &frame), []);
    assert_eq!(rig.job("job_rejected"), rejected + 1);
}
