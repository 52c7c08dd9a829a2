use proptest::collection::vec;
use proptest::prelude::*;
use tributary_api::v1;
use tributary_p4runtime::entry::CounterCell;
use tributary_planner::Aggregation;
use tributary_wire::SliceWidth;

use super::*;
use crate::tables::Key;
use crate::testing::{
    TERMS, base, capacity, controller_state, first_generation, pipeline, plain_topology, request, topology,
    two_spines,
};

/// Adds the tables of the job's first generation to the switches' desired states.
fn run(state: &mut ControllerState, key: JobKey) {
    let desired = first_generation(state, key);
    assert_eq!(state.install(key, &desired), Ok(1));
}

/// Carries out a change to another generation.
fn change(state: &mut ControllerState, key: JobKey) -> Result<u32, CreateError> {
    let number = state.install(key, &first_generation(state, key))?;
    let job = state.jobs.get_mut(key).unwrap();
    assert!(job.advance(number, "of a test"));
    job.retire_others();
    Ok(number)
}

/// Frees a job's resources, as the manager does when a job is over and all switches are up.
fn withdraw_everywhere(state: &mut ControllerState) {
    let switches: Vec<_> = topology().switches().map(|(key, ..)| key).collect();
    for switch in switches {
        let over = state.to_withdraw(switch);
        state.withdrawn(switch, &over);
    }
}

fn free(state: &ControllerState) -> Vec<u32> {
    state.slots.values().map(SlotMap::free).collect()
}

#[test]
fn a_job_takes_a_window_on_every_switch_that_aggregates() {
    let mut state = controller_state(256, 4);
    state.create("all", &request(64, Aggregation::Tree), TERMS).unwrap();
    assert_eq!(free(&state), [192, 192, 192]);
    state.create("leaves", &request(64, Aggregation::Leaf), TERMS).unwrap();
    state.create("none", &request(1 << 20, Aggregation::None), TERMS).unwrap();
    assert_eq!(free(&state), [192, 128, 128]);
}

#[test]
fn a_full_switch_is_left_out_with_a_note() {
    let mut state = controller_state(64, 4);
    state.create("leaves", &request(64, Aggregation::Leaf), TERMS).unwrap();
    let key = state.create("second", &request(64, Aggregation::Tree), TERMS).unwrap();
    let plan = &state.jobs.get(key).unwrap().record.generation().plan;
    let aggregates: Vec<_> =
        plan.switches.iter().filter(|role| role.aggregate).map(|role| &role.name).collect();
    assert_eq!(aggregates, ["root"]);
    assert!(plan.notes.iter().any(|note| note.contains("leaf0")), "{:?}", plan.notes);
}

#[test]
fn without_any_slots_aggregation_is_refused_and_its_absence_is_not() {
    let mut state = controller_state(64, 4);
    state.create("first", &request(64, Aggregation::Tree), TERMS).unwrap();
    let error = state.create("second", &request(64, Aggregation::Tree), TERMS).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no switch has slots for job \"second\": root: 64 slots needed in one block; 0 of 64 are free, 0 in \
         the largest block; leaf0: 64 slots needed in one block; 0 of 64 are free, 0 in the largest block; \
         leaf1: 64 slots needed in one block; 0 of 64 are free, 0 in the largest block; end another job, ask \
         for a smaller window, or for no aggregation"
    );
    assert!(state.create("second", &request(64, Aggregation::None), TERMS).is_ok());
}

#[test]
fn what_is_refused_takes_nothing() {
    let mut state = controller_state(1024, 1);
    state.create("first", &request(64, Aggregation::Tree), TERMS).unwrap();
    let before = free(&state);
    assert_eq!(
        state.create("second", &request(64, Aggregation::Tree), TERMS),
        Err(CreateError::TooManyJobs(1))
    );
    assert!(matches!(
        state.create("first", &request(64, Aggregation::Tree), TERMS),
        Err(CreateError::Job(_))
    ));
    assert_eq!(free(&state), before);
}

#[test]
fn a_job_is_taken_up_only_where_the_program_takes_its_slices() {
    let mut before = controller_state(64, 4);
    let key = before.create("wide", &request(64, Aggregation::Tree), TERMS).unwrap();
    let record = before.jobs.get(key).unwrap().record.clone();
    assert_eq!(record.generation().plan.width, SliceWidth::ETHERNET);
    let kept = |is_queued| LoadedJob {
        key,
        name: "wide".to_owned(),
        has_started: true,
        is_queued,
        elastic: false,
        record: Ok(record.clone()),
    };
    let now = Instant::now();
    assert_eq!(controller_state(64, 4).take_up(kept(false), now), Ok(()));
    let mut narrow = controller_state(64, 4);
    narrow.capacity.widest = SliceWidth::NARROWEST;
    let reason = narrow.take_up(kept(false), now).unwrap_err();
    assert!(
        reason.starts_with("its slices have 256 values, and the program's 32 at most: start"),
        "{reason}"
    );
    assert_eq!(free(&narrow), [64, 64, 64], "nothing is taken");
    // A job that has not started gets a new plan for the narrower slices.
    assert_eq!(narrow.take_up(kept(true), now), Ok(()));
    assert_eq!(narrow.jobs.get(key).unwrap().record.request.width, SliceWidth::NARROWEST);
    let mut few = controller_state(64, 4);
    few.capacity.children = 1;
    let reason = few.take_up(kept(false), now).unwrap_err();
    assert!(reason.starts_with("2 streams meet at "), "{reason}");
    assert!(reason.contains(", and the program tells 1 apart: start"), "{reason}");
}

#[test]
fn slots_stay_taken_until_the_tables_are_gone() {
    let mut state = controller_state(64, 1);
    let key = state.create("first", &request(64, Aggregation::Tree), TERMS).unwrap();
    run(&mut state, key);
    assert!(state.jobs.get_mut(key).unwrap().end());
    assert_eq!(free(&state), [0, 0, 0]);
    assert!(state.create("second", &request(64, Aggregation::Tree), TERMS).is_err());
    let (root, ..) = topology().switches().next().unwrap();
    let over = state.to_withdraw(root);
    assert_eq!(over, [(key, 1)]);
    state.withdrawn(root, &over);
    assert_eq!(free(&state), [64, 0, 0]);
    assert!(matches!(
        state.create("second", &request(64, Aggregation::Tree), TERMS),
        Err(CreateError::TooManyJobs(1))
    ));
    withdraw_everywhere(&mut state);
    assert_eq!(free(&state), [64, 64, 64]);
    state.create("second", &request(64, Aggregation::Tree), TERMS).unwrap();
}

#[test]
fn a_job_without_switches_gives_its_index_back() {
    let topology = plain_topology();
    let request = JobRequest::of(&topology, 64, 4).unwrap();
    let mut state = ControllerState::new(topology, BTreeMap::new(), capacity(64, 1));
    let key = state.create("first", &request, TERMS).unwrap();
    state.jobs.get_mut(key).unwrap().end();
    assert!(state.create("second", &request, TERMS).is_err());
    state.settle(key);
    state.create("second", &request, TERMS).unwrap();
}

#[test]
fn only_a_job_whose_members_have_joined_has_tables() {
    let mut state = controller_state(1024, 4);
    let pipeline = pipeline();
    let bare = base(&topology());
    let key = state.create("job", &request(256, Aggregation::Tree), TERMS).unwrap();
    for (switch, held) in &bare {
        assert_eq!(&state.want(*switch), held);
    }
    run(&mut state, key);
    for (switch, held) in &bare {
        let want = state.want(*switch);
        assert!(want.entries.len() > held.entries.len());
        // All entries match the P4 program.
        for change in crate::switch_diff::diff(&SwitchState::default(), &want).iter().flatten() {
            change.to_update(&pipeline.info).unwrap();
        }
    }
    state.jobs.get_mut(key).unwrap().fail(v1::JobFailed { reason: "of a test".into(), wrong_sum: false });
    for (switch, held) in &bare {
        assert_eq!(&state.want(*switch), held);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Create(u32, Aggregation),
    Change(usize),
    End(usize),
    Withdraw(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let aggregation = prop_oneof![
        Just(Aggregation::Tree),
        Just(Aggregation::Leaf),
        Just(Aggregation::TwoLevels),
        Just(Aggregation::None)
    ];
    prop_oneof![
        (0u32..7, aggregation).prop_map(|(exponent, kind)| Step::Create(1 << exponent, kind)),
        any::<usize>().prop_map(Step::Change),
        any::<usize>().prop_map(Step::End),
        (0usize..3).prop_map(Step::Withdraw),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any sequence of steps, no two jobs share slots, an id or an index, and no resource is lost.
    #[test]
    fn jobs_never_share(steps in vec(step(), 0..40)) {
        let mut state = controller_state(128, 5);
        let switches: Vec<_> = topology().switches().map(|(key, ..)| key).collect();
        let mut created = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Create(window, aggregation) => {
                    let name = format!("job{number}");
                    created.extend(state.create(&name, &request(window, aggregation), TERMS));
                }
                Step::Change(which) if !created.is_empty() => {
                    let key = created[which % created.len()];
                    if state.jobs.get(key).unwrap().is_alive() {
                        // A full fabric refuses the change. The job then keeps its present resources.
                        let _ = change(&mut state, key);
                    }
                }
                Step::End(which) if !created.is_empty() => {
                    state.jobs.get_mut(created[which % created.len()]).unwrap().end();
                }
                Step::Withdraw(which) => {
                    let over = state.to_withdraw(switches[which]);
                    state.withdrawn(switches[which], &over);
                }
                Step::Change(_) | Step::End(_) => {}
            }
            check_shares(&state)?;
        }
        for key in created {
            state.jobs.get_mut(key).unwrap().end();
        }
        withdraw_everywhere(&mut state);
        prop_assert_eq!(free(&state), [128, 128, 128]);
        let indices: Vec<_> = std::iter::from_fn(|| state.indices.take()).collect();
        prop_assert_eq!(indices.len(), 5);
    }
}

fn check_shares(state: &ControllerState) -> Result<(), TestCaseError> {
    let mut owned: BTreeMap<NodeKey, Vec<(u32, u32)>> = BTreeMap::new();
    let holding = || state.jobs.iter().map(|(_, job)| job).filter(|job| job.holds_resources());
    for job in holding() {
        for (switch, block) in job.record.generations.iter().flat_map(|one| &one.switches) {
            owned.entry(*switch).or_default().extend(block.map(|block| (block.base, block.size)));
        }
    }
    for (switch, map) in &state.slots {
        let mut blocks = owned.remove(switch).unwrap_or_default();
        blocks.sort_unstable();
        prop_assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        prop_assert!(blocks.iter().all(|(base, size)| base % size == 0 && base + size <= 128));
        prop_assert_eq!(map.free(), 128 - blocks.iter().map(|(_, size)| size).sum::<u32>());
    }
    let count = holding().map(|job| job.record.generations.len()).sum();
    let mut ids: Vec<_> =
        holding().flat_map(|job| job.record.generations.iter().map(|generation| generation.job)).collect();
    let indices = holding().filter(|job| job.record.holds_index).map(|job| job.record.job_index);
    let mut indices: Vec<_> = indices.collect();
    let holders = indices.len();
    ids.sort_unstable();
    ids.dedup();
    indices.sort_unstable();
    indices.dedup();
    prop_assert_eq!((ids.len(), indices.len()), (count, holders));
    Ok(())
}

#[test]
fn measured_loads_move_the_next_tree_to_other_links() {
    let mut state = two_spines();
    let topology = Arc::clone(&state.topology);
    let request = JobRequest::of(&topology, 64, 4_000_000).unwrap();
    let spine_of = |state: &mut ControllerState, name: &str| {
        let key = state.create(name, &request, TERMS).unwrap();
        let plan = &state.jobs.get(key).unwrap().record.generation().plan;
        let spine = plan.switches.iter().find(|role| role.name.starts_with("spine")).unwrap();
        (spine.name.clone(), spine.key)
    };
    let (idle, busy) = spine_of(&mut state, "first");
    let start = Instant::now();
    for second in 0..2_u64 {
        // Each leaf sends 40 Mbit/s over a link of 50 Mbit/s.
        let ports = topology.neighbours(busy).into_iter().map(|near| CounterCell {
            counter: "port_ingress".into(),
            index: near.port.into(),
            packets: 0,
            bytes: 5_000_000 * second,
        });
        let at = start + std::time::Duration::from_secs(second);
        state.loads.update(&topology, busy, at, &ports.collect::<Vec<_>>());
    }
    assert_ne!(spine_of(&mut state, "second").0, idle);
}

#[test]
fn a_change_has_its_own_slots_and_tables_until_the_old_ones_are_gone() {
    let mut state = controller_state(128, 1);
    let key = state.create("job", &request(64, Aggregation::Tree), TERMS).unwrap();
    run(&mut state, key);
    assert!(state.jobs.get_mut(key).unwrap().advance(1, ""));
    let leaf = topology().find("leaf0").unwrap();
    let admissions = |state: &ControllerState| {
        let want = state.want(leaf);
        want.entries.keys().filter(|key| matches!(key, Key::Admission(_) | Key::SenderAdmission(_))).count()
    };
    let alone = admissions(&state);
    let number = state.install(key, &first_generation(&state, key)).unwrap();
    assert_eq!((number, admissions(&state)), (2, 2 * alone), "both generations are in the switch");
    assert_eq!(free(&state), [0, 0, 0]);
    let ids: Vec<_> =
        state.jobs.get(key).unwrap().record.generations.iter().map(|generation| generation.job).collect();
    assert_ne!(ids[0], ids[1]);
    let job = state.jobs.get_mut(key).unwrap();
    assert!(job.advance(2, "a test"));
    job.retire_others();
    assert_eq!(admissions(&state), alone);
    assert_eq!(free(&state), [0, 0, 0], "the old slots are nobody's until its tables are gone");
    withdraw_everywhere(&mut state);
    assert_eq!(free(&state), [64, 64, 64]);
    assert_eq!(state.jobs.get(key).unwrap().record.generations.len(), 1);
}

#[test]
fn a_change_without_slots_goes_on_without_aggregation() {
    let mut state = controller_state(64, 1);
    let key = state.create("job", &request(64, Aggregation::Tree), TERMS).unwrap();
    run(&mut state, key);
    assert!(state.jobs.get_mut(key).unwrap().advance(1, ""));
    assert_eq!(change(&mut state, key), Ok(2));
    let plan = &state.jobs.get(key).unwrap().record.generation().plan;
    assert!(plan.switches.iter().all(|role| !role.aggregate));
    assert!(!plan.notes.is_empty(), "a job without aggregation says why");
}

/// Creates the state of a new controller on another network.
pub(super) fn fresh(topology: &Topology) -> ControllerState {
    let topology = Arc::new(topology.clone());
    let base = base(&topology);
    ControllerState::new(topology, base, capacity(256, 4))
}
