//! `tributary server`: the aggregation server, which is the root of all-reduces, and the parameter
//! server.

mod counters;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tributary_host_agent::{ControllerSession, Served, Servers};
use tributary_ps::server::View;

use crate::daemons::member::{DaemonRole, Member, MemberSettings, be_welcomed, reload_certificates};
use crate::daemons::metrics::{self, MetricsPage};
use crate::daemons::parameter_server::{self, Listening, Reductions};
use crate::daemons::service::{self, DaemonArgs, Reload, Stop, WrongUse};
use crate::options::remote;
pub(crate) use counters::tell;

/// The aggregation server's options.
pub(crate) type ServerSettings = MemberSettings<ServerArgs>;

/// The aggregation server's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ServerArgs {
    /// A job to serve; may be repeated. With this option, the server ends when all of these jobs have
    /// ended. Without it, the server serves the jobs that the controller assigns to it
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    job: Vec<String>,

    /// File with the job's token, as `tributary jobs create` wrote it; one for each --job, in their order
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    token_file: Vec<PathBuf>,

    /// Address at which workers reach the parameter server [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    ps_listen: Option<SocketAddr>,

    /// File with a job of the parameter server; may be repeated
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ps_job: Vec<PathBuf>,

    /// Folder of the parameter server's checkpoints [default: none are written]
    #[arg(long, value_name = "FOLDER")]
    ps_checkpoints: Option<PathBuf>,

    /// Address at which Prometheus reads metrics, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Serves the given jobs until they end. Without given jobs, serves the jobs that the controller
/// assigns to this host, until a signal stops the server. In both cases also runs the parameter server,
/// if it has jobs.
///
/// # Errors
/// Settings are wrong, the interface cannot be opened, the controller refuses this host, or a job
/// failed or cannot be joined.
pub(crate) fn run(args: &DaemonArgs<ServerSettings>) -> Result<()> {
    service::run(args, work)
}

async fn work(settings: ServerSettings, mut stop: Stop) -> Result<()> {
    let ServerSettings { member, own: settings } = settings;
    let is_member = member.is_given();
    check(&settings, is_member)?;
    let listen = match settings.ps_listen {
        None => None,
        Some(address) => Some((address, member.server_tls()?)),
    };
    // A parameter server also works without reductions, but is faster with them.
    let wanted = !settings.job.is_empty() || is_member;
    let member = if wanted { Some(Arc::new(member.member()?)) } else { None };
    let controller = member.as_deref().map(|member| member.controller.clone());
    let served = listen.as_ref().and_then(|(_, tls)| tls.clone());
    let _reloading = Reload::new()?.in_background(move || {
        if let Some(controller) = &controller {
            reload_certificates(controller);
        }
        if let Some(served) = &served {
            service::note("the parameter server's certificates", served.reload());
        }
    });
    let servers = member.as_deref().map(servers_of);
    let parameters = match listen {
        None => None,
        Some((address, tls)) => {
            let fabric = member.clone().zip(servers.clone());
            let reductions = fabric.map(|(member, servers)| Reductions::new(member, servers));
            let checkpoints = settings.ps_checkpoints.as_deref();
            let jobs = &settings.ps_job;
            Some(parameter_server::listen(address, jobs, checkpoints, reductions, tls).await?)
        }
    };
    let view = parameters.as_ref().map(Listening::view);
    let (watched, metrics) = (servers.clone(), settings.metrics);
    let _metrics = metrics::serve(metrics, move || collect(watched.clone(), view.clone())).await?;
    let tokens =
        settings.token_file.iter().map(|file| remote::read_token(file)).collect::<Result<Vec<_>>>()?;
    let session = match (&member, &servers) {
        (Some(member), Some(servers)) => {
            Some(ControllerSession::of_servers(member.session_config(DaemonRole::Server), servers.clone()))
        }
        _ => None,
    };
    if let Some(session) = &session
        && !be_welcomed(session, &mut stop).await?
    {
        return Ok(());
    }
    let given = settings.job.iter().zip(&tokens);
    let given = given.filter_map(|(job, token)| servers.as_ref()?.serve(job, token)).collect();
    service::ready();
    serve(given, servers, parameters, stop).await
}

/// Returns the servers of this host, for given jobs and for jobs that the controller assigns.
fn servers_of(member: &Member) -> Servers {
    Servers::new(member.host.clone(), member.controller.clone(), Arc::clone(&member.open_port))
}

/// Serves until the given jobs end. Without given jobs, serves until a signal stops the server.
async fn serve(
    given: Vec<Served>,
    servers: Option<Servers>,
    parameters: Option<Listening>,
    mut stop: Stop,
) -> Result<()> {
    let (leave, leaving) = watch::channel(false);
    let for_ever = given.is_empty() && servers.is_some();
    let reducing = async {
        let reduced = wait_for_all(given).await;
        match &servers {
            Some(_) if for_ever => left(leaving.clone()).await,
            // The controller may have assigned further jobs to this host, so wait for their end.
            Some(servers) => servers.finished().await,
            None => {}
        }
        reduced
    };
    let serving = async {
        match parameters {
            Some(parameters) => parameters.serve(left(leaving.clone())).await,
            None => Ok(()),
        }
    };
    let mut all_over = std::pin::pin!(async { tokio::join!(reducing, serving) });
    let (reduced, served) = tokio::select! {
        over = &mut all_over => over,
        () = stop.requested() => {
            leave.send_replace(true);
            let leaving = async {
                if let Some(servers) = &servers {
                    servers.leave_all("the server was shut down").await;
                }
            };
            tokio::join!(leaving, all_over).1
        }
    };
    reduced.and(served)
}

/// Checks that the server has something to serve, and that the settings are complete.
fn check(settings: &ServerArgs, is_member: bool) -> Result<()> {
    let (jobs, files) = (settings.job.len(), settings.token_file.len());
    if jobs != files {
        let problem = format!("{jobs} --job and {files} --token-file: each job needs both");
        return Err(WrongUse(problem).into());
    }
    if !is_member && jobs == 0 && settings.ps_listen.is_none() {
        let problem = "nothing to serve: jobs of a controller need --host, --interface and --controller, and a \
                       parameter server needs --ps-listen";
        return Err(WrongUse(problem.to_owned()).into());
    }
    if settings.ps_listen.is_none() && (!settings.ps_job.is_empty() || settings.ps_checkpoints.is_some()) {
        return Err(WrongUse("--ps-job and --ps-checkpoints need --ps-listen".to_owned()).into());
    }
    Ok(())
}

/// Returns when the server must stop.
async fn left(mut leaving: watch::Receiver<bool>) {
    // An error means that the sender is gone because the server stops.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// Waits until all jobs have ended.
///
/// # Errors
/// Some jobs failed.
async fn wait_for_all(given: Vec<Served>) -> Result<()> {
    let mut failed = 0;
    for job in given {
        // The log contains the reason.
        failed += usize::from(job.over().await.is_err());
    }
    match failed {
        0 => Ok(()),
        1 => bail!("a job failed: see the log"),
        failed => bail!("{failed} jobs failed: see the log"),
    }
}

/// Collects the counters of each running job.
async fn collect(servers: Option<Servers>, parameters: Option<View>) -> MetricsPage {
    // The call waits for the servers' threads, so it runs on a blocking thread.
    let stats = move || servers.map(|servers| servers.stats()).unwrap_or_default();
    let all = tokio::task::spawn_blocking(stats).await.unwrap_or_default();
    let mut page = MetricsPage::default();
    tell(&mut page, &all);
    if let Some(parameters) = parameters {
        parameter_server::tell(&mut page, &parameters);
    }
    page
}
