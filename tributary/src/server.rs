//! `tributary server`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tributary_host_agent::{JobMember, serve_job};

use crate::agent::ports;
use crate::daemon::{self, DaemonArgs, Stop, WrongUse, required};
use crate::remote;

/// The aggregation server's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// This host, as the topology names it
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// The interface that leads to this host's switch
    #[arg(long, value_name = "INTERFACE")]
    interface: Option<String>,

    /// The controller's address
    #[arg(long, value_name = "HOST:PORT")]
    controller: Option<String>,

    /// A job to serve; may be given often
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    job: Vec<String>,

    /// File with the job's token, as `tributary jobs create` wrote it; one for each --job, in their order
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    token_file: Vec<PathBuf>,
}

/// Serves jobs until they are over or the server is stopped.
///
/// # Errors
/// Wrong settings, an interface that cannot be opened, a job that cannot be joined or that failed.
pub(crate) fn run(args: &DaemonArgs<Settings>) -> Result<()> {
    daemon::run(args, work)
}

async fn work(settings: Settings, mut stop: Stop) -> Result<()> {
    let (jobs, files) = (settings.job, settings.token_file);
    if jobs.is_empty() || jobs.len() != files.len() {
        let problem = format!("{} --job and {} --token-file: each job needs both", jobs.len(), files.len());
        return Err(WrongUse(problem).into());
    }
    let host = required(settings.host, "host")?;
    let controller = remote::endpoint(&required(settings.controller, "controller")?)?;
    let open_port = ports(&required(settings.interface, "interface")?)?;
    let (leave, leaving) = watch::channel(false);
    let mut serving = JoinSet::new();
    for (job, file) in jobs.into_iter().zip(files) {
        let member = JobMember { token: remote::read_token(&file)?, job, host: host.clone() };
        let (controller, open_port, mut leaving) = (controller.clone(), open_port.clone(), leaving.clone());
        serving.spawn(async move {
            let leave = async move {
                // An error means that the server is at its end, too.
                let _ = leaving.wait_for(|leaving| *leaving).await;
                "the server was shut down".to_owned()
            };
            serve_job(&controller, member, &open_port, leave).await
        });
    }
    daemon::ready();
    let mut failed = 0;
    loop {
        tokio::select! {
            over = serving.join_next() => match over {
                Some(Ok(Ok(()))) => tracing::info!("a job is over"),
                Some(Ok(Err(error))) => {
                    tracing::error!(%error, "a job is over before its end");
                    failed += 1;
                }
                Some(Err(error)) => return Err(error.into()),
                None => break,
            },
            () = stop.requested() => drop(leave.send_replace(true)),
        }
    }
    match failed {
        0 => Ok(()),
        1 => bail!("a job failed: see the log"),
        failed => bail!("{failed} jobs failed: see the log"),
    }
}
