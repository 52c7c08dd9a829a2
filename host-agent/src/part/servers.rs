//! The jobs that a host serves. Each job has its own aggregation server.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tributary_api::{JobConfig, v1};
use tributary_protocol::ServerStats;
use tributary_transport::Remote;

use super::{OpenPort, serve_job};
use crate::AgentStats;
use crate::error::JobError;
use crate::membership::JobMember;
use crate::server::ServerAgent;

/// The jobs that this host serves. Clones refer to the same jobs.
#[derive(Clone)]
pub struct Servers(Arc<Shared>);

struct Shared {
    host: String,
    controller: Remote,
    open_port: OpenPort,
    state: Mutex<ServedJobs>,
    /// The reason to leave all jobs; `None` while the host serves them.
    leaving: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct ServedJobs {
    /// The served jobs, by name; `None` if another part of this process serves the job.
    served: BTreeMap<String, Option<Served>>,
    agents: Vec<(String, Weak<ServerAgent>)>,
    work: JoinSet<()>,
}

/// A served job.
#[derive(Debug, Clone)]
pub struct Served {
    token: Vec<u8>,
    end: watch::Receiver<Option<Result<(), String>>>,
}

impl Served {
    /// Waits until the job is over or another host serves it.
    ///
    /// # Errors
    /// The reason why the job was over before its end.
    pub async fn over(mut self) -> Result<(), String> {
        match self.end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Ok(())),
            Err(_) => Err("its task has ended: this is a bug, please report it".to_owned()),
        }
    }
}

/// A job that another part of this process serves, as long as this value lives.
pub struct Reserved {
    servers: Servers,
    job: String,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.servers.state().served.remove(&self.job);
    }
}

impl Servers {
    /// Creates the servers of the host with this name. Each job opens its own port.
    pub fn new(host: String, controller: Remote, open_port: OpenPort) -> Self {
        let (state, leaving) = (Mutex::default(), watch::Sender::new(None));
        Self(Arc::new(Shared { host, controller, open_port, state, leaving }))
    }

    /// Starts to serve a job until the job is over, unless this host already serves it. Returns `None` if
    /// the job is [reserved](Self::reserve). Must be called in a tokio runtime.
    pub fn serve(&self, job: &str, token: &[u8]) -> Option<Served> {
        let mut state = self.state();
        // Removes finished tasks.
        while state.work.try_join_next().is_some() {}
        match state.served.get(job) {
            Some(None) => return None,
            Some(Some(served)) if served.token == token => return Some(served.clone()),
            // Another token belongs to another job with the same name. The earlier job is about to end.
            _ => {}
        }
        let (tell, end) = watch::channel(None);
        let served = Served { token: token.to_vec(), end };
        state.served.insert(job.to_owned(), Some(served.clone()));
        let (servers, job, token) = (self.clone(), job.to_owned(), token.to_vec());
        state.work.spawn(async move {
            tracing::info!(job, "this host is to serve a job");
            let end = servers.serve_to_the_end(&job, &token).await;
            servers.forget(&job, &token);
            match &end {
                Ok(()) => tracing::info!(job, "a job is over, or served by another host"),
                Err(error) => tracing::error!(job, %error, "a job is over before its end"),
            }
            tell.send_replace(Some(end.map_err(|error| error.to_string())));
        });
        Some(served)
    }

    /// Removes a job that the host does not serve any more.
    fn forget(&self, job: &str, token: &[u8]) {
        let mut state = self.state();
        if state
            .served
            .get(job)
            .is_some_and(|served| served.as_ref().is_some_and(|served| served.token == token))
        {
            state.served.remove(job);
        }
    }

    /// Reserves the job for another server of this process. [`serve`](Self::serve) then ignores the job.
    pub fn reserve(&self, job: &str) -> Reserved {
        self.state().served.insert(job.to_owned(), None);
        Reserved { servers: self.clone(), job: job.to_owned() }
    }

    /// Includes the server of a reserved job in the [`stats`](Self::stats).
    pub fn add(&self, job: &str, agent: &Arc<ServerAgent>) {
        self.state().agents.push((job.to_owned(), Arc::downgrade(agent)));
    }

    /// Returns the counters of the running servers, with the names of their jobs. It blocks on the
    /// servers' threads, so do not call it from async code.
    pub fn stats(&self) -> Vec<(String, AgentStats<ServerStats>)> {
        // A server that has ended in the meantime is left out.
        self.at_work().filter_map(|(job, agent)| Some((job, agent.stats().ok()?))).collect()
    }

    /// Returns, for each running server, the members that request a result.
    pub(crate) async fn report(&self) -> Vec<v1::ServedJob> {
        let mut report = Vec::new();
        for (job, agent) in self.at_work() {
            if let Ok(ranks) = agent.asking().await {
                let asking_ranks = ranks.into_iter().map(|rank| rank.get().into()).collect();
                report.push(v1::ServedJob { job, asking_ranks });
            }
        }
        report
    }

    fn at_work(&self) -> impl Iterator<Item = (String, Arc<ServerAgent>)> + use<> {
        let agents = {
            let mut state = self.state();
            state.agents.retain(|(_, agent)| agent.strong_count() > 0);
            state.agents.clone()
        };
        agents.into_iter().filter_map(|(job, agent)| Some((job, agent.upgrade()?)))
    }

    /// Leaves all jobs. Waits until they are over for this host.
    pub async fn leave_all(&self, reason: &str) {
        self.0.leaving.send_replace(Some(reason.to_owned()));
        self.finished().await;
    }

    /// Waits until all jobs are over that this host served at the time of the call.
    pub async fn finished(&self) {
        let work = std::mem::take(&mut self.state().work);
        work.join_all().await;
    }

    async fn serve_to_the_end(&self, job: &str, token: &[u8]) -> Result<(), JobError> {
        let Shared { host, controller, open_port, leaving, .. } = &*self.0;
        let mut leaving = leaving.subscribe();
        let leave = async move {
            let reason = leaving.wait_for(Option::is_some).await;
            reason
                .map_or_else(|_| "its daemon is gone".to_owned(), |reason| reason.clone().unwrap_or_default())
        };
        let start = |config: &JobConfig, ports| {
            let agent = Arc::new(ServerAgent::start_threads(config, ports)?);
            self.add(&config.name, &agent);
            Ok(agent)
        };
        serve_job(controller, JobMember::server(job, token, host), open_port, leave, start).await
    }

    fn state(&self) -> MutexGuard<'_, ServedJobs> {
        self.0.state.lock()
    }
}
