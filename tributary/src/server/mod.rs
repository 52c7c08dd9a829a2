//! `tributary server`: the root of all-reduces, and the parameter server.

mod agents;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tributary_api::JobConfig;
use tributary_host_agent::{JobError, JobMember, ServerAgent, serve_job};
use tributary_ps::server::View;

use crate::daemon::{self, DaemonArgs, Stop, WrongUse};
use crate::member::{Member, MemberSettings};
use crate::metrics::{self, Page};
use crate::parameter_server::{self, Listening, Reductions};
use crate::remote;
pub(crate) use agents::Agents;

/// The aggregation server's options.
pub(crate) type Settings = MemberSettings<ServerArgs>;

/// The aggregation server's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ServerArgs {
    /// A job to serve; may be given often
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    job: Vec<String>,

    /// File with the job's token, as `tributary jobs create` wrote it; one for each --job, in their order
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    token_file: Vec<PathBuf>,

    /// Address that workers find the parameter server at [default: there is none]
    #[arg(long, value_name = "ADDR:PORT")]
    ps_listen: Option<SocketAddr>,

    /// File with a job of the parameter server; may be given often
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ps_job: Vec<PathBuf>,

    /// Folder of the parameter server's checkpoints [default: none are written]
    #[arg(long, value_name = "FOLDER")]
    ps_checkpoints: Option<PathBuf>,

    /// Address that Prometheus finds metrics at, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Serves jobs until they are over, and parameters until the server is stopped.
///
/// # Errors
/// Wrong settings, an interface that cannot be opened, a job that cannot be joined or that failed.
pub(crate) fn run(args: &DaemonArgs<Settings>) -> Result<()> {
    daemon::run(args, work)
}

async fn work(settings: Settings, mut stop: Stop) -> Result<()> {
    let Settings { member, own: settings } = settings;
    check(&settings)?;
    let agents = Agents::default();
    let listen = match settings.ps_listen {
        None => None,
        Some(address) => Some((address, member.server_tls()?)),
    };
    // Reductions for a parameter server are worth having, and not needed.
    let wanted = !settings.job.is_empty() || member.is_given();
    let member = if wanted { Some(Arc::new(member.member()?)) } else { None };
    let parameters = match listen {
        None => None,
        Some((address, tls)) => {
            let reductions = member.clone().map(|member| Reductions::new(member, agents.clone()));
            let checkpoints = settings.ps_checkpoints.as_deref();
            let jobs = &settings.ps_job;
            Some(parameter_server::listen(address, jobs, checkpoints, reductions, tls).await?)
        }
    };
    let view = parameters.as_ref().map(Listening::view);
    let (leave, leaving) = watch::channel(false);
    let (watched, metrics) = (agents.clone(), settings.metrics);
    let reducing = match member {
        Some(member) => reduce(&Server { member, leaving: leaving.clone(), agents }, settings)?,
        None => JoinSet::new(),
    };
    let _metrics = metrics::serve(metrics, move || collect(watched.clone(), view.clone())).await?;
    let serving = async move {
        match parameters {
            Some(parameters) => parameters.serve(left(leaving)).await,
            None => Ok(()),
        }
    };
    daemon::ready();
    let mut all_over = std::pin::pin!(async { tokio::join!(wait_for_all(reducing), serving) });
    let (reduced, served) = tokio::select! {
        over = &mut all_over => over,
        () = stop.requested() => {
            leave.send_replace(true);
            all_over.await
        }
    };
    reduced.and(served)
}

/// Whether there is anything to serve, and all that it takes.
fn check(settings: &ServerArgs) -> Result<()> {
    let (jobs, files) = (settings.job.len(), settings.token_file.len());
    if jobs != files || (jobs == 0 && settings.ps_listen.is_none()) {
        let problem = format!(
            "{jobs} --job and {files} --token-file: each job needs both (a parameter server needs --ps-listen)"
        );
        return Err(WrongUse(problem).into());
    }
    if settings.ps_listen.is_none() && (!settings.ps_job.is_empty() || settings.ps_checkpoints.is_some()) {
        return Err(WrongUse("--ps-job and --ps-checkpoints need --ps-listen".to_owned()).into());
    }
    Ok(())
}

/// Serves the all-reduce jobs from now on, if there are any.
fn reduce(server: &Server, settings: ServerArgs) -> Result<JoinSet<Result<(), JobError>>> {
    let mut serving = JoinSet::new();
    for (job, file) in settings.job.into_iter().zip(settings.token_file) {
        serving.spawn(server.clone().serve(job, remote::read_token(&file)?));
    }
    Ok(serving)
}

/// Returns when the server is to stop.
async fn left(mut leaving: watch::Receiver<bool>) {
    // An error means that the server is at its end, too.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// What the jobs have in common.
#[derive(Clone)]
struct Server {
    member: Arc<Member>,
    /// Whether the server is to stop.
    leaving: watch::Receiver<bool>,
    agents: Agents,
}

impl Server {
    /// Serves one job until it is over, or the server is to stop.
    async fn serve(self, job: String, token: Vec<u8>) -> Result<(), JobError> {
        let Self { member, leaving, agents } = self;
        let Member { host, controller, open_port, .. } = &*member;
        let leave = async move {
            left(leaving).await;
            "the server was shut down".to_owned()
        };
        let start = |config: &JobConfig, port| {
            let agent = Arc::new(ServerAgent::start(config, port)?);
            agents.add(&config.name, &agent);
            Ok(agent)
        };
        let member = JobMember { job, token, host: host.clone() };
        serve_job(controller, member, open_port, leave, start).await
    }
}

/// Waits until all jobs are over.
///
/// # Errors
/// Jobs failed.
async fn wait_for_all(mut serving: JoinSet<Result<(), JobError>>) -> Result<()> {
    let mut failed = 0;
    while let Some(over) = serving.join_next().await {
        match over? {
            Ok(()) => tracing::info!("a job is over"),
            Err(error) => {
                tracing::error!(%error, "a job is over before its end");
                failed += 1;
            }
        }
    }
    match failed {
        0 => Ok(()),
        1 => bail!("a job failed: see the log"),
        failed => bail!("{failed} jobs failed: see the log"),
    }
}

/// What the server has counted for each job that is under way.
async fn collect(agents: Agents, parameters: Option<View>) -> Page {
    // Waiting for the agents' threads would hold up everything else here.
    let all = tokio::task::spawn_blocking(move || agents.stats()).await.unwrap_or_default();
    let mut page = Page::default();
    agents::tell(&mut page, &all);
    if let Some(parameters) = parameters {
        parameter_server::tell(&mut page, &parameters);
    }
    page
}
