//! Tests of jobs that change their generation. The tests act as members and hosts; the switches are
//! real.

use crate::common;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::common::{Client, Member, connect, create, eventually, job, list, refusal, shipped};
use crate::switches::Switches;
use crate::switches::gate::Gate;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::host_order::Order;
use tributary_api::v1::host_report::Report;
use tributary_api::v1::job_event::Event;
use tributary_api::{JobConfig, JobCredentials, Role, v1};
use tributary_controller::{Controller, ControllerConfig, RunningController, SwitchAddress};
use tributary_topology::Topology;
use tributary_wire::{Rank, Seq};

/// The job's window. It is small, so that the tests can list the slots.
const WINDOW: u32 = 4;

struct Net {
    controller: RunningController,
    client: Client,
    switches: Switches,
    token: Vec<u8>,
    /// The members, by host.
    members: BTreeMap<String, Member>,
}

async fn start(topology: Topology, switches: &Switches, state: Option<&Path>) -> RunningController {
    start_at(topology, switches.addresses(), state).await
}

async fn start_at(
    topology: Topology,
    switches: BTreeMap<String, SwitchAddress>,
    state: Option<&Path>,
) -> RunningController {
    let config = ControllerConfig { switches, state: state.map(Path::to_owned), ..common::config(topology) };
    Controller::start(config).await.unwrap()
}

/// Starts a job of elastic processes on one of the project's topologies.
async fn running(name: &str, state: Option<&Path>) -> Net {
    let topology = shipped(name);
    let switches = Switches::start(&topology).await;
    let controller = start(topology, &switches, state).await;
    running_on(switches, controller).await
}

async fn running_on(switches: Switches, controller: RunningController) -> Net {
    let mut client = connect(&controller).await;
    let request = v1::CreateJobRequest { window: WINDOW, ..job("digits") };
    let (token, plan) = create(&mut client, request).await.unwrap();
    let mut net = Net { controller, client, switches, token, members: BTreeMap::new() };
    for host in plan.workers.iter().chain([&plan.server]) {
        net.join(host, 0, v1::MemberRole::Unspecified).await;
    }
    for member in net.members.values_mut() {
        member.started().await;
    }
    net
}

impl Net {
    async fn join(&mut self, host: &str, resume: u32, role: v1::MemberRole) {
        let request = v1::JoinRequest {
            job: "digits".into(),
            token: self.token.clone(),
            host: host.into(),
            role: role.into(),
            // Only training processes can be elastic. That is true of Tributary's agents, too.
            elastic: host != "ps",
            resume_generation: resume,
            new_run: false,
            processes: 1,
        };
        let member = Member::join_as(&mut self.client, request).await.unwrap();
        self.members.insert(host.to_owned(), member);
    }

    fn member(&mut self, host: &str) -> &mut Member {
        self.members.get_mut(host).unwrap()
    }

    async fn answer(&mut self, host: &str, role: v1::MemberRole, generation: u32, answer: Answer) {
        let credentials = JobCredentials { job: "digits".into(), token: self.token.clone() };
        let request =
            v1::AnswerRequest { host: host.into(), role: role.into(), generation, answer: Some(answer) };
        self.client.answer(credentials.onto(request)).await.unwrap();
    }

    /// Lets all remaining members change to the next generation and report that. Returns their
    /// configurations.
    async fn all_change(&mut self) -> BTreeMap<String, JobConfig> {
        let mut configs = BTreeMap::new();
        for host in self.members.keys().cloned().collect::<Vec<_>>() {
            let config = self.member(&host).changed().await;
            let role = match config.role {
                Role::Worker { .. } => v1::MemberRole::Worker,
                Role::Server { .. } => v1::MemberRole::Server,
            };
            self.answer(&host, role, config.generation, Answer::Changed(v1::Changed {})).await;
            configs.insert(host, config);
        }
        configs
    }

    /// Waits until a worker must stop, answers with its position, and returns the number of the next
    /// generation.
    async fn stop(&mut self, host: &str, progress: v1::WorkerProgress) -> u32 {
        let Some(Event::Prepare(prepare)) = self.member(host).next().await else {
            panic!("{host}: not asked")
        };
        let answer = Answer::Progress(progress);
        self.answer(host, v1::MemberRole::Worker, prepare.generation, answer).await;
        prepare.generation
    }

    async fn listed(&self) -> v1::Job {
        list(&mut self.client.clone()).await.remove(0)
    }
}

/// A connected daemon.
struct Daemon {
    reports: mpsc::Sender<v1::HostReport>,
    orders: Streaming<v1::HostOrder>,
}

impl Daemon {
    async fn connect(client: &mut Client, host: &str) -> Result<Self, tonic::Status> {
        let (reports, stream) = mpsc::channel(4);
        let hello = v1::Hello { host: host.into(), serves: true, works: true, ..v1::Hello::default() };
        reports.send(v1::HostReport { report: Some(Report::Hello(hello)) }).await.unwrap();
        let orders = client.open_session(ReceiverStream::new(stream)).await?.into_inner();
        Ok(Self { reports, orders })
    }

    /// Sends the report repeatedly until the returned value is dropped.
    fn tell(&self, job: v1::JobProgress) -> JoinSet<()> {
        let (reports, mut telling) = (self.reports.clone(), JoinSet::new());
        telling.spawn(async move {
            let heartbeat = v1::Heartbeat { jobs: vec![job], ..v1::Heartbeat::default() };
            let report = v1::HostReport { report: Some(Report::Heartbeat(heartbeat)) };
            while reports.send(report.clone()).await.is_ok() {
                sleep(Duration::from_millis(100)).await;
            }
        });
        telling
    }

    async fn next(&mut self) -> Order {
        self.orders.message().await.unwrap().unwrap().order.unwrap()
    }
}

fn ranks(numbers: impl IntoIterator<Item = u16>) -> Vec<Rank> {
    numbers.into_iter().map(Rank::new).collect()
}

fn progress(begun: u64, next_seq: u32, idle: bool, dues: [u32; WINDOW as usize]) -> v1::WorkerProgress {
    v1::WorkerProgress { begun, next_seqs: vec![next_seq], idle, dues: dues.to_vec() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_go_on_without_a_member_that_is_gone() {
    let mut net = running("three-tier-8.toml", None).await;
    let before = net.listed().await;
    drop(net.members.remove("w3"));
    let configs = net.all_change().await;
    for config in configs.values() {
        assert_eq!((config.generation, &config.ranks), (2, &ranks([0, 1, 2, 4, 5, 6, 7])));
        assert!(config.joined.is_empty());
    }
    let after = net.listed().await;
    assert_eq!((after.state(), after.generation), (v1::JobState::Running, 2));
    assert_eq!(after.last_change, "w3 is gone");
    assert_ne!(before.job_id, after.job_id);
    // The old tables are withdrawn, so that each switch has only one result entry again.
    let switches = &net.switches;
    eventually(async || {
        let held = switches.read_all().await;
        let results = |name: &str| {
            held[name].iter().filter(|entity| entity.to_string().starts_with("result_group")).count()
        };
        results("root") == 1 && results("mid0") == 1
    })
    .await;
}

/// Returns the spine switch in a job's tree.
fn spine(job: &v1::Job) -> String {
    let switches = &job.plan.as_ref().unwrap().switches;
    switches.iter().find(|switch| switch.name.starts_with("spine")).unwrap().name.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_planned_around_a_dead_switch_and_nobody_is_lost() {
    let mut net = running("leaf-spine-8.toml", None).await;
    let used = spine(&net.listed().await);
    net.switches.stop(&used).await;
    let configs = net.all_change().await;
    assert!(configs.values().all(|config| config.ranks == ranks(0..8)));
    let now = net.listed().await;
    assert_ne!(spine(&now), used);
    assert_eq!(now.last_change, format!("switch {used} is dead"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stays_on_a_switch_that_only_the_controller_cannot_hear_unless_it_stands_still() {
    let topology = shipped("leaf-spine-8.toml");
    let switches = Switches::start(&topology).await;
    let (mut addresses, mut gates) = (switches.addresses(), BTreeMap::new());
    for name in ["spine0", "spine1"] {
        let address = &mut addresses.get_mut(name).unwrap().address;
        let gate = Gate::before(address.parse().unwrap()).await;
        *address = gate.address().to_string();
        gates.insert(name, gate);
    }
    let controller = start_at(topology, addresses, None).await;
    let mut net = running_on(switches, controller).await;
    let used = spine(&net.listed().await);
    let is = async |state| {
        let listed = net.client.clone().list_switches(v1::ListSwitchesRequest {}).await.unwrap().into_inner();
        listed.switches.iter().find(|switch| switch.name == used).unwrap().state() == state
    };
    gates[&*used].set_open(false);
    eventually(async || is(v1::SwitchState::Unreachable).await).await;
    gates[&*used].set_open(true);
    eventually(async || is(v1::SwitchState::Up).await).await;
    assert_eq!(net.listed().await.generation, 1, "slices may have got through all the time");

    gates[&*used].set_open(false);
    let worker = Daemon::connect(&mut net.client, "w0").await.unwrap();
    let _telling = worker.tell(v1::JobProgress {
        job: "digits".into(),
        stalled_milliseconds: 60_000,
        stalled_in_generation_milliseconds: 1000,
        ..Default::default()
    });
    for config in net.all_change().await.values() {
        assert_eq!((config.generation, &config.ranks), (2, &ranks(0..8)));
    }
    let now = net.listed().await;
    assert_ne!(spine(&now), used);
    // The reported wait includes the time in earlier structures.
    assert_eq!(now.waiting_for, ["a result (awaited by w0 for up to 60 s)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_takes_over_for_a_dead_server_with_a_survivors_copy() {
    let mut net = running("three-tier-8.toml", None).await;
    let mut daemon = Daemon::connect(&mut net.client, "w0").await.unwrap();
    assert!(matches!(daemon.next().await, Order::Welcome(_)));
    drop(net.members.remove("ps"));
    let Order::Serve(serve) = daemon.next().await else { panic!("not asked to serve") };
    assert_eq!((serve.job.as_str(), &serve.token), ("digits", &net.token));
    let mut server = Member::join_as(
        &mut net.client,
        v1::JoinRequest {
            job: serve.job,
            token: serve.token,
            host: "w0".into(),
            role: v1::MemberRole::Server.into(),
            elastic: false,
            resume_generation: 0,
            new_run: false,
            processes: 1,
        },
    )
    .await
    .unwrap();
    // w5 has the result of slice 5. The other members wait for that result.
    let (behind, ahead) = (progress(1, 40, false, [8, 5, 6, 7]), progress(1, 40, false, [8, 9, 6, 7]));
    let mut generation = 0;
    for rank in 0..8 {
        let progress = if rank == 5 { &ahead } else { &behind };
        generation = net.stop(&format!("w{rank}"), progress.clone()).await;
    }
    let Some(Event::Provide(provide)) = net.member("w5").next().await else { panic!("not asked") };
    assert_eq!((provide.generation, &provide.seqs[..]), (generation, &[5][..]));
    let values: Vec<u8> = (0..1024).map(|byte| byte as u8).collect();
    let slice = v1::FinishedSlice {
        seq: 5,
        job_id: 3,
        max: false,
        relay: false,
        contributors: 8,
        weight: 8,
        tag_high: 7,
        tag_low: 9,
        values,
    };
    let provided = Answer::Provided(v1::Provided { slices: vec![slice] });
    net.answer("w5", v1::MemberRole::Worker, generation, provided).await;
    let config = server.started().await;
    let Role::Server { take_over: Some(take_over), .. } = config.role else { panic!("{:?}", config.role) };
    assert_eq!(take_over.dues, [8, 9, 6, 7].map(Seq));
    let finished = &take_over.finished[0];
    assert_eq!((finished.seq, finished.totals.contributors, finished.values[1]), (Seq(5), 8, 0x0405_0607));
    assert_eq!(finished.job.get(), 3);
    let configs = net.all_change().await;
    assert!(configs.values().all(|config| config.ranks == ranks(0..8) && config.generation == generation));
    assert_eq!(net.listed().await.last_change, "server ps is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_comes_in_at_the_beginning_of_an_operation() {
    let mut net = running("three-tier-8.toml", None).await;
    drop(net.members.remove("w3"));
    net.all_change().await;
    net.join("w3", 0, v1::MemberRole::Unspecified).await;
    let others: Vec<_> = (0..8).filter(|rank| *rank != 3).map(|rank| format!("w{rank}")).collect();
    let mut generation = 0;
    for host in &others {
        // w6 has begun one operation more than the other members.
        let begun = if host == "w6" { 3 } else { 2 };
        generation = net.stop(host, progress(begun, 30, host != "w6", [0; 4])).await;
    }
    for host in &others {
        let Some(Event::Proceed(proceed)) = net.member(host).next().await else { panic!("{host}: not told") };
        assert_eq!((proceed.generation, proceed.until), (generation, 3));
        let answer = Answer::Progress(progress(3, 44, true, [44, 45, 46, 47]));
        net.answer(host, v1::MemberRole::Worker, generation, answer).await;
    }
    let joiner = net.member("w3").started().await;
    assert_eq!((joiner.start_seqs[0], joiner.begun, joiner.generation), (Seq(44), 3, generation));
    let w3 = net.members.remove("w3").unwrap();
    for config in net.all_change().await.values() {
        assert_eq!((&config.ranks, &config.joined), (&ranks(0..8), &ranks([3])));
    }
    drop(w3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_back_in_time_is_not_missed() {
    let mut net = running("three-tier-8.toml", None).await;
    drop(net.members.remove("w3"));
    net.join("w3", 1, v1::MemberRole::Worker).await;
    assert_eq!(net.member("w3").changed().await.generation, 1);
    // A worker that is disconnected for too long is notified that the job continued without it.
    drop(net.members.remove("w3"));
    net.all_change().await;
    net.join("w3", 1, v1::MemberRole::Worker).await;
    assert!(net.member("w3").removed().await.contains("w3 is gone"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_controller_takes_up_the_jobs_of_the_one_before() {
    let state = tempfile::tempdir().unwrap();
    let mut net = running("three-tier-8.toml", Some(state.path())).await;
    let before = (net.listed().await, net.switches.read_all().await);
    let hosts: Vec<_> = net.members.keys().cloned().collect();
    net.members.clear();
    net.controller.shutdown().await.unwrap();
    assert_eq!(net.switches.read_all().await, before.1, "a job's tables stay while no controller is there");

    net.controller = start(shipped("three-tier-8.toml"), &net.switches, Some(state.path())).await;
    net.client = connect(&net.controller).await;
    for host in &hosts {
        net.join(host, 1, v1::MemberRole::Unspecified).await;
        assert_eq!(net.member(host).changed().await.generation, 1);
    }
    let after = net.listed().await;
    assert_eq!((after.state(), after.job_id, after.generation), (v1::JobState::Running, before.0.job_id, 1));
    assert_eq!(net.switches.read_all().await, before.1);
    // The token still belongs to the job, and no other job gets its slots.
    let (code, _) = refusal(Member::join(&mut net.client.clone(), "digits", b"guess", "w0").await);
    assert_eq!(code, Code::PermissionDenied);
    common::end(&mut net.client.clone(), "digits", &net.token).await.unwrap();
    net.controller.shutdown().await.unwrap();
    let third = start(shipped("three-tier-8.toml"), &net.switches, Some(state.path())).await;
    assert!(list(&mut connect(&third).await).await.is_empty(), "a job that has ended is forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_died_with_the_controller_comes_in_anew_before_the_others_are_back() {
    let state = tempfile::tempdir().unwrap();
    let mut net = running("three-tier-8.toml", Some(state.path())).await;
    net.members.clear();
    net.controller.shutdown().await.unwrap();
    net.controller = start(shipped("three-tier-8.toml"), &net.switches, Some(state.path())).await;
    net.client = connect(&net.controller).await;
    net.join("w3", 0, v1::MemberRole::Unspecified).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_of_no_host_or_with_another_address_is_told_what_is_wrong() {
    let mut net = running("two-workers.toml", None).await;
    let error = Daemon::connect(&mut net.client, "w9").await.err().unwrap();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("its hosts are"), "{error}");
    let (reports, stream) = mpsc::channel(4);
    let hello = v1::Hello { host: "w0".into(), mac: vec![2, 0, 0, 0, 0, 99], ..v1::Hello::default() };
    reports.send(v1::HostReport { report: Some(Report::Hello(hello)) }).await.unwrap();
    let error = net.client.open_session(ReceiverStream::new(stream)).await.err().unwrap();
    assert_eq!(error.code(), Code::FailedPrecondition);
    assert!(error.message().contains("02:00:00:00:00:63"), "{error}");
}
