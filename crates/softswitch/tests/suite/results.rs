//! Checks that RESULT packets are processed as sections 3 and 5 of `docs/specification.md` require.

use tributary_wire::Rank;
use tributary_wire::constants::RANK_ALL;

use crate::support::{Admit, BASE, JOB, JOB_INDEX, RESULT, Rig, Sent, UP, WINDOW, received, values};

const SEQ: u32 = 77;
/// A multicast group.
const GROUP: u16 = 5;

/// Makes a switch with two children whose slot for [`SEQ`] holds the first child's gradient.
fn half_full() -> Rig {
    let mut rig = Rig::aggregating(2);
    assert_eq!(rig.send(1, &Sent::gradient(0, 2, SEQ, values(1)).frame()), []);
    rig
}

/// Returns true if the slot still holds the values that the first child has sent.
fn still_holds(rig: &mut Rig) -> bool {
    let out = rig.send(2, &Sent::gradient(1, 2, SEQ, values(2)).frame());
    out.first().is_some_and(|(_, frame)| received(frame).header.totals.contributors == 2)
}

/// Makes a multicast result, which has no hop stack.
fn multicast(seq: u32) -> Sent {
    let mut result = Sent::result(seq, 0);
    result.hops.clear();
    result.header.rank = Rank::new(RANK_ALL);
    result
}

/// Admits multicast results, and sends them to the ports.
fn deliver(rig: &mut Rig, ports: &[u16], release: bool) {
    rig.group(GROUP, ports);
    rig.insert("result_group", &[JOB.into()], "deliver", &[GROUP.into(), release.into()]);
}

#[test]
fn a_unicast_result_goes_where_its_entry_says() {
    let mut rig = Rig::aggregating(2);
    let sent = Sent::result(SEQ, 2);
    let out = rig.send(UP, &sent.frame());
    let [(2, frame)] = out.as_slice() else { panic!("{out:?}") };
    let got = received(frame);
    assert_eq!((got.header, got.values, got.hops), (sent.header, sent.values, vec![]));
    assert_eq!((rig.job("job_result"), rig.job("job_released")), (1, 0), "its slot holds nothing");
}

#[test]
fn an_acknowledgement_passes_and_empties_its_slot() {
    let mut rig = half_full();
    let sent = Sent { values: None, ..Sent::result(SEQ, 1) };
    let out = rig.send(UP, &sent.frame());
    let [(1, frame)] = out.as_slice() else { panic!("not one frame to port 1: {out:?}") };
    let passed = received(frame);
    assert_eq!((passed.header, passed.values), (sent.header, None));
    assert_eq!(rig.job("job_released"), 1);
}

#[test]
fn a_result_empties_its_slot() {
    let mut rig = half_full();
    rig.send(UP, &Sent::result(SEQ, 1).frame());
    assert_eq!(rig.job("job_released"), 1);
    // The slice is now older than the slot's, so the late child requests the result from the
    // server.
    let out = rig.send(2, &Sent::gradient(1, 2, SEQ, values(2)).frame());
    assert_eq!(received(&out[0].1).values, None);
    // The slot waits for the slice that is one window later.
    assert_eq!(rig.send(1, &Sent::gradient(0, 2, SEQ + WINDOW, values(3)).frame()), []);
    let out = rig.send(2, &Sent::gradient(1, 2, SEQ + WINDOW, values(4)).frame());
    assert_eq!(received(&out[0].1).header.totals.contributors, 2);
}

#[test]
fn later_copies_of_a_result_leave_the_slot_alone() {
    let mut rig = half_full();
    rig.send(UP, &Sent::result(SEQ, 1).frame());
    rig.send(1, &Sent::gradient(0, 2, SEQ + WINDOW, values(3)).frame());
    rig.send(UP, &Sent::result(SEQ, 2).frame());
    assert_eq!((rig.job("job_result"), rig.job("job_released")), (2, 1));
    let out = rig.send(2, &Sent::gradient(1, 2, SEQ + WINDOW, values(4)).frame());
    assert_eq!(received(&out[0].1).header.totals.contributors, 2, "the slot was in use again");
}

#[test]
fn results_of_other_slices_leave_the_slot_alone() {
    for other in [SEQ - WINDOW, SEQ + WINDOW, SEQ + 1] {
        let mut rig = half_full();
        rig.send(UP, &Sent::result(other, 1).frame());
        assert!(still_holds(&mut rig), "{other}");
    }
}

#[test]
fn the_job_a_slot_belongs_to_outlives_its_release() {
    let mut rig = half_full();
    rig.send(UP, &Sent::result(SEQ, 1).frame());
    rig.send(UP, &Sent::result(SEQ + WINDOW, 1).frame());
    assert_eq!(rig.job("job_released"), 2, "an empty slot is released by the result of its next slice");
}

#[test]
fn a_result_that_was_not_aggregated_here_releases_nothing() {
    let mut rig = Rig::aggregating(2);
    let port = UP + 1;
    let (base, window, job_index) = (BASE, WINDOW, JOB_INDEX);
    rig.admit(Admit {
        job: JOB,
        port,
        job_index,
        base,
        window,
        children: 0,
        kinds: RESULT,
        aggregate: false,
        fan_in: 0,
    });
    rig.send(1, &Sent::gradient(0, 2, SEQ, values(1)).frame());
    let mut passing = Sent::result(SEQ, 1);
    passing.hops[0].aggregate = false;
    assert_eq!(rig.send(port, &passing.frame()).len(), 1);
    assert_eq!(rig.job("job_released"), 0);
    assert!(still_holds(&mut rig));
}

#[test]
fn a_multicast_result_goes_to_its_group_and_releases() {
    let mut rig = half_full();
    deliver(&mut rig, &[1, 2, 4], true);
    let sent = multicast(SEQ);
    let frame = sent.frame();
    let out = rig.send(UP, &frame);
    assert_eq!(out.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1, 2, 4]);
    for (port, copy) in &out {
        let got = received(copy);
        assert_eq!((got.header, got.values), (sent.header, sent.values), "port {port}");
        assert_eq!(copy[14 + 8], frame[14 + 8] - 1, "one off the time to live, once");
        assert_eq!(rig.counter("port_egress", (*port).into()).packets, 1);
    }
    assert_eq!((rig.job("job_result"), rig.job("job_released")), (1, 1));
}

#[test]
fn a_multicast_result_releases_only_where_the_table_says_so() {
    let mut rig = half_full();
    deliver(&mut rig, &[1, 2], false);
    assert_eq!(rig.send(UP, &multicast(SEQ).frame()).len(), 2);
    assert!(still_holds(&mut rig));
}

#[test]
fn a_result_for_a_group_that_is_gone_goes_nowhere() {
    let mut rig = Rig::aggregating(2);
    deliver(&mut rig, &[1, 2], true);
    rig.switch.delete_group(GROUP).unwrap();
    assert_eq!(rig.send(UP, &multicast(SEQ).frame()), []);
}
