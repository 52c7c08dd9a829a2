//! `tributary controller`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_controller::{Controller, ControllerConfig, PipelineSource, SwitchAddress};
use tributary_topology::Topology;

use crate::daemon::{self, DaemonArgs, Stop, required};
use crate::named::SwitchAt;
use crate::remote::DEFAULT_CONTROLLER;

/// A switch that does not answer for this long is unreachable.
const SWITCH_PATIENCE: Duration = Duration::from_secs(10);

/// The controller's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// Topology file
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Address that agents reach the controller at [default: 127.0.0.1:29810]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,

    /// P4Runtime address of a switch that the topology has none for, or another one; may be given often
    #[arg(long, value_name = "NAME=HOST:PORT[/DEVICE-ID]")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    switch: Vec<SwitchAt>,

    /// Folder of another compiled pipeline: tributary.json and tributary.p4info.txtpb
    #[arg(long, value_name = "DIR")]
    pipeline: Option<PathBuf>,
}

/// Runs the controller until it is stopped.
///
/// # Errors
/// Wrong settings, a port that is taken, a switch that cannot be brought into its state.
pub(crate) fn run(args: &DaemonArgs<Settings>) -> Result<()> {
    daemon::run(args, work)
}

async fn work(settings: Settings, mut stop: Stop) -> Result<()> {
    let topology = Topology::load(&required(settings.topology, "topology")?)?;
    let listen = match settings.listen {
        Some(listen) => listen,
        None => DEFAULT_CONTROLLER.parse()?,
    };
    let config = ControllerConfig {
        switches: addresses(&topology, &settings.switch)?,
        topology,
        pipeline: settings.pipeline.map_or(PipelineSource::BuiltIn, PipelineSource::Directory),
        listen,
        switch_patience: SWITCH_PATIENCE,
    };
    let controller = tokio::select! {
        started = Controller::start(config) => started?,
        // Nothing was served yet; what was written to switches the next controller finds and uses.
        () = stop.requested() => return Ok(()),
    };
    daemon::ready();
    stop.requested().await;
    controller.shutdown().await.context("some tables of jobs stay until the next controller withdraws them")
}

/// By the switch's name; each may be given once.
fn addresses(topology: &Topology, given: &[SwitchAt]) -> Result<BTreeMap<String, SwitchAddress>> {
    let mut addresses = BTreeMap::new();
    for switch in given {
        // A name that the topology does not have is the controller's to refuse.
        let node = topology.switches().find(|(_, node, _)| node.name == switch.name);
        let node_id = node.map_or(0, |(_, node, _)| node.id.get().into());
        if addresses.insert(switch.name.clone(), switch.address(node_id)).is_some() {
            bail!("switch {:?} has two addresses: give it one", switch.name);
        }
    }
    Ok(addresses)
}
