//! Bringing up a fabric: the network, then the daemons in it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use tributary_lab::{CONTROLLER, Daemons, Lab, LabOptions};
use tributary_topology::Topology;

use super::background::Background;
use super::interrupted;
use super::job::{self, JobOptions};
use super::record::Record;
use crate::daemon::Stop;
use crate::options::{Aggregation, Downlink, probability, window};

/// The controller reads this copy: the user may change the original, and a relative path is relative to
/// this process's folder.
const TOPOLOGY_FILE: &str = "topology.toml";

/// What the fabric is to be like.
#[derive(Debug, Args)]
pub(super) struct FabricArgs {
    /// Probability that a link loses a frame, on every link and in both directions
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability, requires = "topology")]
    loss: f64,

    /// Let links be as fast as this machine can, not as the topology says
    #[arg(long, requires = "topology")]
    no_rates: bool,

    /// Where gradients are added up on their way
    #[arg(long, value_enum, default_value_t = Aggregation::Tree, requires = "topology")]
    aggregation: Aggregation,

    /// How results come back
    #[arg(long, value_enum, default_value_t = Downlink::Multicast, requires = "topology")]
    downlink: Downlink,

    /// Slices under way at once, a power of two: the slots that the job owns on each switch
    /// [default: the controller's]
    #[arg(long, value_name = "SLOTS", value_parser = window, requires = "topology")]
    window: Option<u32>,
}

/// Makes the network and starts everything in it. If that fails or is stopped, nothing of it stays.
pub(super) async fn up(
    name: &str,
    topology_file: &Path,
    args: &FabricArgs,
    stop: &mut Stop,
) -> Result<(Lab, Record)> {
    let topology = Topology::load(topology_file)?;
    let options = LabOptions { loss: args.loss, rates: !args.no_rates, ..LabOptions::new(name) };
    let lab = Lab::up(&topology, &options)?;
    let job = JobOptions { aggregation: args.aggregation, downlink: args.downlink, window: args.window };
    let started = tokio::select! {
        started = start(&lab, &topology, topology_file, job) => started,
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

async fn start(lab: &Lab, topology: &Topology, topology_file: &Path, job: JobOptions) -> Result<Record> {
    let daemons = Daemons::new(lab, std::env::current_exe()?);
    let record = Record::new(lab, topology, &daemons, job)?;
    let copy = record.folder.join(TOPOLOGY_FILE);
    fs::copy(topology_file, &copy).with_context(|| format!("cannot copy {}", topology_file.display()))?;

    let mut starting = Vec::new();
    for (_, switch, _) in topology.switches() {
        let command = daemons.switch(&switch.name, switch.id.get())?;
        starting.push(Background::start(&record.folder, &switch.name, command)?);
    }
    for worker in &record.workers {
        let command = daemons.agent(&worker.host)?;
        starting.push(Background::start(&record.folder, &worker.host, command)?);
    }
    for daemon in starting {
        daemon.ready().await?;
    }
    // It wants its switches there when it starts.
    let controller = daemons.controller(topology, &copy)?;
    Background::start(&record.folder, CONTROLLER, controller)?.ready().await?;
    job::create(lab, &record).await?;
    record.save()?;
    Ok(record)
}
