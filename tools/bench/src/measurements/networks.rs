//! The networks on which contenders take turns.
//!
//! All networks have the same topology and rates. For each loss, one network has this project's switches, and
//! one has kernel bridges.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use toml::{Table, Value};
use tributary_lab::{Lab, LabOptions, SwitchKind};
use tributary_topology::{Topology, format_rate};

use tributary::lab::{FabricArgs, Record, up_fabric};
use tributary::{Stop, with_mtu};
use tributary_cli::options::{Aggregation, topology_text};

/// A topology file, and variants of it.
#[derive(Debug)]
pub(super) struct Shape {
    topology: Topology,
    mtu: Option<u16>,
    table: Table,
    /// The folder with the variants' files.
    folder: TempDir,
}

impl Shape {
    /// Reads `file`, or the built-in topology. If `mtu` is given, it replaces the MTU of all links.
    ///
    /// # Errors
    /// The file is not a topology; the error names file and line.
    pub(super) fn load(file: Option<&Path>, mtu: Option<u16>) -> Result<Self> {
        let (text, name) = topology_text(file)
            .with_context(|| format!("cannot read {}", file.unwrap_or(Path::new("")).display()))?;
        let topology = with_mtu(Topology::parse(&text, &name)?, mtu)?;
        Ok(Self { topology, mtu, table: text.parse()?, folder: tempfile::tempdir()? })
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Brings up the network of one variant, with all its daemons.
    ///
    /// The processes at a node stay on one processor, for all contenders alike. In a network of machines,
    /// each node would have its own processor.
    pub(super) async fn up(
        &self,
        name: &str,
        rate: u64,
        switches: Switches,
        stop: &mut Stop,
    ) -> Result<Network> {
        let file = self.file(Some(rate), switches)?;
        let (aggregation, loss, single_frames) = match switches {
            Switches::Ours { aggregation, loss, single_frames } => (aggregation, loss, single_frames),
            Switches::Bridges => (Aggregation::Tree, 0.0, false),
        };
        let args = FabricArgs::with_loss(loss).with_single_frames(single_frames).aggregating(aggregation);
        let args = args.with_mtu(self.mtu).pinned();
        let (lab, record) = up_fabric(name, &file, &args, stop).await?;
        Ok(Network { lab, record })
    }

    /// Brings up the network with this project's switches, whose processes may use all processors.
    ///
    /// With `rate` of `None`, the links are as fast as the machine allows.
    pub(super) async fn up_unpinned(
        &self,
        name: &str,
        rate: Option<u64>,
        stop: &mut Stop,
    ) -> Result<Network> {
        let file = self.file(rate, Switches::OURS)?;
        let args = if rate.is_some() { FabricArgs::with_loss(0.0) } else { FabricArgs::without_rates() };
        let (lab, record) = up_fabric(name, &file, &args.with_mtu(self.mtu), stop).await?;
        Ok(Network { lab, record })
    }

    /// Writes the topology file of a variant.
    fn file(&self, rate: Option<u64>, switches: Switches) -> Result<PathBuf> {
        let file = self.folder.path().join("topology.toml");
        fs::write(&file, toml::to_string(&self.variant(rate, switches))?)?;
        Ok(file)
    }

    /// Makes the network of the variant with bridges, without any daemon.
    ///
    /// The processes at a node stay on one processor. Each link loses frames with the probability `loss`.
    pub(super) fn up_bare(&self, name: &str, rate: u64, loss: f64) -> Result<Lab> {
        let text = toml::to_string(&self.variant(Some(rate), Switches::Bridges))?;
        let topology = with_mtu(Topology::parse(&text, self.topology.name())?, self.mtu)?;
        let switches = SwitchKind::Bridge;
        let options = LabOptions { switches, offloads: true, pinned: true, loss, ..LabOptions::new(name) };
        Ok(Lab::up(&topology, &options)?)
    }

    /// Returns the hosts of the workers, by rank.
    pub(super) fn workers(&self) -> Vec<String> {
        let workers = self.topology.workers().into_iter();
        workers.filter_map(|worker| Some(self.topology.get(worker)?.name.clone())).collect()
    }

    /// Returns the topology with all links at one rate, or with its own rates.
    ///
    /// For bridges all switches are plain, so that the lab makes kernel bridges.
    fn variant(&self, rate: Option<u64>, switches: Switches) -> Table {
        let mut table = self.table.clone();
        if let Some(rate) = rate {
            let defaults = table.entry("defaults").or_insert_with(|| Table::new().into());
            if let Some(defaults) = defaults.as_table_mut() {
                defaults.insert("rate".to_owned(), format_rate(rate).into());
            }
            for link in entries(&mut table, "link") {
                link.remove("rate");
            }
        }
        if switches == Switches::Bridges {
            for switch in entries(&mut table, "switch") {
                switch.insert("programmable".to_owned(), false.into());
            }
        }
        table
    }
}

fn entries<'a>(table: &'a mut Table, key: &str) -> impl Iterator<Item = &'a mut Table> {
    let list = table.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// The devices that forward frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Switches {
    /// The embedded switch, over links that lose frames with the probability `loss`, or that carry each
    /// packet as a frame of its own.
    Ours { aggregation: Aggregation, loss: f64, single_frames: bool },
    /// Kernel bridges, over links that lose no frames.
    ///
    /// Without programmable switches, the aggregation server sums all contributions itself.
    Bridges,
}

impl Switches {
    /// Aggregation on the whole tree, without losses.
    pub(super) const OURS: Self =
        Self::Ours { aggregation: Aggregation::Tree, loss: 0.0, single_frames: false };
}

/// A network that is up. It is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) lab: Lab,
    pub(super) record: Record,
}
