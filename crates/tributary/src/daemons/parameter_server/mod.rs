//! The parameter server's part of `tributary server`.

mod reduction;
mod reductions;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use tokio::net::TcpListener;
use toml::{Table, Value};
use tributary_ps::server::{GroupFabric, JobSettings, JobSpec, JobStats, ParameterServer, View, WorkerStats};
use tributary_transport::ServerTls;

use crate::daemons::metrics::{MetricsPage, labels};
use crate::daemons::service::{WrongUse, in_words};
use crate::files;
use crate::options::remote;
pub(crate) use reductions::Reductions;

/// The key for the path of the token in a job's file. All other keys are fields of [`JobSpec`].
const TOKEN_KEY: &str = "token-file";

/// A parameter server that has opened its port, but does not serve yet.
pub(crate) struct Listening {
    server: ParameterServer,
    listener: TcpListener,
    reductions: Option<Arc<Reductions>>,
    tls: Option<ServerTls>,
}

/// Reads the jobs' files and checkpoints, and opens the port. With `reductions`, the fabric aggregates
/// the groups of policy A2S.
///
/// # Errors
/// [`WrongUse`]: a job file is invalid. Other errors: a file or checkpoint cannot be used, or the
/// address is in use.
pub(crate) async fn listen(
    address: SocketAddr,
    jobs: &[PathBuf],
    checkpoints: Option<&Path>,
    reductions: Option<Reductions>,
    tls: Option<ServerTls>,
) -> Result<Listening> {
    if jobs.is_empty() {
        let problem = "--ps-listen without --ps-job: give a job's file, as in docs/parameter-server.md";
        return Err(WrongUse(problem.to_owned()).into());
    }
    let jobs = jobs.iter().map(|file| load(file)).collect::<Result<_>>()?;
    if let Some(folder) = checkpoints {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    } else {
        tracing::warn!("no --ps-checkpoints: a restart of this server restarts the training");
    }
    if reductions.is_none() {
        tracing::info!("no --host, --interface and --controller: all gradients come over TCP");
    }
    let reductions = reductions.map(Arc::new);
    let fabric = reductions.clone().map(|reductions| reductions as Arc<dyn GroupFabric>);
    if tls.is_none() && !address.ip().is_loopback() {
        tracing::warn!(
            ps_listen = %address,
            "the parameter server uses plain text: give --tls-ca, --tls-cert and --tls-key, or keep this address on a \
             separate network"
        );
    }
    let server = ParameterServer::start(jobs, checkpoints, fabric.as_ref())?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen for workers on {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "the parameter server is up");
    Ok(Listening { server, listener, reductions, tls })
}

impl Listening {
    pub(crate) fn view(&self) -> View {
        self.server.view()
    }

    /// Serves until `stop` completes.
    ///
    /// # Errors
    /// The errors of [`ParameterServer::serve`].
    pub(crate) async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let served = self.server.serve(self.listener, self.tls, stop).await;
        if let Some(reductions) = self.reductions {
            reductions.finished().await;
        }
        Ok(served?)
    }
}

/// Reads a job from its file.
fn load(file: &Path) -> Result<JobSettings> {
    let name = file.display();
    let text = files::read_text(file)?;
    let mut table: Table = text.parse().map_err(|error| anyhow!("{name}: {error}"))?;
    let wrong = |problem: String| WrongUse(format!("{name}: {problem}"));
    let token = match table.remove(TOKEN_KEY) {
        None => None,
        Some(Value::String(path)) => {
            // The check refuses a pipe. The server would wait for the pipe's other end without any message.
            files::check_input(Path::new(&path))?;
            Some(remote::read_token(Path::new(&path))?)
        }
        Some(_) => return Err(wrong(format!("{TOKEN_KEY} is not a file's name")).into()),
    };
    let spec: JobSpec = table.try_into().map_err(|error: toml::de::Error| wrong(in_words(&error)))?;
    spec.check().map_err(|error| wrong(error.to_string()))?;
    Ok(JobSettings { spec, token })
}

/// Adds the counters of the jobs to a page.
pub(crate) fn tell(page: &mut MetricsPage, view: &View) {
    let jobs = view.stats();
    let mut counter = |name, help, count: fn(&JobStats) -> u64| {
        page.counter(name, help, jobs.iter().map(|(job, stats)| (labels([("job", job)]), count(stats))));
    };
    counter("tributary_ps_updates", "Updates of the parameters", |stats| stats.updates);
    counter("tributary_ps_checkpoints", "Checkpoints written", |stats| stats.checkpoints);
    counter("tributary_ps_checkpoint_failures", "Checkpoints that could not be written", |stats| {
        stats.checkpoint_failures
    });
    counter("tributary_ps_refused", "Messages that could not be used", |stats| stats.refused);
    counter("tributary_ps_fabric_rounds", "Updates by sums of the fabric", |stats| stats.fabric_rounds);
    counter("tributary_ps_fabric_zeros", "Zeros in place of late gradients", |stats| stats.fabric_zeros);
    counter("tributary_ps_fabric_fallbacks", "Updates whose sums did not arrive over the fabric", |stats| {
        stats.fabric_fallbacks
    });
    let mut gauge = |name, help, value: fn(&JobStats) -> f64| {
        page.gauge(name, help, jobs.iter().map(|(job, stats)| (labels([("job", job)]), value(stats))));
    };
    gauge("tributary_ps_epoch", "Epochs that every worker has finished", |stats| stats.epoch as f64);
    gauge("tributary_ps_staleness", "Mean updates between pull and use of a gradient", JobStats::staleness);
    gauge("tributary_ps_diverged", "1 if a parameter is not finite", |stats| stats.diverged.into());
    workers(page, &jobs);
}

/// Adds the counters of each worker to a page.
fn workers(page: &mut MetricsPage, jobs: &[(String, JobStats)]) {
    let all = || {
        jobs.iter().flat_map(|(job, stats)| {
            stats.workers.iter().map(move |(worker, own)| {
                let labels = labels([("job", job), ("worker", &worker.to_string())]);
                (labels, own, stats.group.contains(worker))
            })
        })
    };
    let mut counter = |name, help, count: fn(&WorkerStats) -> u64| {
        page.counter(name, help, all().map(|(labels, worker, _)| (labels, count(worker))));
    };
    counter("tributary_ps_gradients", "Gradients used", |worker| worker.gradients);
    counter("tributary_ps_staleness_updates", "Updates between pull and use, over all gradients", |worker| {
        worker.staleness
    });
    let mut gauge = |name, help, value: fn(&WorkerStats, bool) -> f64| {
        page.gauge(name, help, all().map(|(labels, worker, in_group)| (labels, value(worker, in_group))));
    };
    gauge("tributary_ps_connected", "1 if the worker is connected", |worker, _| worker.connected.into());
    gauge("tributary_ps_in_group", "1 if the worker is in the synchronous group", |_, in_group| {
        in_group.into()
    });
    gauge("tributary_ps_idle_seconds", "Time that the worker has waited", |worker, _| {
        worker.idle.as_secs_f64()
    });
    gauge("tributary_ps_busy_seconds", "Time that the worker has not waited", |worker, _| {
        worker.busy.as_secs_f64()
    });
}
