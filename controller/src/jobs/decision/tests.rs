//! Tests of a job's next step, given the signs of life of its members and the state of the fabric.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tributary_api::v1;
use tributary_api::v1::answer_request::Answer;
use tributary_planner::{Aggregation, JobRequest, Member, Plan, SwitchRole};
use tributary_wire::probe::FRAME_BYTES;
use tributary_wire::{Probe, SliceWidth};

use super::*;
use crate::jobs::JobKey;
use crate::jobs::{Answered, Joined, Joining};
use crate::liveness::Life;
use crate::state::ControllerState;
use crate::testing::{TERMS, controller_state, first_generation, request, topology, two_spines};

/// Lets a member join a job and start.
fn join(topology: &Topology, job: &mut Job, host: &str, role: v1::MemberRole) -> Joined {
    let joined = job
        .join(
            topology,
            &Joining { host, role, elastic: true, resume: 0, new_run: false, processes: NonZeroU16::MIN },
        )
        .unwrap();
    job.participants.get_mut(&joined.participant).unwrap().started = true;
    joined
}

/// Creates a running job of all the topology's workers, with its members: workers by
/// rank, then the server.
fn running(state: &mut ControllerState) -> (JobKey, Vec<Joined>) {
    let request = JobRequest::of(state.topology(), 64, 4_000_000).unwrap();
    running_with(state, &request)
}

/// Creates a running job with the workers and server of `request`, and returns its members.
fn running_with(state: &mut ControllerState, request: &JobRequest) -> (JobKey, Vec<Joined>) {
    let topology = Arc::clone(state.topology());
    let key = state.create("job", request, TERMS).unwrap();
    let job = state.jobs.get_mut(key).unwrap();
    let workers = request.workers.iter().map(|member| (member.host, v1::MemberRole::Worker));
    let all = workers.chain([(request.server, v1::MemberRole::Server)]);
    let members = all.map(|(host, role)| join(&topology, job, &topology[host].name, role)).collect();
    carry_out(state, key, &first_generation(state, key));
    (key, members)
}

/// Carries out a change to the next generation.
fn carry_out(state: &mut ControllerState, key: JobKey, desired: &DesiredGeneration) {
    let number = state.install(key, desired).unwrap();
    let job = state.jobs.get_mut(key).unwrap();
    assert!(job.advance(number, &desired.reason));
    job.retire_others();
}

/// Returns the change that is due, while the controller is not at a standstill.
fn due(state: &mut ControllerState, key: JobKey, now: Instant) -> DesiredGeneration {
    state.standstills.tick(now);
    match state.next_step(key, now) {
        Step::Change(desired) => desired,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_worker_that_a_job_has_gone_on_without_is_told_of_as_one_that_is_not_there() {
    let mut state = controller_state(256, 4);
    let (key, members) = running(&mut state);
    let told = |state: &ControllerState| {
        let job = crate::answer::job(&topology(), state, (key, state.jobs.get(key).unwrap()));
        let workers = job.plan.unwrap().workers;
        let there =
            |member: v1::JobMember| (member.host.clone(), member.joined, workers.contains(&member.host));
        job.members.into_iter().map(there).collect::<Vec<_>>()
    };
    let all = ["w0", "w1", "w2", "w3", "ps"].map(|host| (host.to_owned(), true, host != "ps"));
    assert_eq!(told(&state), all);
    state.jobs.get_mut(key).unwrap().depart(&members[2].participant, None);
    let desired = due(&mut state, key, Instant::now());
    carry_out(&mut state, key, &desired);
    let mut without = all;
    without[2] = ("w2".to_owned(), false, false);
    assert_eq!(told(&state), without);
}

/// Connects a daemon that could serve.
fn connect(state: &mut ControllerState, host: &str, now: Instant) {
    let hello = v1::Hello { host: host.into(), serves: true, ..v1::Hello::default() };
    // No task reads this daemon's orders.
    drop(state.hosts.enter(&hello, now));
}

/// Reports that a switch has received a host's probe.
fn probe(state: &mut ControllerState, host: &str, now: Instant) {
    let topology = Arc::clone(state.topology());
    let host = topology.find(host).unwrap();
    let via = topology.neighbours(host)[0];
    let probe = Probe { node: topology[host].id, port: via.port };
    state.cabling.hear((via.node, via.remote_port), probe, FRAME_BYTES, now);
}

/// Delivers a host's heartbeat.
fn send_heartbeat(state: &mut ControllerState, host: &str, heartbeat: &v1::Heartbeat, now: Instant) {
    let key = state.topology().find(host).unwrap();
    state.jobs.note_heartbeat((key, host), heartbeat, now);
}

/// Reports that the process on w0 has waited for a result for this number of milliseconds.
fn tell_of_wait(state: &mut ControllerState, stalled_milliseconds: u64, now: Instant) {
    tell_of_wait_on("w0", state, stalled_milliseconds, now);
}

fn tell_of_wait_on(
    host: &str,
    state: &mut ControllerState,
    stalled_in_generation_milliseconds: u64,
    now: Instant,
) {
    let jobs = vec![v1::JobProgress {
        job: "job".into(),
        stalled_in_generation_milliseconds,
        ..v1::JobProgress::default()
    }];
    send_heartbeat(state, host, &v1::Heartbeat { jobs, ..v1::Heartbeat::default() }, now);
}

/// Reports that these ranks wait for a result and that their requests reach the server.
fn tell_of_asking(state: &mut ControllerState, ranks: &[u32], now: Instant) {
    tell_of_asking_on("ps", state, ranks, now);
}

fn tell_of_asking_on(host: &str, state: &mut ControllerState, ranks: &[u32], now: Instant) {
    let served = vec![v1::ServedJob { job: "job".into(), asking_ranks: ranks.to_vec() }];
    send_heartbeat(state, host, &v1::Heartbeat { served, ..v1::Heartbeat::default() }, now);
}

#[test]
fn a_host_is_believed_about_its_own_jobs_alone() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let [w0, w1] = ["w0", "w1"].map(|host| topology.find(host).unwrap());
    let workers = [(0, w0), (1, w1)].map(|(rank, host)| Member { rank, host }).to_vec();
    let key = running_with(&mut state, &JobRequest { workers, ..request(64, Aggregation::Tree) }).0;
    let now = Instant::now();
    let asking = |state: &ControllerState| state.jobs.get(key).unwrap().asking(now).len();
    for stranger in ["w2", "w3", "ps"] {
        tell_of_wait_on(stranger, &mut state, 60_000, now);
        assert_eq!(state.jobs.get(key).unwrap().stall(now), None, "{stranger} has no process in the job");
    }
    for stranger in ["w0", "w2"] {
        tell_of_asking_on(stranger, &mut state, &[0], now);
        assert_eq!(asking(&state), 0, "{stranger} does not serve the job");
    }
    tell_of_wait_on("w1", &mut state, 60_000, now);
    tell_of_asking_on("ps", &mut state, &[0], now);
    assert_eq!(state.jobs.get(key).unwrap().stall(now), Some(Duration::from_secs(60)));
    assert_eq!(asking(&state), 1);
}

#[test]
fn reports_on_jobs_that_a_host_is_not_in_take_no_memory() {
    let mut state = controller_state(256, 4);
    let (_key, _members) = running(&mut state);
    let jobs = (0..1_000).map(|number| format!("made-up-{number}")).collect::<Vec<_>>();
    let heartbeat = v1::Heartbeat {
        jobs: jobs.iter().map(|job| v1::JobProgress { job: job.clone(), ..Default::default() }).collect(),
        served: jobs.iter().map(|job| v1::ServedJob { job: job.clone(), asking_ranks: vec![0] }).collect(),
        ..v1::Heartbeat::default()
    };
    for host in ["w0", "ps"] {
        let kept =
            allocation_counter::measure(|| send_heartbeat(&mut state, host, &heartbeat, Instant::now()));
        assert_eq!(kept.bytes_current, 0, "{host}");
    }
}

#[test]
fn members_that_only_the_controller_cannot_hear_are_not_lost() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    for member in &members {
        state.jobs.get_mut(key).unwrap().lose(&member.participant, member.session, start);
    }
    for now in (0..60).map(|tick| at(tick * 100)) {
        ["w0", "w1", "w2", "w3", "ps"].iter().for_each(|host| probe(&mut state, host, now));
        state.standstills.tick(now);
        let step = state.next_step(key, now);
        assert!(matches!(step, Step::Rest(Some(_))), "{step:?}");
    }
    let reason_without_w3 = |state: &mut ControllerState, now| {
        ["w0", "w1", "w2", "ps"].iter().for_each(|host| probe(state, host, now));
        due(state, key, now).reason
    };
    assert_eq!(reason_without_w3(&mut state, at(6500)), "w3 is gone");

    // After w2's daemon has reconnected, w2 has time to rejoin the job. Its probes do not matter then.
    let hello = v1::Hello { host: "w2".into(), works: true, ..v1::Hello::default() };
    let _orders = state.hosts.enter(&hello, at(6550));
    for tick in 0..16 {
        let now = at(7_000 + tick * 500);
        state.cabling.hear_of(topology.find("w2").unwrap(), now);
        let expected = if now < at(6550 + 8_000) { "w3 is gone" } else { "w2, w3 are gone" };
        assert_eq!(reason_without_w3(&mut state, now), expected, "tick {tick}");
    }
}

#[test]
fn a_daemons_last_words_do_not_say_that_it_has_its_controller() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let now = Instant::now();
    state.jobs.get_mut(key).unwrap().lose(&members[1].participant, members[1].session, now);
    let soon = now + Duration::from_millis(500);
    state.cabling.hear_of(topology.find("w1").unwrap(), now + Duration::from_millis(5));
    probe(&mut state, "w1", soon);
    state.standstills.tick(soon);
    assert!(
        matches!(state.next_step(key, soon), Step::Rest(Some(_))),
        "its connections are over, and it lives"
    );
}

#[test]
fn a_long_step_puts_nobody_out_whom_only_the_controller_cannot_hear() {
    let mut state = controller_state(256, 4);
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let lose = |state: &mut ControllerState, rank: usize| {
        state.jobs.get_mut(key).unwrap().lose(&members[rank].participant, members[rank].session, start);
    };
    let waits = |state: &mut ControllerState, stalled_milliseconds, now| {
        tell_of_wait(state, stalled_milliseconds, now);
        probe(state, "w1", now);
        state.standstills.tick(now);
    };
    lose(&mut state, 1);
    waits(&mut state, 4_000, at(500));
    assert!(matches!(state.next_step(key, at(500)), Step::Rest(Some(_))));
    waits(&mut state, 6_000, at(600));
    assert_eq!(due(&mut state, key, at(600)).reason, "w1 is gone");
    // w2 dies. The controller cannot notify w1 that the other members continue without w2.
    lose(&mut state, 2);
    waits(&mut state, 900, at(700));
    assert_eq!(due(&mut state, key, at(700)).reason, "w1, w2 are gone");
}

#[test]
fn a_long_step_takes_a_job_off_a_silent_switch_only_when_it_is_very_long() {
    let mut state = controller_state(256, 4);
    let (key, _members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let leaf = state.topology().find("leaf1").unwrap();
    state.health.set_node(leaf, Life::Silent, start);
    let waits = |state: &mut ControllerState, stalled_milliseconds, now| {
        tell_of_wait(state, stalled_milliseconds, now);
        state.standstills.tick(now);
    };
    waits(&mut state, 1_900, at(900));
    assert!(matches!(state.next_step(key, at(900)), Step::Rest(Some(_))));
    waits(&mut state, 2_000, at(950));
    let desired = due(&mut state, key, at(950));
    assert_eq!(desired.reason, "nothing is heard of switch leaf1");
    assert_eq!(desired.members.len(), 2);
}

#[test]
fn a_job_where_nothing_comes_though_all_are_there_gets_other_slots() {
    let mut state = controller_state(256, 4);
    let (key, _members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let wait = |state: &mut ControllerState, waits: [u64; 4], now| {
        let hosts = ["w0", "w1", "w2", "w3"].into_iter().zip(waits);
        hosts.for_each(|(host, wait)| tell_of_wait_on(host, state, wait, now));
        state.standstills.tick(now);
    };
    wait(&mut state, [60_000, 60_000, 60_000, 0], at(60_000));
    let step = state.next_step(key, at(60_000));
    assert!(matches!(step, Step::Rest(_)), "w3 computes, which may take as long as it likes: {step:?}");
    wait(&mut state, [60_000, 60_000, 60_000, 4_900], at(64_900));
    assert!(matches!(state.next_step(key, at(64_900)), Step::Rest(_)));
    wait(&mut state, [60_000, 60_000, 60_000, 5_000], at(65_000));
    let desired = due(&mut state, key, at(65_000));
    assert_eq!(desired.reason, "its members have all waited for 5 s without any result");
    let before = state.jobs.get(key).unwrap().record.generation().clone();
    assert_eq!(
        (desired.members.len(), desired.server, desired.takes_over),
        (4, before.plan.server.key, false)
    );
    carry_out(&mut state, key, &desired);
    let after = state.jobs.get(key).unwrap().record.generation();
    assert_ne!(after.job, before.job);
    for (switch, slots) in &after.switches {
        assert_ne!(slots, &before.switches[switch], "the same slots hold the same");
    }
    let step = state.next_step(key, Instant::now() + Duration::from_millis(100));
    assert!(matches!(step, Step::Rest(_)), "what is new has its time, too: {step:?}");
}

#[test]
fn a_silent_switch_that_frames_come_through_is_alive_however_long_a_step_takes() {
    let mut state = controller_state(256, 4);
    let (key, _members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let leaf = state.topology().find("leaf1").unwrap();
    state.health.set_node(leaf, Life::Silent, start);
    tell_of_wait(&mut state, 60_000, at(900));
    tell_of_asking(&mut state, &[0, 1, 2], at(900));
    state.standstills.tick(at(900));
    let step = state.next_step(key, at(900));
    assert!(matches!(step, Step::Rest(Some(_))), "rank 2 is behind it, and the server hears it: {step:?}");
    // From now on, leaf1 forwards no frames.
    tell_of_asking(&mut state, &[0, 1], at(950));
    assert_eq!(due(&mut state, key, at(950)).reason, "nothing is heard of switch leaf1");
}

#[test]
fn one_whom_the_controller_cannot_hear_and_the_server_can_stays_however_long_a_step_takes() {
    let mut state = controller_state(256, 4);
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    state.jobs.get_mut(key).unwrap().lose(&members[1].participant, members[1].session, start);
    probe(&mut state, "w1", at(900));
    tell_of_wait(&mut state, 60_000, at(900));
    tell_of_asking(&mut state, &[0, 1], at(900));
    state.standstills.tick(at(900));
    assert!(matches!(state.next_step(key, at(900)), Step::Rest(Some(_))));
    tell_of_asking(&mut state, &[0], at(950));
    assert_eq!(due(&mut state, key, at(950)).reason, "w1 is gone");
}

#[test]
fn a_member_that_its_daemon_tells_of_is_not_lost_with_its_own_connection() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let _daemon =
        state.hosts.enter(&v1::Hello { host: "w0".into(), works: true, ..v1::Hello::default() }, start);
    state.jobs.get_mut(key).unwrap().lose(&members[0].participant, members[0].session, at(100));
    for now in (2..70).map(|tick| at(tick * 100)) {
        state.cabling.hear_of(topology.find("w0").unwrap(), now);
        tell_of_wait(&mut state, 0, now);
        state.standstills.tick(now);
        let step = state.next_step(key, now);
        assert!(matches!(step, Step::Rest(Some(_))), "{step:?}");
    }
    // The process on w0 has ended, but the daemon still runs.
    state.cabling.hear_of(topology.find("w0").unwrap(), at(8_500));
    assert_eq!(due(&mut state, key, at(8_500)).reason, "w0 is gone");
}

#[test]
fn a_host_of_which_nothing_is_heard_is_not_asked_to_serve() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let hello =
        |host: &str| v1::Hello { host: host.into(), serves: true, works: true, ..v1::Hello::default() };
    let daemons = ["w0", "w1"].map(|host| state.hosts.enter(&hello(host), start));
    state.jobs.get_mut(key).unwrap().lose(&members[4].participant, members[4].session, start);
    for tick in 0..20 {
        state.standstills.tick(at(tick * 100));
    }
    let server = |state: &mut ControllerState, now| topology[due(state, key, now).server].name.clone();
    assert_eq!(server(&mut state, at(1_400)), "w0");
    state.hosts.hear(daemons[1].0, None, 0, at(1_900));
    assert_eq!(server(&mut state, at(2_000)), "w1");
}

#[test]
fn who_is_there_and_does_not_change_over_is_given_up_where_others_wait() {
    let mut state = controller_state(256, 4);
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let participant = state.jobs.get_mut(key).unwrap().participants.get_mut(&members[1].participant).unwrap();
    participant.behind = Some(start);
    state.standstills.tick(at(900));
    assert!(matches!(state.next_step(key, at(900)), Step::Rest(_)), "nobody waits");
    tell_of_wait(&mut state, 900, at(950));
    assert!(matches!(state.next_step(key, at(950)), Step::Rest(_)), "it has some time");
    assert_eq!(due(&mut state, key, at(1000)).reason, "w1 is gone");
    let answer = Answered {
        participant: members[1].participant.clone(),
        generation: 1,
        answer: Answer::Changed(v1::Changed {}),
    };
    state.jobs.get_mut(key).unwrap().answer(answer);
    assert!(matches!(state.next_step(key, at(1000)), Step::Rest(_)));
}

#[test]
fn who_can_come_in_does_not_wait_for_those_whose_switch_is_silent() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    for member in &members[1..4] {
        state.jobs.get_mut(key).unwrap().lose(&member.participant, member.session, start);
    }
    let desired = due(&mut state, key, at(500));
    assert_eq!(desired.reason, "w1, w2, w3 are gone");
    carry_out(&mut state, key, &desired);
    let job = state.jobs.get_mut(key).unwrap();
    members[1..4].iter().for_each(|member| job.depart(&member.participant, None));

    // The leaf of w2 and w3 works, but the controller cannot reach it.
    let leaf = topology.find("leaf1").unwrap();
    state.health.set_node(leaf, Life::Silent, at(600));
    let come = |state: &mut ControllerState, host: &str| {
        let joining = Joining {
            host,
            role: v1::MemberRole::Worker,
            elastic: true,
            resume: 0,
            new_run: false,
            processes: NonZeroU16::MIN,
        };
        state.jobs.get_mut(key).unwrap().join(&topology, &joining).unwrap()
    };
    let _back = ["w1", "w2", "w3"].map(|host| come(&mut state, host));
    let desired = due(&mut state, key, at(700));
    assert_eq!(desired.reason, "w1 came in");
    carry_out(&mut state, key, &desired);
    state.jobs.get_mut(key).unwrap().participants.get_mut(&members[1].participant).unwrap().started = true;

    state.health.set_node(leaf, Life::Alive, at(800));
    assert_eq!(due(&mut state, key, at(900)).reason, "w2, w3 came in");
}

#[test]
fn a_start_around_a_dead_switch_can_be_called_off_and_begun_again() {
    let (mut state, start) = (two_spines(), Instant::now());
    let topology = Arc::clone(state.topology());
    let request = JobRequest::of(&topology, 64, 4_000_000).unwrap();
    let key = state.create("job", &request, TERMS).unwrap();
    let job = state.jobs.get_mut(key).unwrap();
    let workers = request.workers.iter().map(|member| (member.host, v1::MemberRole::Worker));
    let members: Vec<_> = workers
        .chain([(request.server, v1::MemberRole::Server)])
        .map(|(host, role)| join(&topology, job, &topology[host].name, role))
        .collect();
    job.participants.values_mut().for_each(|participant| participant.started = false);
    let is_spine = |role: &&SwitchRole| role.name.starts_with("spine");
    let spine = job.record.generation().plan.switches.iter().find(is_spine).unwrap().key;
    state.health.set_node(spine, Life::Dead, start);
    let desired = due(&mut state, key, start);
    let number = state.install(key, &desired).unwrap();
    let goes_on = |state: &ControllerState| {
        let job = state.jobs.get(key).unwrap();
        !state.cannot_start(job, number) && matches!(state.next_step(key, start), Step::Rest(_))
    };
    assert!(number > 1 && goes_on(&state));
    let late = start + TERMS.join_deadline * 2;
    let Step::Fail(reason) = state.next_step(key, late) else { panic!() };
    assert_eq!(reason, "its tables could not be written within 60s of its creation");

    let other = state.jobs.get_mut(key).unwrap().record.numbered(number).unwrap().plan.clone();
    let other = other.switches.iter().find(is_spine).unwrap().key;
    assert_ne!(other, spine);
    state.health.set_node(other, Life::Dead, start);
    assert!(!goes_on(&state), "a switch of the plan has died");
    state.health.set_node(other, Life::Alive, start);
    state.jobs.get_mut(key).unwrap().depart(&members[3].participant, None);
    assert!(!goes_on(&state), "a member has left");

    let job = state.jobs.get_mut(key).unwrap();
    job.call_off(&topology, number);
    assert!(matches!(state.next_step(key, start), Step::Rest(Some(_))), "the job waits for the member");
    let job = state.jobs.get_mut(key).unwrap();
    join(&topology, job, &topology[request.workers[3].host].name, v1::MemberRole::Worker);
    assert_eq!(due(&mut state, key, start), desired);
}

#[test]
fn a_job_leaves_a_link_that_loses_packets_as_long_as_its_own() {
    let mut state = two_spines();
    let (key, _) = running(&mut state);
    let (start, topology) = (Instant::now(), Arc::clone(state.topology()));
    let spine_of = |plan: &Plan| {
        plan.switches.iter().find(|role| role.name.starts_with("spine")).map(|role| role.key).unwrap()
    };
    let plan = state.jobs.get(key).unwrap().record.generation().plan.clone();
    let (spine, leaf) = (spine_of(&plan), topology.find("leaf0").unwrap());
    let link = topology.neighbours(spine).into_iter().find(|via| via.node == leaf).unwrap().link;
    assert_ne!(plan.width, SliceWidth::WIDEST);
    state.health.set_link(link, Life::ShortOfMtu(SliceWidth::WIDEST), start);
    assert!(matches!(state.next_step(key, start), Step::Rest(_)), "its own packets get through");
    state.health.set_link(link, Life::ShortOfMtu(plan.width), start);
    let desired = due(&mut state, key, start);
    assert_eq!(desired.members.len(), 8, "there is a way round");
    let why = "loses packets of 1128 bytes, and not short ones";
    assert!(desired.reason.ends_with(why), "{}", desired.reason);
    carry_out(&mut state, key, &desired);
    assert_ne!(spine_of(&state.jobs.get(key).unwrap().record.generation().plan), spine);
}

#[test]
fn who_is_behind_a_link_that_loses_long_packets_is_not_given_up_while_results_come() {
    let mut state = controller_state(256, 4);
    let (key, members) = running(&mut state);
    state.jobs.get_mut(key).unwrap().participants.get_mut(&members[0].participant).unwrap().elastic = false;
    let (start, topology) = (Instant::now(), Arc::clone(state.topology()));
    let at = |seconds| start + Duration::from_secs(seconds);
    let leaf = topology.find("leaf0").unwrap();
    let to_host = |via: &tributary_topology::Neighbour| topology[via.node].name == "w0";
    let link = topology.neighbours(leaf).into_iter().find(to_host).unwrap().link;
    let width = state.jobs.get(key).unwrap().record.generation().plan.width;
    state.health.set_link(link, Life::ShortOfMtu(width), start);
    tell_of_wait(&mut state, 5_000, at(5));
    assert!(matches!(state.next_step(key, at(5)), Step::Rest(_)), "it may be repaired");
    // The link works again; the probes do not show that yet.
    tell_of_wait(&mut state, 300, at(12));
    state.standstills.tick(at(12));
    assert!(matches!(state.next_step(key, at(12)), Step::Rest(_)));
    tell_of_wait(&mut state, 3_000, at(20));
    let desired = due(&mut state, key, at(20));
    assert_eq!(desired.members.len(), 3);
    assert!(desired.reason.contains("leaf0 and w0 loses packets"), "{}", desired.reason);
}

#[test]
fn who_is_cut_off_is_given_up_soon_where_he_may_come_back_and_late_where_he_would_be_lost() {
    let topology = topology();
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    for (elastic, late) in [(true, 700), (false, 10_000)] {
        let mut state = controller_state(256, 4);
        let (key, members) = running(&mut state);
        state.jobs.get_mut(key).unwrap().participants.get_mut(&members[0].participant).unwrap().elastic =
            elastic;
        state.health.set_node(topology.find("leaf1").unwrap(), Life::Dead, at(0));
        state.standstills.tick(at(late - 1));
        assert_eq!(state.next_step(key, at(late - 1)), Step::Rest(Some(at(late))));
        assert_eq!(due(&mut state, key, at(late)).members.len(), 2);

        // leaf1 is back in time.
        state.health.set_node(topology.find("leaf1").unwrap(), Life::Alive, at(late - 1));
        assert!(matches!(state.next_step(key, at(late)), Step::Rest(_)));
    }
}

#[test]
fn one_who_is_away_is_given_up_in_time_though_something_better_is_to_come_later() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let (server, last_worker) = (&members[4], &members[3]);
    // The server dies and w0 serves instead; then the server is back.
    let taken_over =
        DesiredGeneration { server: topology.find("w0").unwrap(), ..first_generation(&state, key) };
    let job = state.jobs.get_mut(key).unwrap();
    job.invitations.ask("w0", Instant::now());
    let _second = join(&topology, job, "w0", v1::MemberRole::Server);
    carry_out(&mut state, key, &taken_over);
    let now = Instant::now();
    let job = state.jobs.get_mut(key).unwrap();
    job.lose(&server.participant, server.session, now);
    connect(&mut state, "ps", now);
    state.health.touch(now);
    let Step::Rest(Some(better)) = state.next_step(key, now) else {
        panic!("{:?}", state.next_step(key, now))
    };

    state.jobs.get_mut(key).unwrap().lose(&last_worker.participant, last_worker.session, now);
    let Step::Rest(Some(gone)) = state.next_step(key, now) else { panic!("{:?}", state.next_step(key, now)) };
    assert!(gone < better, "{:?} and {:?} from now", gone - now, better - now);
    let Step::Change(desired) = state.next_step(key, gone) else {
        panic!("{:?}", state.next_step(key, gone))
    };
    assert_eq!(desired.reason, "w3 is gone");
}

#[test]
fn a_server_that_is_started_again_before_its_job_starts_is_asked_again() {
    let mut state = controller_state(256, 4);
    let key = state.create("job", &request(64, Aggregation::Tree), TERMS).unwrap();
    let now = Instant::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    connect(&mut state, "ps", now);
    assert_eq!(state.next_step(key, now), Step::Invite("ps".into()));
    let job = state.jobs.get_mut(key).unwrap();
    job.invitations.ask("ps", now);
    let server = join(&topology(), job, "ps", v1::MemberRole::Server);
    assert!(matches!(state.next_step(key, now), Step::Rest(Some(_))));

    // The server's stream breaks. The controller invites the same daemon again after a pause, but another daemon at
    // once.
    state.jobs.get_mut(key).unwrap().lose(&server.participant, server.session, at(1));
    let Step::Rest(Some(later)) = state.next_step(key, at(1)) else {
        panic!("{:?}", state.next_step(key, at(1)))
    };
    assert!(later < at(10), "{:?}", later - now);
    connect(&mut state, "ps", at(2));
    assert_eq!(state.next_step(key, at(2)), Step::Invite("ps".into()));
}

#[test]
fn a_server_that_cannot_serve_is_left_alone_and_another_one_serves() {
    let (mut state, topology) = (controller_state(256, 4), topology());
    let (key, members) = running(&mut state);
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    connect(&mut state, "ps", now);
    state.jobs.get_mut(key).unwrap().leave(&members[4].participant, "it has no thread", later);
    state.standstills.tick(later);
    // No other host could serve: the job does not invite ps until its pause ends.
    let Step::Rest(Some(until)) = state.next_step(key, later) else {
        panic!("{:?}", state.next_step(key, later))
    };
    assert!(until > later + Duration::from_secs(1), "{:?}", until - later);

    connect(&mut state, "w0", later);
    let desired = due(&mut state, key, later);
    assert_eq!(
        (desired.server, &*desired.reason),
        (topology.find("w0").unwrap(), "server ps is gone: it has no thread")
    );

    // A restarted daemon may succeed, so the controller invites it at once.
    connect(&mut state, "ps", until - Duration::from_secs(1));
    let desired = due(&mut state, key, until - Duration::from_secs(1));
    assert_eq!(desired.server, topology.find("ps").unwrap());
}
