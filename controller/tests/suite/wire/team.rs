//! The members of a job, each with an agent on the interface of its host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tributary_api::{JobConfig, Role, v1};
use tributary_controller::RunningController;
use tributary_host_agent::{AgentError, HostPort, JobEvent, JobMember, Membership, ServerAgent, WorkerAgent};
use tributary_protocol::{AllReduce, GradientData, Sums, Timers, WorkerStats};
use tributary_transport::Remote;

use crate::common::{self, Client};

/// The time limit of an all-reduce. It is far above the duration of any all-reduce in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running job.
pub(crate) struct Team {
    /// The workers' agents, by rank.
    workers: BTreeMap<u16, Arc<WorkerAgent>>,
    pub(crate) server: ServerAgent,
    /// The server's configuration.
    pub(crate) server_config: JobConfig,
    /// The workers' configurations, by rank.
    pub(crate) worker_configs: BTreeMap<u16, JobConfig>,
    _memberships: Vec<Membership>,
}

enum Agent {
    Worker(u16, Box<JobConfig>, WorkerAgent),
    Server(Box<JobConfig>, ServerAgent),
}

impl Team {
    /// Creates a job and starts all of its members.
    pub(crate) async fn start(
        controller: &RunningController,
        client: &mut Client,
        request: v1::CreateJobRequest,
    ) -> Self {
        let job = request.name.clone();
        let (token, plan) = common::create(client, request).await.unwrap();
        let remote = Remote::controller(&controller.api_addr().to_string(), None).unwrap();
        let mut joining = JoinSet::new();
        let workers = plan.workers.iter().map(|host| JobMember::worker(&job, &token, host));
        for member in workers.chain([JobMember::server(&job, &token, &plan.server)]) {
            joining.spawn(join(remote.clone(), member));
        }
        let (mut workers, mut worker_configs) = (BTreeMap::new(), BTreeMap::new());
        let mut server = None;
        let mut memberships = Vec::new();
        for (agent, membership) in joining.join_all().await {
            match agent {
                Agent::Worker(rank, config, agent) => {
                    worker_configs.insert(rank, *config);
                    workers.insert(rank, Arc::new(agent));
                }
                Agent::Server(config, agent) => server = Some((config, agent)),
            }
            memberships.push(membership);
        }
        let (config, server) = server.unwrap();
        Self { workers, server, server_config: *config, worker_configs, _memberships: memberships }
    }

    /// Lets every worker reduce its values, and returns each worker's result, by rank.
    pub(crate) async fn all_reduce(&self, values: impl Fn(u16) -> Vec<i32>) -> Vec<Vec<i32>> {
        self.outcomes(values).await.into_iter().map(Result::unwrap).collect()
    }

    /// Like [`all_reduce`](Self::all_reduce), for operations that may fail.
    pub(crate) async fn outcomes(
        &self,
        values: impl Fn(u16) -> Vec<i32>,
    ) -> Vec<Result<Vec<i32>, AgentError>> {
        let mut results = Vec::new();
        for (rank, agent) in &self.workers {
            let (agent, data) = (Arc::clone(agent), GradientData::I32(values(*rank)));
            let operation = AllReduce { name: "gradient".into(), data, weight: 1 };
            results.push(tokio::task::spawn_blocking(move || agent.all_reduce(operation)));
        }
        let all = async {
            let mut sums = Vec::new();
            for result in results {
                sums.push(result.await.unwrap().map(|reduced| match reduced.sums {
                    Sums::I32(values) => values,
                    other => panic!("integers were to be reduced, not {other:?}"),
                }));
            }
            sums
        };
        match tokio::time::timeout(PATIENCE, all).await {
            Ok(sums) => sums,
            Err(_) => {
                // Running agents would keep the test from ending.
                self.workers.values().for_each(|agent| agent.end("too slow"));
                panic!("not reduced within {PATIENCE:?}: {:?}", self.stats());
            }
        }
    }

    /// Returns the workers' statistics.
    pub(crate) fn stats(&self) -> Vec<WorkerStats> {
        self.workers.values().filter_map(|agent| Some(agent.stats().ok()?.protocol)).collect()
    }
}

async fn join(controller: Remote, member: JobMember) -> (Agent, Membership) {
    let interface = member.host.clone();
    let mut membership = Membership::join(&controller, member).await.unwrap();
    let config = match membership.next_event().await.unwrap() {
        JobEvent::Start(config) => config,
        other => panic!("{interface}: {other:?}"),
    };
    let port = Box::new(HostPort::open(&interface).unwrap());
    let agent = match &config.role {
        Role::Worker { rank, .. } => {
            let agent = WorkerAgent::start(&config, Timers::default(), port).unwrap();
            Agent::Worker(rank.get(), config, agent)
        }
        Role::Server { .. } => {
            let agent = ServerAgent::start(&config, port).unwrap();
            Agent::Server(config, agent)
        }
    };
    (agent, membership)
}
