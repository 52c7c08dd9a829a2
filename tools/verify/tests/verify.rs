//! Checks of small jobs, which take seconds. `make verify` checks larger jobs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "all of it is a test")]

use tributary_verify::{Bug, Change, CheckOutcome, Error, Setup, Violation, check, planted, small};

fn checked(setup: &Setup) -> CheckOutcome {
    check(setup, &mut |_| {}).unwrap()
}

#[test]
fn nothing_that_a_network_does_makes_a_wrong_sum_or_stops_a_job() {
    for setup in [
        small(),
        Setup { spine: true, operations: vec![1], ..small() },
        Setup { leaves: vec![2], window: 2, operations: vec![1, 1], ..small() },
        Setup { operations: vec![1], change: Change::Replan, ..small() },
        Setup { operations: vec![1], change: Change::Leave, ..small() },
    ] {
        let outcome = checked(&setup);
        assert_eq!(outcome.found, None, "{setup:?}");
        assert!(outcome.states > 200 && outcome.completing > 0, "{setup:?}: {outcome:?}");
    }
}

#[test]
fn planted_bugs_are_found_by_the_shortest_schedule() {
    // Returns the length of the shortest schedule. If the job is stuck, the schedule's last line describes
    // its final state.
    let found = |bug: Bug| {
        let (violation, schedule) = checked(&planted(bug)).found.unwrap_or_else(|| panic!("{bug:?}"));
        let what = match violation {
            Violation::WrongSum { .. } => "wrong sum",
            Violation::Failed { .. } => "failed",
            Violation::Touched { .. } => "touched",
            Violation::Stuck => "stuck",
        };
        (what, schedule.len())
    };
    assert_eq!(found(Bug::NoProbe), ("stuck", 21));
    assert_eq!(found(Bug::LooseWindow), ("stuck", 1));
    assert_eq!(found(Bug::OneBit), ("wrong sum", 17));
    assert_eq!(found(Bug::AddsDuplicates), ("wrong sum", 5));
    assert_eq!(found(Bug::BlindRelease), ("touched", 8));
    assert_eq!(found(Bug::NoJob), ("stuck", 1));
    assert_eq!(found(Bug::SharedSlots), ("touched", 4));
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let refused = |setup: &Setup| check(setup, &mut |_| {}).unwrap_err();
    assert!(matches!(refused(&Setup { window: 3, ..small() }), Error::Config(_)));
    assert_eq!(refused(&Setup { operations: vec![], ..small() }), Error::Setup);
    assert_eq!(refused(&Setup { leaves: vec![9], ..small() }), Error::Setup);
}
