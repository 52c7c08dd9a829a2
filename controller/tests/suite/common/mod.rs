//! Helpers: a controller, a client of it, and members of a job.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tributary_api::v1::controller_client::ControllerClient;
use tributary_api::v1::job_event::Event;
use tributary_api::{JobConfig, v1};
use tributary_controller::{
    Controller, ControllerConfig, PipelineSource, Quotas, RunningController, SwitchAddress,
};
use tributary_testkit::root;
use tributary_topology::Topology;

pub type Client = ControllerClient<Channel>;

/// The limit of a wait in these tests. It is long, because a busy machine may be slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the configuration of a controller, without addresses for the switches of `topology`.
pub fn config(topology: Topology) -> ControllerConfig {
    ControllerConfig {
        topology,
        switches: BTreeMap::new(),
        pipeline: PipelineSource::BuiltIn,
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        switch_patience: Duration::from_secs(10),
        state: None,
        quotas: Quotas::default(),
    }
}

/// Starts a controller of `topology` with switches at the addresses `switches`, and connects a client
/// to it.
pub async fn start(
    topology: Topology,
    switches: BTreeMap<String, SwitchAddress>,
) -> (RunningController, Client) {
    start_with(topology, switches, PipelineSource::BuiltIn).await
}

/// Starts a controller and a client like [`start`], with the given program for the switches.
pub async fn start_with(
    topology: Topology,
    switches: BTreeMap<String, SwitchAddress>,
    pipeline: PipelineSource,
) -> (RunningController, Client) {
    let config = ControllerConfig { switches, pipeline, ..config(topology) };
    let controller = Controller::start(config).await.unwrap();
    let client = connect(&controller).await;
    (controller, client)
}

/// Returns the P4 programs for v1model and for Tofino behind the shim.
pub fn programs() -> [PipelineSource; 2] {
    [PipelineSource::BuiltIn, PipelineSource::Directory(root().join("p4/build/tna-32"))]
}

pub async fn connect(controller: &RunningController) -> Client {
    ControllerClient::connect(format!("http://{}", controller.api_addr())).await.unwrap()
}

/// Loads one of the project's topologies.
pub fn shipped(name: &str) -> Topology {
    Topology::load(root().join("topologies").join(name)).unwrap()
}

/// Creates a job, and returns its token and its plan.
pub async fn create(
    client: &mut Client,
    request: v1::CreateJobRequest,
) -> Result<(Vec<u8>, v1::PlanSummary), Status> {
    let created = client.create_job(request).await?.into_inner();
    Ok((created.token, created.plan.unwrap()))
}

pub fn job(name: &str) -> v1::CreateJobRequest {
    v1::CreateJobRequest { name: name.into(), ..v1::CreateJobRequest::default() }
}

/// A member of a job.
pub struct Member {
    pub host: String,
    events: Streaming<v1::JobEvent>,
}

impl Member {
    pub async fn join(client: &mut Client, job: &str, token: &[u8], host: &str) -> Result<Self, Status> {
        let request = v1::JoinRequest {
            job: job.into(),
            token: token.to_vec(),
            host: host.into(),
            ..v1::JoinRequest::default()
        };
        Self::join_as(client, request).await
    }

    /// Joins with the given request.
    pub async fn join_as(client: &mut Client, request: v1::JoinRequest) -> Result<Self, Status> {
        let host = request.host.clone();
        let events = client.join(request).await?.into_inner();
        Ok(Self { host, events })
    }

    pub async fn next(&mut self) -> Option<Event> {
        self.events.message().await.unwrap().map(|event| event.event.unwrap())
    }

    /// Waits for the start event, and returns its checked configuration.
    pub async fn started(&mut self) -> JobConfig {
        match self.next().await {
            Some(Event::Start(config)) => JobConfig::try_from(config).unwrap(),
            other => panic!("{}: {other:?}", self.host),
        }
    }

    /// Waits for a change of generation, and returns its checked configuration.
    pub async fn changed(&mut self) -> JobConfig {
        match self.next().await {
            Some(Event::Change(config)) => JobConfig::try_from(config).unwrap(),
            other => panic!("{}: {other:?}", self.host),
        }
    }

    /// Waits for the event that the job continues without the member, and checks that it is the last event.
    pub async fn removed(&mut self) -> String {
        let Some(Event::Removed(removed)) = self.next().await else { panic!("{}: not removed", self.host) };
        assert_eq!(self.next().await, None);
        removed.reason
    }

    /// Waits for the job's failure, checks that it is the last event, and returns the reason.
    pub async fn failed(&mut self) -> String {
        let Some(Event::Failed(failed)) = self.next().await else { panic!("{}: not failed", self.host) };
        assert_eq!(self.next().await, None);
        failed.reason
    }

    /// Waits for the job's end, and checks that it is the last event.
    pub async fn ended(&mut self) {
        assert_eq!(self.next().await, Some(Event::Ended(v1::JobEnded {})), "{}", self.host);
        assert_eq!(self.next().await, None);
    }
}

/// Lets all members of a job join it, in the order of the plan.
pub async fn join_all(client: &mut Client, job: &str, token: &[u8], plan: &v1::PlanSummary) -> Vec<Member> {
    let mut members = Vec::new();
    for host in plan.workers.iter().chain([&plan.server]) {
        members.push(Member::join(client, job, token, host).await.unwrap());
    }
    members
}

pub async fn end(client: &mut Client, job: &str, token: &[u8]) -> Result<(), Status> {
    let request = v1::EndJobRequest { job: job.into(), token: token.to_vec() };
    client.end_job(request).await.map(drop)
}

pub async fn list(client: &mut Client) -> Vec<v1::Job> {
    client.list_jobs(v1::ListJobsRequest {}).await.unwrap().into_inner().jobs
}

/// Waits until the controller reports the switch as unreachable.
pub async fn is_away(client: &Client, switch: &str) {
    let unreachable = async || {
        let listed = client.clone().list_switches(v1::ListSwitchesRequest {}).await.unwrap().into_inner();
        let is_it = |one: &v1::Switch| one.name == switch && one.state() == v1::SwitchState::Unreachable;
        listed.switches.iter().any(is_it)
    };
    eventually(unreachable).await;
}

/// Returns the code and the message of a refused call.
pub fn refusal<T>(outcome: Result<T, Status>) -> (Code, String) {
    let status = outcome.err().unwrap();
    (status.code(), status.message().to_owned())
}

/// Waits until `holds` is true.
pub async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
