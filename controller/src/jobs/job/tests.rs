use std::num::NonZeroU16;

use tributary_api::{JobConfig, Role};
use tributary_planner::{Aggregation, JobRequest};

use super::*;
use crate::testing::{TERMS, controller_state, request, topology};

const HOSTS: [&str; 5] = ["w0", "w1", "w2", "w3", "ps"];

fn created() -> Job {
    let mut state = controller_state(64, 1);
    let key = state.create("job", &request(64, Aggregation::Tree), TERMS).unwrap();
    Job::new(state.jobs.get(key).unwrap().record.clone(), Instant::now())
}

fn joining(host: &str, elastic: bool, resume: u32) -> Joining<'_> {
    Joining {
        host,
        role: v1::MemberRole::Unspecified,
        elastic,
        resume,
        new_run: false,
        processes: NonZeroU16::MIN,
    }
}

/// Returns the request of a host with this number of training processes.
fn with(host: &str, processes: u16) -> Joining<'_> {
    Joining { processes: NonZeroU16::new(processes).unwrap(), ..joining(host, true, 0) }
}

fn join(job: &mut Job, host: &str) -> Joined {
    job.join(&topology(), &joining(host, true, 0)).unwrap()
}

/// Creates a running job, and returns it with its members and their streams of events.
fn running() -> (Job, Vec<Joined>) {
    let mut job = created();
    let members: Vec<_> = HOSTS.iter().map(|host| join(&mut job, host)).collect();
    let topology = topology();
    assert!(job.advance(1, ""));
    for Joined { participant: id, .. } in &members {
        let config = job.config(&topology, job.record.generation(), id).unwrap();
        let participant = job.participants.get_mut(id).unwrap();
        participant.started = true;
        participant.tell(Event::Start(config));
    }
    (job, members)
}

fn next(joined: &mut Joined) -> Option<Event> {
    match joined.events.try_recv() {
        Ok(event) => event.event,
        Err(mpsc::error::TryRecvError::Disconnected) => None,
        Err(mpsc::error::TryRecvError::Empty) => panic!("nothing to hear yet"),
    }
}

#[test]
fn it_waits_for_those_who_have_not_joined() {
    let mut job = created();
    for (id, host) in HOSTS.iter().enumerate() {
        assert_eq!(job.waiting_for().len(), HOSTS.len() - id);
        join(&mut job, host);
    }
    assert!(job.waiting_for().is_empty());
}

#[test]
fn a_host_that_is_the_server_and_a_worker_has_to_join_as_both() {
    let topology = topology();
    let mut state = controller_state(64, 1);
    let server = topology.find("w0").unwrap();
    let asked = JobRequest { server, ..request(64, Aggregation::Tree) };
    let key = state.create("job", &asked, TERMS).unwrap();
    let mut job = Job::new(state.jobs.get(key).unwrap().record.clone(), Instant::now());
    assert_eq!(job.waiting_for(), ["w0", "w1", "w2", "w3", "w0 as the server"]);
    job.join(&topology, &Joining { role: v1::MemberRole::Server, ..joining("w0", true, 0) }).unwrap();
    assert_eq!(job.waiting_for(), ["w0", "w1", "w2", "w3"]);
    HOSTS[..4].iter().for_each(|host| drop(join(&mut job, host)));
    assert!(job.waiting_for().is_empty());
}

#[test]
fn strangers_and_doubles_are_refused() {
    let mut job = created();
    join(&mut job, "w1");
    let refused =
        |job: &mut Job, host| job.join(&topology(), &joining(host, true, 0)).unwrap_err().to_string();
    assert_eq!(refused(&mut job, "w1"), "host \"w1\" has joined job \"job\" already");
    assert_eq!(
        refused(&mut job, "w9"),
        "host \"w9\" is not a member of job \"job\"; its members are w0, w1, w2, w3, ps"
    );
}

#[test]
fn members_are_told_their_own_part() {
    let (mut job, mut members) = running();
    assert!(job.end() && !job.end());
    let mut up = Vec::new();
    for (host, member) in HOSTS.iter().zip(&mut members) {
        let Some(Event::Start(config)) = next(member) else { panic!("{host} was not started") };
        assert!(matches!(next(member), Some(Event::Ended(_))));
        assert_eq!(next(member), None);
        let config = JobConfig::try_from(config).unwrap();
        let topology = topology();
        let own = topology[topology.find(host).unwrap()].host().unwrap();
        assert_eq!((config.own.mac, config.own.ip), (own.mac, own.ip));
        match config.role {
            Role::Worker { rank, up: stack, .. } => {
                assert_eq!(format!("w{rank}"), *host);
                up.push(stack);
            }
            Role::Server { fan_in, down, node, .. } => {
                assert_eq!((*host, fan_in, down.len()), ("ps", 1, 4));
                // Every hop stack begins at the leaf, goes on to the root, and ends at the server.
                assert!(up.iter().all(|stack| stack.len() == 3 && stack[2].node == node));
            }
        }
    }
    assert_eq!(up.len(), 4);
}

#[test]
fn a_failure_reaches_everyone_and_is_final() {
    let (mut job, mut members) = running();
    let failure = |reason: &str| v1::JobFailed { reason: reason.into(), wrong_sum: true };
    assert!(job.fail(failure("a fault")));
    assert!(!job.fail(failure("again")) && !job.end() && !job.advance(1, ""));
    assert_eq!(job.state(), &JobState::Failed("a fault".into()));
    let error = job.join(&topology(), &joining("w0", true, 0)).unwrap_err().to_string();
    assert_eq!(error, "job \"job\" is over: it failed because a fault; create a job for another run");
    for member in &mut members {
        assert!(matches!(next(member), Some(Event::Start(_))));
        assert_eq!(next(member), Some(Event::Failed(failure("a fault"))));
        assert_eq!(next(member), None);
    }
}

#[test]
fn one_that_comes_back_is_told_again_where_the_job_is() {
    let (mut job, members) = running();
    let lost = &members[1];
    job.lose(&lost.participant, lost.session, Instant::now());
    assert_eq!(job.waiting_for(), ["w1"]);
    let mut back = job.join(&topology(), &joining("w1", true, 1)).unwrap();
    let Some(Event::Change(config)) = next(&mut back) else { panic!("not told") };
    assert_eq!(config.generation, 1);
    assert!(job.waiting_for().is_empty());
    // The end of the old stream is noted late, and has no effect.
    job.lose(&lost.participant, lost.session, Instant::now());
    assert!(job.waiting_for().is_empty());
}

#[test]
fn one_that_was_to_stop_is_asked_again_when_it_comes_back() {
    let (mut job, members) = running();
    let (id, session) = (&members[1].participant, members[1].session);
    job.lose(id, session, Instant::now());
    let prepare = Event::Prepare(v1::Prepare { generation: 2 });
    job.participants.get_mut(id).unwrap().tell(prepare.clone());
    let mut back = job.join(&topology(), &joining("w1", true, 1)).unwrap();
    assert_eq!(next(&mut back), Some(prepare));
}

#[test]
fn one_that_the_job_went_on_without_is_told_so() {
    let (mut job, members) = running();
    job.depart(&members[1].participant, None);
    let mut back = job.join(&topology(), &joining("w1", true, 1)).unwrap();
    assert!(matches!(next(&mut back), Some(Event::Removed(_))));
    assert_eq!(next(&mut back), None);
}

#[test]
fn only_elastic_processes_come_into_a_running_job_and_only_to_their_like() {
    let (mut job, members) = running();
    job.depart(&members[1].participant, None);
    let refused = job.join(&topology(), &joining("w1", false, 0)).unwrap_err().to_string();
    assert!(refused.starts_with("job \"job\" is running and takes host \"w1\" in no more"), "{refused}");
    job.participants.get_mut(&members[2].participant).unwrap().elastic = false;
    assert!(job.join(&topology(), &joining("w1", true, 0)).is_err());
    job.participants.get_mut(&members[2].participant).unwrap().elastic = true;
    assert!(job.join(&topology(), &joining("w1", true, 0)).is_ok());
}

#[test]
fn a_job_that_is_over_has_nothing_in_its_way() {
    let (mut job, _members) = running();
    assert!(job.note_setback("a switch is unreachable".to_owned()));
    assert!(!job.note_setback("a switch is unreachable".to_owned()));
    job.end();
    assert!(!job.note_setback("a switch is unreachable".to_owned()));
    assert_eq!(job.setback, "");
}

#[test]
fn another_host_serves_only_when_it_was_asked_to() {
    let mut job = created();
    let serve = Joining { role: v1::MemberRole::Server, ..joining("w2", true, 0) };
    assert!(job.join(&topology(), &serve).is_err());
    job.invitations.ask("w2", Instant::now());
    assert_eq!(job.join(&topology(), &serve).unwrap().participant, ParticipantId::Server("w2".into()));
}

/// Returns the numbers of processes in the configuration of a worker and of the server.
fn counts(job: &Job) -> [Vec<u32>; 2] {
    let generation = job.record.generation();
    [ParticipantId::Worker(Rank::new(3)), ParticipantId::Server("ps".into())]
        .map(|id| job.config(&topology(), generation, &id).unwrap().processes)
}

#[test]
fn each_host_brings_its_own_number_of_processes_before_the_start() {
    let mut job = created();
    assert_eq!(counts(&job), [[1; 4]; 2]);
    job.join(&topology(), &with("w2", 2)).unwrap();
    let first = job.join(&topology(), &with("w1", 4)).unwrap();
    assert_eq!(
        counts(&job),
        [[4, 4, 2, 4]; 2],
        "those who have not joined are expected like the lowest rank"
    );
    assert_eq!(job.place(&first.participant), "worker 1 (4 ranks)");
    // Until the start, a host may come back with another number.
    job.depart(&first.participant, None);
    assert_eq!(counts(&job), [[2; 4]; 2]);
    for (host, processes) in [("w0", 8), ("w1", 1), ("w3", 3)] {
        job.join(&topology(), &with(host, processes)).unwrap();
    }
    assert_eq!(counts(&job), [[8, 1, 2, 3]; 2]);
    assert_eq!(job.place(&first.participant), "worker 1 (1 rank)");
}

#[test]
fn a_job_with_a_fixed_number_of_processes_refuses_other_numbers() {
    let mut job = created();
    job.record.terms.processes_per_host = NonZeroU16::new(4);
    assert_eq!(counts(&job), [[4; 4]; 2]);
    let refused = job.join(&topology(), &with("w1", 2)).unwrap_err().to_string();
    let text = "job \"job\" has 4 ranks on each host, and host \"w1\" came with 2: start 4 processes there, or create \
                the job with another --ranks-per-host";
    assert_eq!(refused, text);
    job.join(&topology(), &with("w1", 4)).unwrap();
    // The server has no training processes.
    job.join(&topology(), &with("ps", 1)).unwrap();
}

#[test]
fn after_the_start_a_host_keeps_its_number_of_processes() {
    let mut job = created();
    for host in HOSTS {
        job.join(&topology(), &with(host, 2)).unwrap();
    }
    assert!(job.advance(1, ""));
    job.depart(&ParticipantId::Worker(Rank::new(0)), None);
    assert_eq!(counts(&job), [[2; 4]; 2], "ranks do not shift when a host leaves");
    let refused = job.join(&topology(), &with("w0", 4)).unwrap_err().to_string();
    let text = "job \"job\" started with 2 ranks on host \"w0\", and the host came back with 4: start 2 processes \
                there, or start all processes of the job again for a new run";
    assert_eq!(refused, text);
    job.join(&topology(), &with("w0", 2)).unwrap();
}
