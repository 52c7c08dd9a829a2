//! Tests of jobs whose members, servers and trees change at random moments, in addition to network
//! faults.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tributary_protocol::{CollectiveError, OperationId};

use crate::schedules::{inputs, setups};
use crate::world::{Bug, Churn, OperationOutcome, Setup, World};

const CASES: u32 = 400;
const STEPS: usize = 120_000;

fn churns() -> impl Strategy<Value = Churn> {
    let rate = prop_oneof![Just(0.002), Just(0.01), Just(0.03)];
    let mostly = || prop_oneof![3 => Just(true), 1 => Just(false)];
    let talk = prop_oneof![Just(0.02), Just(0.1), Just(0.4)];
    (rate, talk, any::<bool>(), mostly(), mostly(), any::<bool>()).prop_map(
        |(rate, talk, impatient, members, servers, abandons)| Churn {
            rate,
            talk,
            impatient,
            members,
            servers,
            abandons,
        },
    )
}

fn jobs() -> impl Strategy<Value = Setup> {
    (setups(), churns()).prop_map(|(setup, churn)| {
        // A server that reads cannot be replaced, so it must not die.
        let reads = setup.reads && !churn.servers;
        Setup { churn, reads, ..setup }
    })
}

/// Runs a world to the end.
///
/// # Errors
/// A text that describes the failure.
fn run(setup: &Setup, bug: Option<Bug>) -> Result<World, String> {
    run_with(setup, |world| world.bug = bug)
}

fn run_with(setup: &Setup, prepare: impl FnOnce(&mut World)) -> Result<World, String> {
    let inputs = inputs(setup, 16);
    let mut world = World::new(setup, &inputs);
    prepare(&mut world);
    world.run(STEPS)?;
    let missed = (0..inputs[0].len() as u64).map(OperationId).find(|&id| !world.ledger.is_checked(id));
    match missed {
        Some(id) => Err(format!("operation {} has not been completed by all", id.0)),
        None => world.compare_read().map(|()| world),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn jobs_outlive_their_parts(setup in jobs()) {
        run(&setup, None).map_err(TestCaseError::fail)?;
    }
}

/// Generates as many jobs as the test above tries.
fn samples() -> impl Iterator<Item = Setup> {
    let mut runner = TestRunner::deterministic();
    (0..CASES).map(move |_| jobs().new_tree(&mut runner).unwrap().current())
}

#[test]
fn the_schedules_have_everything_in_them() {
    let mut seen = BTreeMap::new();
    for setup in samples() {
        let world = run(&setup, None).unwrap();
        let several_sets =
            |outcome: &&OperationOutcome| outcome.as_ref().is_ok_and(|reduced| reduced.runs.len() > 1);
        let withheld = |outcome: &&OperationOutcome| matches!(outcome, Err(CollectiveError::Withheld { .. }));
        let lost = |outcome: &&OperationOutcome| matches!(outcome, Err(CollectiveError::Lost { .. }));
        let left = |outcome: &&OperationOutcome| matches!(outcome, Err(CollectiveError::RootLeft { .. }));
        let outcomes = world.hosts.iter().flat_map(|host| host.outcomes.values());
        *seen.entry("a part that was lost with the server").or_insert(0) +=
            outcomes.clone().filter(lost).count();
        *seen.entry("a broadcast without its root").or_insert(0) += outcomes.clone().filter(left).count();
        *seen.entry("an operation without a member").or_insert(0) +=
            outcomes.clone().filter(withheld).count();
        *seen.entry("an operation that loses a member").or_insert(0) += outcomes.filter(several_sets).count();
        *seen.entry("an operation given up").or_insert(0) +=
            world.hosts.iter().map(|host| host.abandoned.len()).sum::<usize>();
        for (what, times) in world.seen {
            *seen.entry(what).or_insert(0) += times;
        }
    }
    assert!(seen.len() == 14 && seen.values().all(|&times| times >= 5), "{seen:#?}");
}

#[test]
fn who_keeps_sums_back_for_some_members_makes_them_no_different() {
    let mut given = 0;
    for setup in samples() {
        let world = run_with(&setup, World::keep_sums).unwrap();
        given += world.seen.get("a sum that was kept back").copied().unwrap_or_default();
    }
    assert!(given >= 100, "{given} sums were given");
}

#[test]
fn wrong_controllers_are_found_out() {
    for bug in [
        Bug::NoFreeze,
        Bug::LeastDues,
        Bug::StartAnew,
        Bug::NoCopies,
        Bug::JoinInside,
        Bug::SameJob,
        Bug::OldJob,
    ] {
        assert!(samples().any(|setup| run(&setup, Some(bug)).is_err()), "{bug:?} goes unnoticed");
    }
}
