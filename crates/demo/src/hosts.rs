//! The job's hosts, each with its daemon: an agent for each worker, and the aggregation server.
//!
//! The daemons start as under `tributary agent` and `tributary server --job`, but open no session with
//! the controller. A session needs a second port for probes of the cable, and an in-process link has
//! only one. So the controller assumes that the cables work.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;
use tributary_host_agent::{
    AgentConfig, AgentDaemon, Limits, OpenPort, RunningAgent, Served, Servers, open_once,
};
use tributary_planner::Plan;
use tributary_protocol::Timers;
use tributary_topology::{NodeKey, Topology};
use tributary_transport::Remote;

use crate::network::DemoNetwork;
use crate::report::AtServer;

/// The most bytes in the folder's path. A socket's path may have 107 bytes, and the socket's name needs
/// a few of them.
const LONGEST_FOLDER: usize = 96;

/// The running daemons.
pub(crate) struct Hosts {
    agents: Vec<RunningAgent>,
    /// The workers in the order of ranks.
    workers: Vec<Worker>,
    servers: Servers,
    served: Served,
    /// The name of the server's host.
    server: String,
    /// The folder of the agents' sockets; dropping it removes the sockets.
    _folder: TempDir,
}

/// The host of a training process, and the socket of its agent.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) host: String,
    /// The socket of the host's agent.
    pub(crate) socket: PathBuf,
}

impl Hosts {
    /// Starts the agents, and the server of this job. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// A host has no link, or a socket cannot be created.
    pub(crate) fn start(
        controller: &Remote,
        (job, token): (&str, &[u8]),
        (topology, plan): (&Topology, &Plan),
        network: &mut DemoNetwork,
    ) -> Result<Self> {
        let mut host = |key: NodeKey| {
            let name = topology[key].name.clone();
            let port = network.take_host_port(key).with_context(|| format!("host {name} has no link"))?;
            anyhow::Ok((name, open_once(port)))
        };
        let folder = tempfile::Builder::new().prefix("tributary-demo-").tempdir();
        let folder = folder.context("cannot make a folder for the agents' sockets: see TMPDIR")?;
        ensure!(
            folder.path().as_os_str().len() <= LONGEST_FOLDER,
            "the folder {} is too long for sockets: set TMPDIR to a shorter one, such as /tmp",
            folder.path().display()
        );
        let (mut agents, mut workers) = (Vec::new(), Vec::new());
        for worker in &plan.workers {
            let (host, open_port) = host(worker.key)?;
            // The socket is named after the rank, because a host's name may be too long for a socket's path.
            let socket = folder.path().join(format!("{}.sock", worker.rank));
            let worker = Worker { host, socket };
            agents.push(start_agent(controller, &worker, open_port).with_context(|| worker.host.clone())?);
            workers.push(worker);
        }
        let (server, open_port) = host(plan.server.key)?;
        let servers = Servers::new(server.clone(), controller.clone(), open_port);
        let served = servers.serve(job, token).context("the job is another server's")?;
        Ok(Self { agents, workers, servers, served, server, _folder: folder })
    }

    /// Returns the workers in the order of ranks.
    pub(crate) fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Waits until the server has finished its part in the job.
    ///
    /// # Errors
    /// The server stopped before the job ended.
    pub(crate) fn served(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let (served, server) = (self.served.clone(), self.server.clone());
        async move { served.over().await.map_err(|reason| anyhow!("{server}: {reason}")) }
    }

    /// Returns the server's current counters.
    pub(crate) async fn at_server(&self) -> Result<AtServer> {
        let servers = self.servers.clone();
        // The call waits for the server's thread, so it runs on a blocking thread.
        let all = tokio::task::spawn_blocking(move || servers.stats()).await?;
        let (_, stats) = all.first().with_context(|| format!("{} serves no job", self.server))?;
        Ok(AtServer { contributions: stats.protocol.contributions, results: stats.protocol.results })
    }

    /// Stops all daemons after the end of the job.
    pub(crate) async fn stop(self) {
        for agent in self.agents {
            agent.shutdown().await;
        }
        self.servers.finished().await;
    }
}

fn start_agent(controller: &Remote, worker: &Worker, open_port: OpenPort) -> Result<RunningAgent> {
    let config = AgentConfig {
        host: worker.host.clone(),
        controller: controller.clone(),
        open_port,
        socket: worker.socket.clone(),
        timers: Timers::default(),
        limits: Limits::of_this_machine(),
    };
    Ok(AgentDaemon::start(config)?)
}
