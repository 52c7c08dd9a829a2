//! `tributary agent`.

mod limits;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_host_agent::{
    AgentConfig, AgentDaemon, AgentObserver, CollectiveAmount, CollectiveKind, JobStats, Servers,
};
use tributary_protocol::Timers;

use crate::daemons::member::{DaemonRole, Member, MemberSettings, be_welcomed, reload_certificates};
use crate::daemons::metrics::{self, MetricsPage, labels};
use crate::daemons::server;
use crate::daemons::service::{self, DaemonArgs, Reload, SettingsFile, Stop};
use limits::LimitArgs;
use tributary_cli::options::DEFAULT_SOCKET;

/// The agent's settings: the settings of every member, and the agent's own.
pub(crate) type AgentSettings = MemberSettings<AgentArgs>;

/// The agent's own options.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    endpoints: EndpointArgs,

    #[command(flatten)]
    limits: LimitArgs,
}

impl service::DaemonSettings for AgentArgs {
    fn merge(&self, file: SettingsFile) -> Result<Self> {
        let (limits, endpoints) = file.split::<LimitArgs>();
        Ok(Self { endpoints: self.endpoints.merge(endpoints)?, limits: self.limits.merge(limits)? })
    }
}

/// The addresses at which others reach the agent.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct EndpointArgs {
    /// The Unix socket that training processes connect to [default: /run/tributary/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Address at which Prometheus reads metrics, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Runs this host's agent until a signal stops it.
///
/// # Errors
/// Settings are wrong, the interface cannot be opened, another agent uses the socket, or the controller
/// refuses this host.
pub(crate) fn run(args: &DaemonArgs<AgentSettings>) -> Result<()> {
    service::run(args, work)
}

async fn work(settings: AgentSettings, mut stop: Stop) -> Result<()> {
    let member = settings.member.member()?;
    let certificates = member.controller.clone();
    let _reloading = Reload::new()?.in_background(move || reload_certificates(&certificates));
    let session_config = member.session_config(DaemonRole::Agent);
    let Member { host, interface, open_port, controller, .. } = member;
    let AgentArgs { endpoints, limits } = settings.own;
    let socket = endpoints.socket.unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET));
    let (timers, limits) = (Timers::default(), limits.limits()?);
    tracing::info!(?limits, "limits of training processes");
    let config =
        AgentConfig { host: host.clone(), controller, open_port, socket: socket.clone(), timers, limits };
    let agent = AgentDaemon::start(config)?;
    tracing::info!(host, interface, socket = %socket.display(), "agent is up");
    let (observer, servers) = (agent.observer(), agent.servers().clone());
    let collect = move || collect(observer.clone(), servers.clone());
    let _metrics = metrics::serve(endpoints.metrics, collect).await?;
    let session = agent.open_session(session_config);
    if !be_welcomed(&session, &mut stop).await? {
        agent.shutdown().await;
        return Ok(());
    }
    service::ready();
    tokio::select! {
        () = stop.requested() => {
            agent.shutdown().await;
            Ok(())
        }
        error = agent.failed() => Err(anyhow!("the agent can no longer serve processes: {error}")),
    }
}

/// Collects the counters of each running job, and of each job that this host serves.
async fn collect(observer: AgentObserver, servers: Servers) -> MetricsPage {
    let mut page = MetricsPage::default();
    // The call waits for the agents' threads, so it runs on a blocking thread.
    let stats = tokio::task::spawn_blocking(move || (observer.stats(), servers.stats()));
    let (all, served) = stats.await.unwrap_or_default();
    server::tell(&mut page, &served);
    let mut counter = |name, help, count: fn(&JobStats) -> u64| {
        let of_job =
            |job: &JobStats| (labels([("job", &job.job), ("rank", &job.rank.to_string())]), count(job));
        page.counter(name, help, all.iter().map(of_job));
    };
    counter("tributary_agent_slices_sent", "Slices sent for the first time", |job| job.stats.protocol.sent);
    counter("tributary_agent_slices_retransmitted", "Slices sent again", |job| {
        job.stats.protocol.retransmitted
    });
    counter("tributary_agent_results", "Expected results that were correct", |job| {
        job.stats.protocol.results
    });
    counter("tributary_agent_results_wrong", "Results that were rejected as wrong", |job| {
        job.stats.protocol.mismatched
    });
    counter(
        "tributary_agent_not_finite",
        "All-reduces to which a member contributed NaN or infinity",
        |job| job.stats.protocol.not_finite,
    );
    counter("tributary_agent_timeouts", "Retransmission timeouts that fired", |job| {
        job.stats.protocol.timeouts
    });
    counter("tributary_agent_frames_sent", "Frames sent", |job| job.stats.traffic.sent);
    counter("tributary_agent_frames_received", "Frames received", |job| job.stats.traffic.received);
    counter("tributary_agent_frames_malformed", "Damaged frames", |job| job.stats.traffic.malformed);
    let told = |amount: fn(&CollectiveAmount) -> u64| {
        let of_job = move |job: &JobStats| {
            let rank = job.rank.to_string();
            let of_kind = |(kind, counted): &(CollectiveKind, CollectiveAmount)| {
                let CollectiveKind { way, collective, reason } = kind;
                let labels = labels([
                    ("job", &job.job),
                    ("rank", &rank),
                    ("way", way),
                    ("collective", collective),
                    ("reason", reason),
                ]);
                (labels, amount(counted))
            };
            job.collectives.iter().map(of_kind).collect::<Vec<_>>()
        };
        all.iter().flat_map(of_job)
    };
    page.counter("tributary_collectives", "Collectives of processes", told(|amount| amount.calls));
    page.counter(
        "tributary_collectives_bytes",
        "Bytes of processes' collectives",
        told(|amount| amount.bytes),
    );
    let round_trip = |job: &JobStats| {
        let seconds = job.stats.protocol.round_trip?.as_secs_f64();
        Some((labels([("job", &job.job), ("rank", &job.rank.to_string())]), seconds))
    };
    page.gauge(
        "tributary_agent_round_trip_seconds",
        "Smoothed round trip",
        all.iter().filter_map(round_trip),
    );
    page
}
