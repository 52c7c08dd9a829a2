//! Tests of reductions over embedded switches that a real controller programs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio::sync::mpsc::UnboundedReceiver;
use tributary_api::{MAX_JOB_NAME, v1};
use tributary_controller::{Controller, ControllerConfig, PipelineSource, Quotas, RunningController};
use tributary_host_agent::{AgentError, Cable, JobEvent, JobMember, Membership, WorkerAgent};
use tributary_link::FramePort;
use tributary_protocol::{AllReduce, GradientData, Reduced, Sums, Timers};
use tributary_ps::client::operation_name;
use tributary_ps::server::{GroupEvent, Sum};
use tributary_topology::Topology;
use tributary_transport::Remote;
use tributary_wire::MacAddr;

use super::*;
use crate::options::remote::connect;
use tributary_demo::DemoNetwork;

const WORKERS: [&str; 2] = ["w0", "w1"];
const LENGTH: usize = 1000;

/// Two workers, a server and a switch, without a job.
struct Network {
    topology: Topology,
    fabric: DemoNetwork,
    _controller: RunningController,
    remote: Remote,
}

impl Network {
    async fn up() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        let topology = Topology::load(folder.join("two-workers.toml")).unwrap();
        let fabric = DemoNetwork::start(&topology, 0.0, 0).await.unwrap();
        let controller = Controller::start(ControllerConfig {
            switches: fabric.switch_addresses(&topology),
            topology: topology.clone(),
            pipeline: PipelineSource::BuiltIn,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
            switch_patience: Duration::from_secs(10),
            state: None,
            quotas: Quotas::default(),
        });
        let controller = controller.await.unwrap();
        let remote = Remote::controller(&controller.api_addr().to_string(), None).unwrap();
        Self { topology, fabric, _controller: controller, remote }
    }

    fn port(&mut self, host: &str) -> Box<dyn FramePort> {
        Box::new(self.fabric.take_host_port(self.topology.find(host).unwrap()).unwrap())
    }

    /// Returns the reductions of the server's host. The port can be used for one job.
    fn reductions(&mut self) -> Reductions {
        let port = Mutex::new(Some(self.port("ps")));
        let taken =
            || AgentError::System { step: "open the port twice", reason: io::ErrorKind::AddrInUse.into() };
        let open_port = Arc::new(move || port.lock().take().ok_or_else(taken));
        reductions(open_port, self.remote.clone())
    }

    /// Joins both workers to a job, and returns when the job has started.
    async fn join(&mut self, job: &str, token: &[u8]) -> Vec<(Membership, Arc<WorkerAgent>)> {
        let mut memberships = Vec::new();
        for host in WORKERS {
            let member = JobMember::worker(job, token, host);
            memberships.push((host, Membership::join(&self.remote, member).await.unwrap()));
        }
        let mut members = Vec::new();
        for (host, mut membership) in memberships {
            let JobEvent::Start(config) = membership.next_event().await.unwrap() else { panic!("no start") };
            let agent = WorkerAgent::start(&config, Timers::default(), self.port(host)).unwrap();
            members.push((membership, Arc::new(agent)));
        }
        members
    }
}

fn reductions(open_port: tributary_host_agent::OpenPort, controller: Remote) -> Reductions {
    let cable = Cable { address: MacAddr::zero(), open: Arc::clone(&open_port) };
    let servers = Servers::new("ps".into(), controller.clone(), Arc::clone(&open_port));
    let member = Member { host: "ps".into(), interface: "none".into(), open_port, cable, controller };
    Reductions::new(Arc::new(member), servers)
}

fn open(reductions: &Reductions) -> (Box<dyn Reduction>, UnboundedReceiver<GroupEvent>) {
    let (events, heard) = mpsc::unbounded_channel();
    let hosts = WORKERS.map(str::to_owned).to_vec();
    let request = GroupRequest { job: "digits".into(), group: 1, hosts, length: LENGTH };
    (reductions.open(request, Arc::new(move |event| drop(events.send(event)))), heard)
}

async fn opened(heard: &mut UnboundedReceiver<GroupEvent>) -> (String, Vec<u8>) {
    match heard.recv().await.unwrap() {
        GroupEvent::Opened { job, token } => (job, token),
        other => panic!("{other:?}"),
    }
}

async fn reason(heard: &mut UnboundedReceiver<GroupEvent>) -> String {
    match heard.recv().await.unwrap() {
        GroupEvent::Failed { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// Runs one round of all workers, each with its own weight.
async fn round(number: u64, members: &[(Membership, Arc<WorkerAgent>)], weights: [u32; 2]) -> Reduced {
    let mut reducing = JoinSet::new();
    for (rank, ((_, agent), weight)) in members.iter().zip(weights).enumerate() {
        let values = (0..LENGTH).map(|at| (at * (rank + 3)) as f32 * 0.01 - 7.0).collect();
        let (agent, data) = (Arc::clone(agent), GradientData::F32(values));
        let operation = AllReduce { name: operation_name(number), data, weight };
        reducing.spawn_blocking(move || agent.all_reduce(operation).unwrap());
    }
    let reduced = reducing.join_all().await;
    assert_eq!(reduced[0], reduced[1]);
    reduced[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_gets_the_sums_of_its_rounds_and_its_job_ends_with_it() {
    let mut network = Network::up().await;
    let reductions = network.reductions();
    let (mut reduction, mut heard) = open(&reductions);
    let (job, token) = opened(&mut heard).await;
    let mut members = network.join(&job, &token).await;
    assert_eq!(heard.recv().await, Some(GroupEvent::Live));
    for (number, weights) in [[256, 100], [0, 17]].into_iter().enumerate() {
        let number = number as u64;
        reduction.expect(number);
        let Reduced { sums: Sums::F32(values), .. } = round(number, &members, weights).await else {
            panic!()
        };
        let sum = Sum { round: number, weight: weights.iter().sum(), contributors: 2, values };
        assert_eq!(heard.recv().await, Some(GroupEvent::Sum(sum)));
    }
    let mut client = connect(&network.remote).await.unwrap();
    let counters = client.get_counters(v1::GetCountersRequest::default()).await.unwrap().into_inner();
    let completed =
        counters.switches[0].jobs.iter().find(|count| count.job == job && count.reason == "completed");
    // Two rounds with one MAX slice and four SUM slices each.
    assert_eq!(completed.unwrap().packets, 10);

    drop(reduction);
    reductions.finished().await;
    for (membership, _) in &mut members {
        assert_eq!(membership.next_event().await.unwrap(), JobEvent::Ended);
    }
    assert_eq!(heard.recv().await, None, "a group that was given up hears nothing more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_goes_and_a_group_that_is_given_up_early_end_the_job() {
    let mut network = Network::up().await;
    let reductions = network.reductions();
    let (reduction, mut heard) = open(&reductions);
    opened(&mut heard).await;
    drop(reduction);
    assert_eq!(heard.recv().await, None);

    let (_reduction, mut heard) = open(&reductions);
    let (job, token) = opened(&mut heard).await;
    let mut members = network.join(&job, &token).await;
    assert_eq!(heard.recv().await, Some(GroupEvent::Live));
    drop(members.pop());
    let reason = reason(&mut heard).await;
    assert!(reason.contains("w1 is gone"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_not_there_is_said() {
    let controller = Remote::controller("127.0.0.1:9", None).unwrap();
    let no_port = || Err(AgentError::System { step: "open", reason: io::ErrorKind::NotFound.into() });
    let reductions = reductions(Arc::new(no_port), controller);
    let (_reduction, mut heard) = open(&reductions);
    let reason = reason(&mut heard).await;
    assert!(reason.contains("no controller at 127.0.0.1:9"), "{reason}");
}

#[test]
fn every_name_is_one_that_a_job_may_have() {
    assert_eq!(name("digits", 0xbeef, 3), "digits.0000beef.g3");
    let longest = name(&"x".repeat(200), u32::MAX, u64::MAX);
    assert_eq!(longest.len(), MAX_JOB_NAME);
    assert!(longest.starts_with("xxx") && longest.ends_with(".ffffffff.g18446744073709551615"));
}
