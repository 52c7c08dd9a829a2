//! The agent of a host. It takes part in jobs and in trainings with parameter servers, for the host's
//! training processes.
//!
//! Processes connect to it over a Unix socket ([`tributary_api::agent`]) and pass their tensors in shared memory. So
//! only the agent needs the right to send and receive frames.

mod abandoned;
mod account;
mod arrivals;
mod budget;
mod collective;
mod collectives;
mod connections;
mod gathering;
mod host_fabric;
mod jobs;
mod joint;
mod kept;
mod limits;
mod member;
mod messages;
mod process;
mod profiles;
mod reducing;
mod reductions;
mod results;
mod segment;
mod segments;
mod service;
mod session;
mod socket;
mod striped;
mod training;
mod under_way;
mod waiting;

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tributary_api::agent::v1::agent_server::AgentServer;
use tributary_api::v1;
use tributary_protocol::{Timers, WorkerStats};
use tributary_transport::Remote;
use tributary_wire::Rank;

use crate::AgentStats;
use crate::controller_session::{ControllerSession, ControllerSessionConfig, Duties, Progress};
use crate::part::{OpenPort, Servers};
use crate::worker::WorkerAgent;
use abandoned::Cleaner;
use budget::Budget;
pub use collectives::{CollectiveAmount, CollectiveKind};
use jobs::Jobs;
pub use limits::{Limits, MAX_SESSIONS};
use member::Member;
use service::Service;
use session::Sessions;
pub use socket::SocketError;
use socket::SocketFile;

/// Time that processes may take to close their connections when the agent stops.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// The configuration of an agent.
pub struct AgentConfig {
    /// This host's name in the topology.
    pub host: String,
    /// The controller's API.
    pub controller: Remote,
    /// Opens the port that leads to this host's switch.
    pub open_port: OpenPort,
    /// The path of the socket for training processes. The socket's user and group may connect.
    pub socket: PathBuf,
    /// The timers for retransmissions and for requests of missing results.
    pub timers: Timers,
    /// The resources that the agent may hold for training processes.
    pub limits: Limits,
}

/// Starts agents.
#[derive(Debug)]
pub struct AgentDaemon;

/// A running agent.
pub struct RunningAgent {
    jobs: Arc<Jobs>,
    servers: Servers,
    sessions: Arc<Sessions>,
    cleaner: Cleaner,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
    failure: watch::Receiver<Option<String>>,
    /// The file is removed when the agent is dropped.
    _socket: SocketFile,
}

impl AgentDaemon {
    /// Opens the socket and starts to serve training processes. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`SocketError`] if another agent has the socket, or if the socket cannot be created.
    pub fn start(config: AgentConfig) -> Result<RunningAgent, SocketError> {
        let AgentConfig { host, controller, open_port, socket, timers, limits } = config;
        let (listener, socket) = socket::listen(&socket)?;
        let servers = Servers::new(host.clone(), controller.clone(), Arc::clone(&open_port));
        let budget = Budget::new(limits);
        let jobs = Arc::new(Jobs::new(host, controller, open_port, timers, Arc::clone(&budget)));
        let (stop, stopped) = oneshot::channel::<()>();
        let cleaner = Cleaner::start();
        let sessions = Arc::new(Sessions::new(cleaner.look()));
        let incoming = connections::incoming(listener, Arc::clone(&budget));
        let service = Service { budget, jobs: Arc::clone(&jobs), sessions: Arc::clone(&sessions) };
        let service = AgentServer::new(service).max_decoding_message_size(connections::MESSAGE_BYTES);
        let serving = Server::builder()
            .max_concurrent_streams(connections::STREAMS)
            .http2_max_header_list_size(connections::HEADER_BYTES)
            .initial_stream_window_size(connections::WINDOW_BYTES)
            .initial_connection_window_size(connections::WINDOW_BYTES)
            .serve_with_incoming_shutdown(service, incoming, async move {
                // The sender sends nothing. It is dropped when the agent must stop.
                let _ = stopped.await;
            });
        let (failed, failure) = watch::channel(None);
        let server = tokio::spawn(async move {
            if let Err(error) = serving.await {
                failed.send_replace(Some(error.to_string()));
            }
        });
        let stop = Some(stop);
        Ok(RunningAgent { jobs, servers, sessions, cleaner, stop, server, failure, _socket: socket })
    }
}

/// A view of an agent's counters that does not keep the agent alive.
#[derive(Clone)]
pub struct AgentObserver(Weak<Jobs>);

/// The counters of one job, counted since the job started on this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStats {
    /// The job's name.
    pub job: String,
    /// This host's rank in the job.
    pub rank: Rank,
    /// The counters.
    pub stats: AgentStats<WorkerStats>,
    /// The collectives that the job's processes on this host have reported.
    pub collectives: Vec<(CollectiveKind, CollectiveAmount)>,
}

impl AgentObserver {
    /// Returns the counters of all running jobs. It blocks on the agents' threads, so do not call it from
    /// async code.
    pub fn stats(&self) -> Vec<JobStats> {
        let running = self.0.upgrade().map(|jobs| jobs.running()).unwrap_or_default();
        // An agent that has ended in the meantime is left out.
        let stats = |(member, agent): (Arc<Member>, Arc<WorkerAgent>)| {
            let (rank, stats) = agent.call_blocking(|driver| (driver.state.rank(), driver.stats())).ok()?;
            Some(JobStats { job: member.job.clone(), rank, stats, collectives: member.collectives.amounts() })
        };
        running.into_iter().filter_map(stats).collect()
    }
}

impl RunningAgent {
    /// Returns a view of the agent's counters.
    pub fn observer(&self) -> AgentObserver {
        AgentObserver(Arc::downgrade(&self.jobs))
    }

    /// Returns the aggregation servers that this host runs by order of the controller.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Starts this host's session with the controller. Must be called in a tokio runtime.
    pub fn open_session(&self, config: ControllerSessionConfig) -> ControllerSession {
        let duties = AgentDuties { jobs: Arc::downgrade(&self.jobs), servers: self.servers.clone() };
        ControllerSession::start(config, Arc::new(duties))
    }

    /// Waits until the socket fails, so that the agent cannot serve processes any more. Returns the
    /// reason.
    pub async fn failed(&self) -> String {
        self.failure
            .clone()
            .wait_for(Option::is_some)
            .await
            .map_or_else(|_| "its task has ended".to_owned(), |failure| failure.clone().unwrap_or_default())
    }

    /// Leaves all trainings and all jobs, and stops. Does not wait long for a controller that does not
    /// answer.
    pub async fn shutdown(mut self) {
        let reason = "its agent was shut down";
        self.sessions.shut_down();
        tokio::join!(self.jobs.leave_all(reason), self.servers.leave_all(reason));
        self.stop = None;
        if tokio::time::timeout(STOP_PATIENCE, &mut self.server).await.is_err() {
            self.server.abort();
        }
        self.cleaner.finish().await;
    }
}

/// The agent's reports to the controller, and the orders that it carries out.
struct AgentDuties {
    jobs: Weak<Jobs>,
    servers: Servers,
}

#[tonic::async_trait]
impl Duties for AgentDuties {
    async fn progress(&self) -> Progress {
        let running = self.jobs.upgrade().map(|jobs| jobs.running()).unwrap_or_default();
        let mut jobs = Vec::new();
        for (member, agent) in running {
            // An agent that has ended in the meantime is left out.
            if let Ok(progress) = agent.progress().await {
                jobs.push(v1::JobProgress { job: member.job.clone(), ..progress });
            }
        }
        Progress { jobs, served: self.servers.report().await }
    }

    fn serve(&self, job: &str, token: &[u8]) {
        Duties::serve(&self.servers, job, token);
    }
}
