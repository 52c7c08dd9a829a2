//! `tributary switch`.

mod captures;
mod condition;
mod ports;
mod program;
mod running;

use std::future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_softswitch::engine::Engine;
use tributary_softswitch::{CPU_PORT, Loaded, LogForm, PacketLog, SoftSwitch, SwitchConfig};

use crate::daemons::metrics;
use crate::daemons::service::log::LogFormat;
use crate::daemons::service::{self, DaemonArgs, Stop, WrongUse};
use crate::options::named::{LinkAt, PortAt};
use condition::MergingWatch;
use ports::{Interfaces, Opened, Ports};
use program::Files;
use running::Running;

/// The default name of a switch.
const NAME: &str = "switch";

/// The switch's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct SwitchSettings {
    /// The switch's name, for logs and metrics [default: switch]
    #[arg(long)]
    name: Option<String>,

    /// P4Runtime device id of the switch; controllers expect the node id of the topology [default: 0]
    #[arg(long, value_name = "ID")]
    device_id: Option<u64>,

    /// Address of the switch's P4Runtime server; may be left out with --program [default: no server]
    #[arg(long, value_name = "ADDR:PORT")]
    p4runtime: Option<SocketAddr>,

    /// Compiled program to start with, the JSON of p4c-bm2-ss; needs --p4info [default: a controller
    /// installs one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// The program's P4Info in text format
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,

    /// Table entries, multicast groups and clone sessions to start with, in the JSON of p4lang's tutorials
    /// (s1-runtime.json); its bmv2_json and p4info are used in the absence of --program and --p4info
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,

    /// Port of the switch: an interface, or captures. NUMBER=pcap:IN.pcap,OUT.pcap reads received frames
    /// from the first file and writes sent frames to the second file; either may be left out. May be repeated
    #[arg(long, value_name = "NUMBER=INTERFACE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    port: Vec<PortAt>,

    /// The program's port to the controller [default: 510, as in Tributary's program]
    #[arg(long, value_name = "NUMBER")]
    cpu_port: Option<u16>,

    /// Folder to record each interface in, in INTERFACE_in.pcap and INTERFACE_out.pcap
    #[arg(long, value_name = "FOLDER")]
    pcap: Option<PathBuf>,

    /// Print the frames of each port as JSON, if all ports are captures
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    json: bool,

    /// Log the path of each packet through the program, on standard output: human, or one JSON object a
    /// line [default: off; without a value: human]
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "human"
    )]
    log_packets: Option<LogFormat>,

    /// MTU of the switch's links in the topology, in bytes: the switch warns about interfaces with a
    /// smaller MTU [default: the length of a packet of 256 values]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,

    /// Send neighbouring packets as one frame on ports that are a veth with its offloads on. The hosts and
    /// switches at the other ends must also have been started with this option
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    segmentation_offload: bool,

    /// Send past the queues of veth ports, by AF_XDP sockets, which takes a quarter less time. Rates (tc),
    /// nftables' rules for sent frames and captures of sent frames have no effect on these ports
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    bypass_queues: bool,

    /// Address at which Prometheus reads metrics, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Runs an embedded switch until a signal stops it, or until all captures that are its ports were read.
///
/// # Errors
/// Settings or a file are wrong, an interface cannot be opened, or a port is in use.
pub(crate) fn run(args: &DaemonArgs<SwitchSettings>) -> Result<()> {
    service::run(args, work)
}

async fn work(settings: SwitchSettings, mut stop: Stop) -> Result<()> {
    let log = settings.packet_log()?;
    let (loaded, read) = settings.files().load(log.as_ref())?;
    settings.check(loaded.is_some())?;
    let mut merging = MergingWatch::new(&settings.port);
    merging.look();
    let Opened { ports, meters, mut captures_end } =
        ports::open(&settings.port, settings.interfaces(), &read)?;
    let running = settings.start(ports, loaded, log.clone()).await?;
    let name = settings.name();
    tracing::info!(name, ports = meters.len(), "switch is up");
    let (collected, counted) = (name.to_owned(), meters.clone());
    let collect = move || future::ready(ports::collect(&collected, &counted));
    let _metrics = metrics::serve(settings.metrics, collect).await?;
    service::ready();
    // With a P4Runtime server, the switch continues after the captures, because controllers may read the
    // results.
    let ends_by_itself = settings.has_only_captures() && settings.p4runtime.is_none();
    let mut wrong_capture = None;
    let mut watch = pin!(merging.watch());
    loop {
        let processed = async {
            match &mut captures_end {
                Some(end) => captures::processed(end, running.control()).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            () = stop.requested() => break,
            never = &mut watch => match never {},
            () = running.ended() => {
                running.stop().await?;
                bail!("switch {name} has ended unexpectedly: see the log")
            }
            error = processed => {
                captures_end = None;
                tracing::info!("all captures were processed");
                wrong_capture = error;
            }
        }
        if ends_by_itself {
            break;
        }
        if let Some(error) = &wrong_capture {
            tracing::error!(%error, "a capture was not processed as a whole");
        }
    }
    running.stop().await?;
    let is_read = log.is_none_or(|log| log.flush());
    if !is_read {
        tracing::warn!("the packet log ends here: its reader has stopped reading");
    }
    if settings.has_only_captures() {
        ensure!(is_read, "standard output is closed: the report on the captures cannot be printed");
        captures::report(&meters, settings.json)?;
    }
    if let Some(error) = wrong_capture {
        return Err(error.into());
    }
    // Without a P4Runtime server, the switch should have ended after the captures.
    ensure!(
        !ends_by_itself || captures_end.is_none(),
        "stopped before all captures were processed: the report covers the processed frames"
    );
    Ok(())
}

impl SwitchSettings {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(NAME)
    }

    fn files(&self) -> Files<'_> {
        let Self { program, p4info, entries, .. } = self;
        Files { program: program.as_deref(), p4info: p4info.as_deref(), entries: entries.as_deref() }
    }

    fn interfaces(&self) -> Interfaces<'_> {
        Interfaces {
            mtu: self.mtu,
            segmentation_offload: self.segmentation_offload,
            bypass_queues: self.bypass_queues,
            recordings: self.pcap.as_deref(),
        }
    }

    fn cpu_port(&self) -> u16 {
        self.cpu_port.unwrap_or(CPU_PORT)
    }

    fn has_only_captures(&self) -> bool {
        self.port.iter().all(|port| matches!(port.link, LinkAt::Captures(_)))
    }

    /// Checks the dependencies between options.
    ///
    /// # Errors
    /// [`WrongUse`]: a required option is missing, or options contradict each other.
    fn check(&self, has_program: bool) -> Result<()> {
        if !has_program && self.p4runtime.is_none() {
            let problem = "a switch without a program: give --program and --p4info, or --p4runtime for a controller \
                           that installs one (as options, or in the --config file)";
            return Err(WrongUse(problem.into()).into());
        }
        ports::check(&self.port, self.cpu_port())?;
        let has_captures = self.port.iter().any(|port| matches!(port.link, LinkAt::Captures(_)));
        if has_captures && !has_program {
            let problem = "--port: captures need --program: their frames would be processed before a controller connects";
            return Err(WrongUse(problem.into()).into());
        }
        if self.json && !self.has_only_captures() {
            return Err(WrongUse("--json is for switches whose ports are all captures".into()).into());
        }
        if self.bypass_queues && self.segmentation_offload {
            let problem = "--bypass-queues sends one packet at a time, but --segmentation-offload sends many as one: \
                           give only one of them (as options, or in the --config file)";
            return Err(WrongUse(problem.into()).into());
        }
        if self.pcap.is_some() && self.has_only_captures() {
            let problem = "--pcap records interfaces, but no port is an interface: --port \
                           NUMBER=pcap:IN.pcap,OUT.pcap writes the sent frames";
            return Err(WrongUse(problem.into()).into());
        }
        Ok(())
    }

    fn packet_log(&self) -> Result<Option<PacketLog>> {
        let form = self.log_packets.map(|format| match format {
            LogFormat::Human => LogForm::Text,
            LogFormat::Json => LogForm::Json,
        });
        let log = form.map(|form| PacketLog::new(form, io::stdout()));
        log.transpose().context("--log-packets")
    }

    async fn start(&self, ports: Ports, loaded: Option<Loaded>, log: Option<PacketLog>) -> Result<Running> {
        let (name, cpu_port) = (self.name(), self.cpu_port());
        let cannot_start = || match &self.name {
            Some(name) => format!("switch {name} cannot start"),
            None => "the switch cannot start".to_owned(),
        };
        let Some(listen) = self.p4runtime else {
            let switch = loaded.map(Loaded::into_switch).context("a switch without a program")?;
            // Without a P4Runtime server, the packets that the switch sends to the controller are dropped.
            let (engine, _) = Engine::start_with(name, ports, cpu_port, switch).with_context(cannot_start)?;
            return Ok(Running::Alone(engine));
        };
        let mut config = SwitchConfig { cpu_port, loaded, log, ..SwitchConfig::new(name, listen, ports) };
        config.device_id = self.device_id.unwrap_or(config.device_id);
        Ok(Running::Served(SoftSwitch::start(config).await.with_context(cannot_start)?))
    }
}
