//! Checks that GRADIENT packets are processed as sections 3 and 5 of `docs/specification.md`
//! require.

use tributary_wire::{Header, Operator, Tag, Totals};

use crate::support::{
    Admit, BASE, GRADIENT, JOB, JOB_INDEX, NODE, Rig, Sent, UP, Values, WINDOW, hop, received, values,
};

const SEQ: u32 = 0x0102_0304;

fn sum(a: &Values, b: &Values) -> Values {
    std::array::from_fn(|lane| a[lane].wrapping_add(b[lane]))
}

/// Sends a packet, and returns the only frame that leaves, which goes to the parent.
fn goes_up(rig: &mut Rig, port: u16, sent: &Sent) -> Sent {
    let out = rig.send(port, &sent.frame());
    let [(UP, frame)] = out.as_slice() else { panic!("not one frame to port {UP}: {out:?}") };
    received(frame)
}

fn is_consumed(rig: &mut Rig, port: u16, sent: &Sent) {
    let consumed = rig.job("job_consumed");
    assert_eq!(rig.send(port, &sent.frame()), []);
    assert_eq!(rig.job("job_consumed"), consumed + 1);
}

/// Checks that the switch has turned `sent` into the PROBE `probe`, without its own hop.
fn is_probe_of(probe: &Sent, sent: &Sent) {
    assert_eq!(probe.values, None);
    assert_eq!(probe.header, Header { totals: Totals::default(), ..sent.header });
    assert_eq!(probe.hops, sent.hops[1..]);
}

#[test]
fn the_last_of_all_children_carries_the_sum_of_everything() {
    let mut rig = Rig::aggregating(3);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 3, SEQ, values(3)));
    is_consumed(&mut rig, 3, &Sent::gradient(2, 3, SEQ, values(-5)));
    let last = Sent::gradient(1, 3, SEQ, values(i32::MAX));
    let up = goes_up(&mut rig, 2, &last);
    assert_eq!(up.values, Some(sum(&sum(&values(3), &values(-5)), &values(i32::MAX))));
    let totals = Totals { contributors: 3, weight: 2 + 3 + 4, tag: Tag { high: 0x7000_0000, low: 21 } };
    assert_eq!(
        up.header,
        Header { totals, ..last.header },
        "all else is that of the packet that completed it"
    );
    assert_eq!(up.hops, last.hops[1..]);
    assert_eq!(rig.job("job_contributed"), 3);
    assert_eq!(rig.job("job_completed"), 1);
    assert_eq!(rig.job("job_received"), 3);
}

#[test]
fn lanes_do_not_carry_into_each_other() {
    let mut rig = Rig::aggregating(2);
    for (seq, a, b) in [(1, -1, 1), (2, i32::MIN, i32::MIN), (3, i32::MAX, 1), (4, -1, -1)] {
        let a: Values = std::array::from_fn(|lane| if lane % 2 == 0 { a } else { 7 });
        let b: Values = std::array::from_fn(|lane| if lane % 2 == 0 { b } else { 8 });
        is_consumed(&mut rig, 1, &Sent::gradient(0, 2, seq, a));
        let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, seq, b));
        assert_eq!(up.values, Some(sum(&a, &b)), "slice {seq}");
    }
}

#[test]
fn max_takes_the_larger_of_unsigned_31_bit_numbers() {
    let mut rig = Rig::aggregating(2);
    let a: Values = std::array::from_fn(|lane| [0, 5, 0x7fff_ffff, 1, -1, 0x4000_0000][lane % 6]);
    let b: Values = std::array::from_fn(|lane| [0, 6, 0x7fff_fffe, 0x4000_0001, 3, 2][lane % 6]);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ, a).max());
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, SEQ, b).max());
    let expected: Values = std::array::from_fn(|lane| (a[lane] & i32::MAX).max(b[lane] & i32::MAX));
    assert_eq!(up.values, Some(expected));
}

#[test]
fn a_slice_of_one_child_is_forwarded_at_once() {
    let mut rig = Rig::aggregating(1);
    let sent = Sent::gradient(0, 1, SEQ, values(1));
    assert_eq!(goes_up(&mut rig, 1, &sent).values, sent.values);
    assert_eq!(rig.job("job_completed"), 1);
}

#[test]
fn a_duplicate_is_not_added_again() {
    let mut rig = Rig::aggregating(2);
    let (first, last) = (Sent::gradient(0, 2, SEQ, values(1)), Sent::gradient(1, 2, SEQ, values(2)));
    is_consumed(&mut rig, 1, &first);
    is_consumed(&mut rig, 1, &first);
    assert_eq!(rig.job("job_duplicate"), 1);
    assert_eq!(goes_up(&mut rig, 2, &last).values, Some(sum(&values(1), &values(2))));
    // Once the sum is complete, it leaves again for every duplicate, with the duplicate's rank.
    let again = goes_up(&mut rig, 1, &first);
    assert_eq!(again.values, Some(sum(&values(1), &values(2))));
    assert_eq!(again.header.rank, first.header.rank);
    assert_eq!(
        again.header.totals,
        Totals { contributors: 2, weight: 5, tag: Tag { high: 0x3000_0000, low: 9 } }
    );
    assert_eq!(rig.job("job_duplicate"), 2);
    assert_eq!(rig.job("job_contributed"), 2);
}

#[test]
fn an_older_slice_goes_on_as_a_probe() {
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ + WINDOW, values(1)));
    let old = Sent::gradient(1, 2, SEQ, values(2));
    is_probe_of(&goes_up(&mut rig, 2, &old), &old);
    assert_eq!((rig.job("job_stale"), rig.job("job_probe")), (1, 1));
    // The duplicate has not changed the slot.
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, SEQ + WINDOW, values(3)));
    assert_eq!(up.values, Some(sum(&values(1), &values(3))));
}

#[test]
fn a_newer_slice_takes_the_slot_over() {
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ, values(1)));
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ + WINDOW, values(4)));
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, SEQ + WINDOW, values(5)));
    assert_eq!(up.values, Some(sum(&values(4), &values(5))));
    assert_eq!(up.header.totals.contributors, 2);
}

#[test]
fn sequence_numbers_wrap() {
    let mut rig = Rig::aggregating(2);
    let before = u32::MAX - 3;
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, before, values(1)));
    let after = before.wrapping_add(WINDOW);
    assert!(after < before);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, after, values(2)));
    let old = Sent::gradient(1, 2, before, values(3));
    is_probe_of(&goes_up(&mut rig, 2, &old), &old);
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, after, values(3)));
    assert_eq!(up.values, Some(sum(&values(2), &values(3))));
    // The number 0 is valid, although an empty slot holds it.
    let zero = 0_u32.wrapping_sub(WINDOW).wrapping_add(WINDOW);
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, zero, values(6)));
    assert_eq!(goes_up(&mut rig, 2, &Sent::gradient(1, 2, zero, values(6))).header.totals.contributors, 2);
}

#[test]
fn half_way_round_counts_as_older() {
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ, values(1)));
    let far = Sent::gradient(1, 2, SEQ.wrapping_add(1 << 31), values(2));
    is_probe_of(&goes_up(&mut rig, 2, &far), &far);
    is_consumed(&mut rig, 2, &Sent::gradient(1, 2, SEQ.wrapping_add((1 << 31) - WINDOW), values(2)));
}

#[test]
fn a_retransmission_that_would_end_here_goes_on_as_a_probe_after_it_was_added() {
    let mut rig = Rig::aggregating(2);
    let first = Sent::gradient(0, 2, SEQ, values(1)).retransmitted();
    is_probe_of(&goes_up(&mut rig, 1, &first), &first);
    is_probe_of(&goes_up(&mut rig, 1, &first), &first);
    assert_eq!(rig.job("job_consumed"), 0);
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, SEQ, values(2)).retransmitted());
    assert_eq!(up.values, Some(sum(&values(1), &values(2))), "its values were added");
    assert!(up.header.retransmit);
}

#[test]
fn a_probe_passes_every_slot_and_touches_none() {
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ, values(1)));
    let mut probe = Sent::gradient(1, 2, SEQ, values(0));
    probe.values = None;
    let passed = goes_up(&mut rig, 2, &probe);
    assert_eq!((passed.header, passed.values), (probe.header, None));
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, SEQ, values(2)));
    assert_eq!(up.values, Some(sum(&values(1), &values(2))));
}

#[test]
fn a_relayed_slice_passes_every_slot_with_its_values() {
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ, values(1)));
    for sent in [Sent::gradient(1, 2, SEQ, values(7)), Sent::gradient(1, 2, SEQ, values(7)).retransmitted()] {
        let header = Header { operator: Operator::Relay, ..sent.header };
        let sent = Sent { header, ..sent };
        let passed = goes_up(&mut rig, 2, &sent);
        assert_eq!((passed.header, passed.values), (sent.header, sent.values));
        assert_eq!(passed.hops, sent.hops[1..]);
    }
    let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, SEQ, values(2)));
    assert_eq!(up.values, Some(sum(&values(1), &values(2))));
}

#[test]
fn another_jobs_slot_counts_as_older() {
    let mut rig = Rig::aggregating(2);
    is_consumed(&mut rig, 1, &Sent::gradient(0, 2, SEQ + 5 * WINDOW, values(1)));
    let other = JOB + 1;
    for child in 0..2_u8 {
        let port = u16::from(child) + 1;
        let (children, kinds) = (1 << child, GRADIENT);
        let (base, window, job_index) = (BASE, WINDOW, JOB_INDEX + 1);
        rig.admit(Admit {
            job: other,
            port,
            job_index,
            base,
            window,
            children,
            kinds,
            aggregate: true,
            fan_in: 2,
        });
    }
    rig.allow(other, UP);
    let of_other = |child, seed| {
        let mut sent = Sent::gradient(child, 2, SEQ, values(seed));
        sent.header.job = tributary_wire::JobId::new(other).unwrap();
        sent
    };
    assert_eq!(rig.send(1, &of_other(0, 7).frame()), []);
    let up = goes_up(&mut rig, 2, &of_other(1, 8));
    assert_eq!(up.values, Some(sum(&values(7), &values(8))));
    assert_eq!(rig.counter("job_completed", JOB_INDEX + 1).packets, 1);
}

#[test]
fn slices_of_one_window_do_not_meet() {
    let mut rig = Rig::aggregating(2);
    for seq in SEQ..SEQ + WINDOW {
        is_consumed(&mut rig, 1, &Sent::gradient(0, 2, seq, values(seq as i32)));
    }
    for seq in (SEQ..SEQ + WINDOW).rev() {
        let up = goes_up(&mut rig, 2, &Sent::gradient(1, 2, seq, values(1)));
        assert_eq!(up.values, Some(sum(&values(seq as i32), &values(1))));
    }
}

#[test]
fn a_gradient_that_is_not_to_be_aggregated_is_passed_on() {
    let mut rig = Rig::new();
    let (children, kinds) = (1, GRADIENT);
    let (base, window, job_index) = (0, 1, JOB_INDEX);
    rig.admit(Admit {
        job: JOB,
        port: 1,
        job_index,
        base,
        window,
        children,
        kinds,
        aggregate: false,
        fan_in: 0,
    });
    rig.allow(JOB, UP);
    let mut sent = Sent::gradient(0, 2, SEQ, values(1)).retransmitted();
    sent.hops = vec![
        hop(NODE, UP, false, 0, 9),
        hop(8, 1, true, 3, 4),
        hop(9, 2, true, 5, 6),
        hop(1000, 0, true, 0, 1),
    ];
    let up = goes_up(&mut rig, 1, &sent);
    assert_eq!((up.header, up.values), (sent.header, sent.values));
    assert_eq!(up.hops, sent.hops[1..]);
    assert_eq!(rig.job("job_forwarded"), 1);
}

#[test]
fn all_eight_entries_of_a_stack_are_understood() {
    let mut rig = Rig::aggregating(1);
    let mut sent = Sent::gradient(0, 1, SEQ, values(1));
    sent.hops = (0..8).map(|at| hop(if at == 0 { NODE } else { 100 + at }, UP, true, 0, 1)).collect();
    let up = goes_up(&mut rig, 1, &sent);
    assert_eq!(up.hops, sent.hops[1..]);
    assert_eq!(up.values, sent.values);
}

#[test]
fn each_switch_takes_one_off_the_time_to_live() {
    let mut rig = Rig::aggregating(1);
    let frame = Sent::gradient(0, 1, SEQ, values(1)).frame();
    let out = rig.send(1, &frame);
    // Ethernet is 14 bytes, and the TTL is the ninth byte of IPv4. The checksum was checked on
    // receipt.
    assert_eq!(out[0].1[14 + 8], frame[14 + 8] - 1);
}

#[test]
fn packets_are_counted_with_the_bytes_that_came_in() {
    let mut rig = Rig::aggregating(1);
    let frame = Sent::gradient(0, 1, SEQ, values(1)).frame();
    rig.send(1, &frame);
    for (counter, index) in [("job_received", JOB_INDEX), ("port_ingress", 1), ("port_egress", UP.into())] {
        let value = rig.counter(counter, index);
        assert_eq!((value.packets, value.bytes), (1, frame.len() as u64), "{counter}");
    }
}
