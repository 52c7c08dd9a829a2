//! The job's members: each joins through the controller's API, as if on a host of its own.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tributary_api::Role;
use tributary_host_agent::{
    JobAgent, JobEvent, JobMember, MemberRole, Membership, ServerAgent, Speaker, WorkerAgent, follow,
};
use tributary_link::InProcessPort;
use tributary_protocol::Timers;
use tributary_transport::Remote;

use crate::report::AtServer;

/// A worker's agent, and its connection to the controller.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) host: String,
    pub(crate) agent: Arc<WorkerAgent>,
    speaker: Speaker,
    runtime: Handle,
}

impl Worker {
    /// Tells the controller that this worker's all-reduce failed, so that nobody waits for it. Must be called from a
    /// thread outside the runtime.
    pub(crate) fn report_fault(&self, description: &str) {
        let mut speaker = self.speaker.clone();
        // If the controller has ended the job already, everyone knows.
        let _ = self.runtime.block_on(async move { speaker.report_fault(description).await });
    }
}

/// All members of a running job.
pub(crate) struct Members {
    /// In the order of ranks.
    pub(crate) workers: Vec<Worker>,
    server: Arc<ServerAgent>,
    watchers: Vec<JoinHandle<()>>,
}

/// A host that has joined, with its started agent.
struct Started {
    host: String,
    rank: Option<u16>,
    agent: JobAgent,
    generation: u32,
    membership: Membership,
}

impl Members {
    /// Joins every host to the job, and starts its agent once the controller says so.
    ///
    /// # Errors
    /// The controller refuses a host or fails the job, or an agent cannot start.
    pub(crate) async fn join(
        controller: &Remote,
        job: &str,
        token: &[u8],
        hosts: Vec<(String, MemberRole, InProcessPort)>,
    ) -> Result<Self> {
        let mut joining = JoinSet::new();
        for (host, role, port) in hosts {
            let member = JobMember { role, ..JobMember::worker(job, token, &host) };
            joining.spawn(start(controller.clone(), member, port));
        }
        let mut workers = Vec::new();
        let mut server = None;
        let mut watchers = Vec::new();
        while let Some(started) = joining.join_next().await {
            let Started { host, rank, agent, generation, membership } = started??;
            match (&agent, rank) {
                (JobAgent::Worker(agent), Some(rank)) => {
                    let (agent, speaker) = (Arc::clone(agent), membership.speaker());
                    workers.push((rank, Worker { host, agent, speaker, runtime: Handle::current() }));
                }
                (JobAgent::Server(agent), _) => server = Some(Arc::clone(agent)),
                (JobAgent::Worker(_), None) => bail!("{host} was started as a worker without a rank"),
            }
            watchers.push(tokio::spawn(watch(membership, agent, generation)));
        }
        workers.sort_by_key(|(rank, _)| *rank);
        let workers = workers.into_iter().map(|(_, worker)| worker).collect();
        let server = server.ok_or_else(|| anyhow!("no host was started as the job's server"))?;
        Ok(Self { workers, server, watchers })
    }

    /// Slices that the workers have retransmitted so far.
    pub(crate) fn retransmissions(&self) -> Result<u64> {
        self.workers.iter().map(|worker| Ok(worker.agent.stats()?.protocol.retransmitted)).sum()
    }

    /// Slices that each worker has sent so far, without retransmissions.
    pub(crate) fn slices(&self) -> Result<u64> {
        let worker = self.workers.first().context("the job has no workers")?;
        Ok(worker.agent.stats()?.protocol.sent)
    }

    /// The server's counters so far.
    pub(crate) fn at_server(&self) -> Result<AtServer> {
        let stats = self.server.stats()?.protocol;
        Ok(AtServer { contributions: stats.contributions, results: stats.results })
    }

    /// Waits until every member has heard that the job is over, and stops the agents.
    pub(crate) async fn part(self) -> Result<()> {
        for watcher in self.watchers {
            watcher.await.context("a member's watcher panicked")?;
        }
        drop((self.workers, self.server));
        Ok(())
    }
}

/// Joins a host, and waits for the job's start.
async fn start(controller: Remote, member: JobMember, port: InProcessPort) -> Result<Started> {
    let host = member.host.clone();
    let mut membership = Membership::join(&controller, member).await?;
    let config = match membership.next_event().await? {
        JobEvent::Start(config) => config,
        JobEvent::Failed { reason, .. } => bail!("the job failed before it began: {reason}"),
        other => bail!("the job ended before it began: {other:?}"),
    };
    let (rank, agent) = match &config.role {
        Role::Worker { rank, .. } => {
            let agent = WorkerAgent::start(&config, Timers::default(), Box::new(port))?;
            (Some(rank.get()), JobAgent::Worker(Arc::new(agent)))
        }
        Role::Server { .. } => {
            (None, JobAgent::Server(Arc::new(ServerAgent::start(&config, Box::new(port))?)))
        }
    };
    Ok(Started { host, rank, agent, generation: config.generation, membership })
}

/// Ends the agent when the job is over.
async fn watch(mut membership: Membership, agent: JobAgent, generation: u32) {
    let reason = match follow(&mut membership, &agent, generation).await {
        Ok(()) => "the job has ended".to_owned(),
        Err(error) => error.to_string(),
    };
    agent.end(&reason);
}
