//! Brings up a fabric: the network, then the daemons in it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tributary_lab::{CONTROLLER, Daemons, Lab, LabOptions, SwitchKind, SwitchProgram};
use tributary_topology::Topology;

use super::job;
use super::launch::{Launch, Ready};
use super::page::{self, PagePlace};
use super::record::{JobOptions, Record};
use super::{interrupted, tributary_program};
use crate::daemons::service::Stop;
use crate::options::topology;
use tributary_cli::options::{Aggregation, Downlink, probability, threads, window};

/// The name of the controller's copy of the topology. The lab needs a copy, because the user may change
/// the original, and because a relative path depends on this process's folder.
const TOPOLOGY_FILE: &str = "topology.toml";
/// The address at which each agent serves its metrics, inside its host's namespace.
const METRICS: &str = "127.0.0.1:9100";

/// Options of the fabric.
#[derive(Debug, Args)]
pub struct FabricArgs {
    /// Probability that a link loses a frame, on every link and in both directions
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability, requires = "topology")]
    loss: f64,

    /// Send each packet as a frame of its own, as with losses and over real links
    ///
    /// By default, the cables of the lab carry several packets as one frame, which costs less processor time.
    #[arg(long, requires = "topology")]
    single_frames: bool,

    /// Let links be as fast as this machine can make them, ignoring the topology's rates
    #[arg(long, requires = "topology")]
    no_rates: bool,

    /// MTU of all links, in bytes, in place of the topology's: slices are eight times as wide with 9000 as
    /// with 1500
    #[arg(long, value_name = "BYTES", requires = "topology")]
    mtu: Option<u16>,

    /// The kind of switch: the embedded one, or BMv2's `simple_switch_grpc` from the PATH
    #[arg(long, value_enum, default_value_t = Switches::Softswitch, requires = "topology")]
    switch: Switches,

    /// Where gradients are aggregated on their way
    #[arg(long, value_enum, default_value_t = Aggregation::Tree, requires = "topology")]
    aggregation: Aggregation,

    /// Delivery of results to the workers
    #[arg(long, value_enum, default_value_t = Downlink::Multicast, requires = "topology")]
    downlink: Downlink,

    /// Slices in flight at once, a power of two: the slots that the job owns on each switch
    /// [default: the controller's]
    #[arg(long, value_name = "SLOTS", value_parser = window, requires = "topology")]
    window: Option<u32>,

    /// Threads with which each agent and the server process the job's slices, a power of two
    /// [default: what the hosts' links need, up to a quarter of their processors]
    #[arg(long, value_name = "THREADS", value_parser = threads, requires = "topology")]
    threads: Option<u32>,

    /// Run the programs of each node, and the programs of its neighbours, on one processor: faster if all
    /// nodes have about the same work, and if there are more nodes than processors
    #[arg(long, requires = "topology")]
    pin: bool,

    /// Hide the workers' values from switches and the server
    #[arg(long, requires = "topology")]
    confidential: bool,

    /// Show the controller's live page to browsers on this machine, at this port of
    /// 127.0.0.1 [default: nowhere]
    #[arg(long, value_name = "PORT", requires = "topology", value_parser = clap::value_parser!(u16).range(1..))]
    page: Option<u16>,
}

/// The kind of switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switches {
    Softswitch,
    Bmv2,
}

impl From<Switches> for SwitchProgram {
    fn from(switches: Switches) -> Self {
        match switches {
            Switches::Softswitch => Self::Embedded,
            Switches::Bmv2 => Self::Bmv2,
        }
    }
}

impl FabricArgs {
    /// Opens the socket for browsers that want to see the controller's page, if the page is requested.
    ///
    /// If the user is not root, this must be called before the process enters the lab's namespaces, because
    /// it is then in another network.
    ///
    /// # Errors
    /// Another program uses the port.
    pub fn take_page_place(&self) -> Result<Option<PagePlace>> {
        self.page.map(PagePlace::take).transpose()
    }

    /// Returns the default fabric, with this probability of loss on its links.
    pub fn with_loss(loss: f64) -> Self {
        let (aggregation, downlink) = (Aggregation::Tree, Downlink::Multicast);
        let (switch, confidential) = (Switches::Softswitch, false);
        let (single_frames, no_rates, pin) = (false, false, false);
        let (mtu, window, threads, page) = (None, None, None, None);
        Self {
            loss,
            single_frames,
            no_rates,
            mtu,
            switch,
            aggregation,
            downlink,
            window,
            threads,
            pin,
            confidential,
            page,
        }
    }

    /// Sends each packet as a frame of its own if `single_frames` is true.
    pub fn with_single_frames(self, single_frames: bool) -> Self {
        Self { single_frames, ..self }
    }

    /// Sets the switches that aggregate.
    pub fn aggregating(self, aggregation: Aggregation) -> Self {
        Self { aggregation, ..self }
    }

    /// Sets the MTU of all links; `None` keeps the topology's MTUs.
    pub fn with_mtu(self, mtu: Option<u16>) -> Self {
        Self { mtu, ..self }
    }

    /// Pins each node's programs to one processor.
    pub fn pinned(self) -> Self {
        Self { pin: true, ..self }
    }

    /// Returns a fabric without losses, whose links are as fast as this machine allows.
    pub fn without_rates() -> Self {
        Self { no_rates: true, ..Self::with_loss(0.0) }
    }

    /// Returns the kind of switch, by its name on the command line.
    pub fn switch(&self) -> String {
        self.switch.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Creates the network and starts all daemons in it. If that fails or a signal stops it, removes
/// everything.
pub async fn up(
    name: &str,
    topology_file: &Path,
    args: &FabricArgs,
    stop: &mut Stop,
) -> Result<(Lab, Record)> {
    up_with_page(name, topology_file, (args, None), stop).await
}

/// Brings up a lab as [`up`] does, and shows the controller's page at `page`.
pub async fn up_with_page(
    name: &str,
    topology_file: &Path,
    (args, page): (&FabricArgs, Option<PagePlace>),
    stop: &mut Stop,
) -> Result<(Lab, Record)> {
    let topology = topology::load(topology_file, args.mtu)?;
    let kind = SwitchKind::for_daemons(&topology);
    let switches = SwitchProgram::from(args.switch);
    switches.check()?;
    let options = LabOptions {
        switches: kind,
        loss: args.loss,
        rates: !args.no_rates,
        // With losses, a loss must drop a single frame. And BMv2 must receive frames one by one.
        offloads: args.loss == 0.0 && !args.single_frames && switches == SwitchProgram::Embedded,
        single_frames: args.single_frames,
        pinned: args.pin,
        ..LabOptions::new(name)
    };
    let lab = Lab::up(&topology, &options)?;
    let job = JobOptions {
        aggregation: args.aggregation,
        downlink: args.downlink,
        window: args.window,
        threads: args.threads,
        theta: None,
        confidential: args.confidential,
    };
    let started = tokio::select! {
        started = start(&lab, &topology, (topology_file, args.mtu), switches, job, page) => started,
        () = stop.requested() => Err(interrupted()),
    };
    match started {
        Ok(record) => Ok((lab, record)),
        Err(error) => {
            lab.down()?;
            Err(error)
        }
    }
}

async fn start(
    lab: &Lab,
    topology: &Topology,
    (topology_file, mtu): (&Path, Option<u16>),
    switches: SwitchProgram,
    job: JobOptions,
    page: Option<PagePlace>,
) -> Result<Record> {
    let daemons = Daemons::new(lab, tributary_program()?).with_switches(switches);
    let mut record = Record::new(lab, topology, &daemons, job)?;
    let copy = record.folder.join(TOPOLOGY_FILE);
    fs::copy(topology_file, &copy).with_context(|| format!("cannot copy {}", topology_file.display()))?;

    // All daemons start at once; afterwards, each is waited for.
    let mut starting = Vec::new();
    // Kernel bridges need no daemon.
    let with_daemons = SwitchKind::for_daemons(topology) != SwitchKind::Bridge;
    for (_, switch, _) in topology.switches().filter(|_| with_daemons) {
        let command = daemons.switch(&switch.name, switch.id.get())?;
        let ready = match switches {
            SwitchProgram::Embedded => Ready::Notifies,
            SwitchProgram::Bmv2 => Ready::TakesConnections(daemons.p4runtime_address(&switch.name)?),
        };
        starting.push(record.launch(lab, &switch.name, Launch::of(&command, ready)?)?);
    }
    // The switches must be up first, because jobs are planned over switches that are up.
    for daemon in std::mem::take(&mut starting) {
        daemon.ready(lab).await?;
    }
    let mut controller = daemons.controller(topology, (&copy, mtu))?;
    if let Some(place) = page {
        controller.arg("--page").arg(page::address(&record).to_string());
        record.page = Some(place.url());
        starting.push(page::start(lab, &record, place)?);
    }
    starting.push(record.launch(lab, CONTROLLER, Launch::of(&controller, Ready::Notifies)?)?);
    // A host's daemon is ready when the controller has accepted the host.
    let hosts: Vec<_> = record.workers.iter().map(|worker| worker.host.clone()).collect();
    for host in hosts {
        let mut agent = daemons.agent(&host)?;
        agent.args(["--metrics", METRICS]);
        let launch = Launch::of(&agent, Ready::Notifies)?;
        starting.push(record.launch(lab, &host, launch)?);
    }
    let server = record.server.clone();
    let launch = Launch::of(&daemons.server(&server)?, Ready::Notifies)?;
    starting.push(record.launch(lab, &server, launch)?);
    for daemon in starting {
        daemon.ready(lab).await?;
    }
    job::create(lab, &record)?;
    record.save()?;
    Ok(record)
}
