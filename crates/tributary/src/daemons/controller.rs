//! `tributary controller`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_api::v1;
use tributary_cli::states;
use tributary_controller::{
    Controller, ControllerConfig, Observer, PipelineSource, Quotas, Reload as Reloaded, RunningController,
    SwitchAddress,
};
use tributary_topology::Topology;

use crate::daemons::metrics::{self, Labels, MetricsPage, labels};
use crate::daemons::page;
use crate::daemons::service::{self, DaemonArgs, Reload, SettingsFile, Stop, required};
use crate::options::named::SwitchAt;
use crate::options::remote::DEFAULT_CONTROLLER;
use crate::options::tls::ControllerTlsArgs;
use crate::options::topology;

/// The longest time for one request to a switch. After that, the switch counts as unreachable.
const SWITCH_PATIENCE: Duration = Duration::from_secs(10);

/// All states of a job.
const JOB_STATES: [v1::JobState; 6] = [
    v1::JobState::Queued,
    v1::JobState::Created,
    v1::JobState::Installing,
    v1::JobState::Running,
    v1::JobState::Ended,
    v1::JobState::Failed,
];

/// The reasons for which switches forward gradients without aggregating them, with their names in
/// metrics.
const FALLBACK_CAUSES: [(v1::FallbackCause, &str); 4] = [
    (v1::FallbackCause::AskedFor, "asked-for"),
    (v1::FallbackCause::PlainSwitch, "plain-switch"),
    (v1::FallbackCause::NoSlots, "no-slots"),
    (v1::FallbackCause::TooManyChildren, "too-many-children"),
];

/// The controller's options.
#[derive(Debug, Args)]
pub(crate) struct ControllerSettings {
    #[command(flatten)]
    own: ControllerOptions,

    #[command(flatten)]
    tls: ControllerTlsArgs,
}

/// The controller's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ControllerOptions {
    /// Topology file
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Address at which agents reach the controller [default: 127.0.0.1:29810]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,

    /// P4Runtime address of a switch, if the topology has none or another one; may be repeated
    #[arg(long, value_name = "NAME=HOST:PORT[/DEVICE-ID]")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    switch: Vec<SwitchAt>,

    /// Folder of another compiled pipeline: tributary.p4info.txtpb, and tributary.json or, for
    /// Tofino, tributary.pb.bin
    #[arg(long, value_name = "DIR")]
    pipeline: Option<PathBuf>,

    /// MTU of all links, in bytes [default: the topology's]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,

    /// Folder in which jobs are recorded, so that they survive a restart of the controller [default: none,
    /// jobs end with the controller]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// Jobs that one creator may have at a time. A creator is an operator or a host, by the name in its
    /// certificate; without certificates, all callers are one creator [default: no limit]
    #[arg(long, value_name = "JOBS")]
    jobs_per_creator: Option<u32>,

    /// Slots that the jobs of one creator may have together on each switch [default: no limit]
    #[arg(long, value_name = "SLOTS")]
    slots_per_creator: Option<u32>,

    /// Jobs that may wait for slots at a time [default: 64]
    #[arg(long, value_name = "JOBS")]
    queue: Option<u32>,

    /// Address at which Prometheus reads metrics, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,

    /// Address at which browsers read the live page. If the API uses TLS, the page does, too, and requires
    /// a certificate [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    page: Option<SocketAddr>,
}

impl service::DaemonSettings for ControllerSettings {
    fn merge(&self, file: SettingsFile) -> Result<Self> {
        let (tls, own) = file.split::<ControllerTlsArgs>();
        Ok(Self { own: self.own.merge(own)?, tls: self.tls.merge(tls)? })
    }
}

/// Runs the controller until a signal stops it.
///
/// # Errors
/// Settings are wrong, or a port is in use.
pub(crate) fn run(args: &DaemonArgs<ControllerSettings>) -> Result<()> {
    service::run(args, work)
}

async fn work(settings: ControllerSettings, mut stop: Stop) -> Result<()> {
    let reload = Reload::new()?;
    let ControllerSettings { own: settings, tls } = settings;
    let file = required(settings.topology, "topology")?;
    let topology = topology::load(&file, settings.mtu)?;
    let tls = tls.load()?;
    let certificates = tls.as_ref().map(|tls| tls.server.clone());
    let listen = match settings.listen {
        Some(listen) => listen,
        None => DEFAULT_CONTROLLER.parse()?,
    };
    let config = ControllerConfig {
        switches: addresses(&topology, &settings.switch)?,
        topology,
        pipeline: settings.pipeline.map_or(PipelineSource::BuiltIn, PipelineSource::Directory),
        listen,
        tls,
        switch_patience: SWITCH_PATIENCE,
        state: settings.state,
        quotas: Quotas {
            jobs: settings.jobs_per_creator,
            slots: settings.slots_per_creator,
            queue: settings.queue.unwrap_or(Quotas::default().queue),
        },
    };
    let controller = tokio::select! {
        started = Controller::start(config) => started?,
        // No request was served yet. The next controller reads the entries that this one has written to the
        // switches, and uses them.
        () = stop.requested() => return Ok(()),
    };
    let observer = controller.observer();
    let _metrics = metrics::serve(settings.metrics, move || collect(observer.clone())).await?;
    let _page = page::serve(settings.page, certificates.clone(), controller.observer()).await?;
    service::ready();
    let read_again = || {
        if let Some(certificates) = &certificates {
            service::note("certificates", certificates.reload());
        }
        reload_topology(&controller, topology::load(&file, settings.mtu));
    };
    tokio::select! {
        () = stop.requested() => {}
        never = reload.each(read_again) => match never {},
    }
    controller.shutdown().await.context("some tables of jobs stay until the next controller withdraws them")
}

/// Applies the changes of the topology file that a running controller can apply, and logs them.
fn reload_topology(controller: &RunningController, newer: Result<Topology>) {
    let newer = match newer {
        Ok(newer) => newer,
        Err(error) => return tracing::error!("the topology is unchanged: {error:#}"),
    };
    let Reloaded { taken, refused } = controller.reload_topology(&newer);
    for change in &taken {
        tracing::info!(change, "taken from the topology file");
    }
    for change in &refused {
        tracing::warn!(change, "not taken from the topology file: restart the controller, which ends no job");
    }
    tracing::info!(taken = taken.len(), refused = refused.len(), "the topology was read again");
}

/// Collects the number of jobs by state, the slots that they own, and the switches' counters.
async fn collect(observer: Observer) -> MetricsPage {
    let mut page = MetricsPage::default();
    let (jobs, switches) = (observer.jobs(), observer.switches());
    let states = JOB_STATES.map(|state| {
        (
            labels([("state", states::of_job(state))]),
            jobs.iter().filter(|job| job.state() == state).count() as f64,
        )
    });
    page.gauge("tributary_jobs", "Jobs that the controller knows, by state", states);
    page.gauge(
        "tributary_job_fallback",
        "Switches where streams of a running job meet and are not aggregated, by cause",
        fallbacks(&jobs),
    );
    page.gauge(
        "tributary_job_processes",
        "Training processes on the host of each worker that has joined a job",
        processes(&jobs),
    );
    let slots = |of: fn(&v1::Switch) -> u32| {
        let sample = move |switch: &v1::Switch| (labels([("switch", &switch.name)]), of(switch).into());
        switches.iter().map(sample)
    };
    page.gauge(
        "tributary_switch_slots",
        "Slots of a switch that jobs can have",
        slots(|switch| switch.slots),
    );
    let help = "Slots of a switch that jobs own, also ended jobs until their tables are withdrawn";
    page.gauge("tributary_switch_slots_taken", help, slots(|switch| switch.slots_taken));
    let (mut up, mut packets, mut frames, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for counters in observer.counters().await {
        let switch = &counters.name;
        up.push((labels([("switch", switch)]), if counters.unreachable.is_none() { 1.0 } else { 0.0 }));
        // The counters of an unreachable switch are old, so they are left out.
        if counters.unreachable.is_some() {
            continue;
        }
        for v1::JobCounter { job, reason, packets: count, .. } in &counters.jobs {
            packets.push((labels([("switch", switch), ("job", job), ("reason", reason)]), *count));
        }
        for v1::PortCounter { port, kind, packets: count, bytes: size, .. } in &counters.ports {
            let of_port = labels([("switch", switch), ("port", &port.to_string()), ("kind", kind)]);
            frames.push((of_port.clone(), *count));
            bytes.push((of_port, *size));
        }
    }
    page.gauge("tributary_switch_up", "1 if the switch's counters can be read", up);
    page.counter("tributary_job_packets", "Packets of a job in a switch, by their treatment", packets);
    page.counter("tributary_port_frames", "Frames of a switch's port", frames);
    page.counter("tributary_port_bytes", "Bytes of a switch's port", bytes);
    page
}

/// Returns the number of training processes of each worker that has joined, by job and host.
fn processes(jobs: &[v1::Job]) -> Vec<(Labels, f64)> {
    let of_job = |job: &v1::Job| {
        let workers = job.members.iter().filter(|member| member.role() == v1::MemberRole::Worker);
        let joined = workers.filter(|member| member.joined);
        let sample = |member: &v1::JobMember| {
            (labels([("job", &job.name), ("host", &member.host)]), member.processes.into())
        };
        joined.map(sample).collect::<Vec<_>>()
    };
    jobs.iter().flat_map(of_job).collect()
}

/// Returns the number of switches that forward a running job's gradients without aggregating them, by
/// job and cause. A job without such switches has samples with the value 0.
fn fallbacks(jobs: &[v1::Job]) -> Vec<(Labels, f64)> {
    let running = jobs.iter().filter(|job| job.state() == v1::JobState::Running);
    let of_job = |job: &v1::Job| {
        let count = |cause| job.fallbacks.iter().filter(|fallback| fallback.cause() == cause).count() as f64;
        FALLBACK_CAUSES.map(|(cause, name)| (labels([("job", &job.name), ("cause", name)]), count(cause)))
    };
    running.flat_map(of_job).collect()
}

/// Returns the switches' addresses by name.
///
/// # Errors
/// A switch is given twice.
fn addresses(topology: &Topology, given: &[SwitchAt]) -> Result<BTreeMap<String, SwitchAddress>> {
    let mut addresses = BTreeMap::new();
    for switch in given {
        // The controller refuses a name that is not in the topology, so the id 0 has no effect.
        let node = topology.switches().find(|(_, node, _)| node.name == switch.name);
        let node_id = node.map_or(0, |(_, node, _)| node.id.get().into());
        if addresses.insert(switch.name.clone(), switch.address(node_id)).is_some() {
            bail!("switch {:?} has two addresses: give it one", switch.name);
        }
    }
    Ok(addresses)
}
