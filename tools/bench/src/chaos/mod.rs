//! `tributary-bench chaos`: breaks parts of a fabric, of every kind and at random, during a training.

mod agreement;
mod chaos_run;
mod event;
mod foreign;
mod members;
mod progress;
mod reach;
mod report;
mod schedule;
mod targets;
mod timeline;
mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytesize::ByteSize;
use clap::Args;
use tokio::runtime;
use tributary_cli::output;
use tributary_topology::Topology;

use chaos_run::ChaosRun;
use progress::Progress;
use report::ChaosReport;
use schedule::{Outages, schedule};
use targets::DisturbanceKind;
pub(crate) use worker::{ChaosWorkerArgs, run as run_worker};

use tributary::lab::{FabricArgs, PagePlace, interrupted, up_with_page};
use tributary::{Stop, WrongUse};

/// Size of the largest slices, in bytes.
///
/// Tensors consist of whole slices, so that each slice shows its contributors.
const LARGEST_SLICE: u64 = 2048 * size_of::<f32>() as u64;
/// The longest outage that a user may request, in seconds.
///
/// A member that is stuck is noticed only after the outage.
const LONGEST_OUTAGE: f64 = 60.0;

/// A run of disturbances.
#[derive(Debug, Args)]
pub(crate) struct ChaosArgs {
    /// Topology file
    topology: PathBuf,

    /// Seed that decides which targets are hit, when, and for how long
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Total number of hits
    #[arg(long, value_name = "N", default_value_t = 20)]
    kills: usize,

    /// Kinds of targets to hit [default: all kinds that the lab has]
    #[arg(long, value_enum, value_name = "KIND,KIND,…", value_delimiter = ',')]
    only: Vec<DisturbanceKind>,

    /// Shortest and longest outage of a target, in seconds
    #[arg(long, value_name = "FROM..TO", default_value = "0.2..3", value_parser = outages)]
    outage: Outages,

    /// Size of the tensor of each all-reduce, a multiple of 8KiB
    #[arg(long, value_name = "BYTES", default_value = "256KiB", value_parser = size)]
    size: ByteSize,

    /// Training processes on each worker; the death of one takes its host out of the job
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_host: u32,

    /// Also send UDP datagrams with segmentation offload from each host to the next host, and check each
    /// datagram that arrives
    #[arg(long)]
    foreign: bool,

    /// Stop at the first wrong sum, lost job or stuck member, and leave the lab up with its logs
    #[arg(long)]
    keep: bool,

    /// Name that distinguishes this lab from others on the machine
    #[arg(long, default_value = "chaos")]
    name: String,

    #[command(flatten)]
    fabric: FabricArgs,

    /// Print one JSON object instead of tables, and nothing while it runs
    #[arg(long)]
    json: bool,
}

impl ChaosArgs {
    /// Takes the place of the controller's page, as [`FabricArgs::take_page_place`] does.
    pub(crate) fn take_page_place(&self) -> Result<Option<PagePlace>> {
        self.fabric.take_page_place()
    }
}

fn outages(text: &str) -> Result<Outages, String> {
    let seconds = |text: &str| text.parse().ok().filter(|seconds| (0.0..=LONGEST_OUTAGE).contains(seconds));
    let both = text.split_once("..").and_then(|(from, to)| Some((seconds(from)?, seconds(to)?)));
    match both {
        Some((from, to)) if from <= to => {
            Ok(Outages { shortest: Duration::from_secs_f64(from), longest: Duration::from_secs_f64(to) })
        }
        _ => Err(format!("two numbers of seconds from 0 to {LONGEST_OUTAGE} are needed, such as 0.2..3")),
    }
}

fn size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(size) if size.as_u64() > 0 && size.as_u64().is_multiple_of(LARGEST_SLICE) => Ok(size),
        _ => Err(format!("a multiple of {} is needed, such as 256KiB", ByteSize::b(LARGEST_SLICE))),
    }
}

/// Makes the lab, runs the disturbances, and prints the results.
/// `page` is where this program serves the controller's page during the run.
///
/// # Errors
/// Wrong use, a lab that cannot be made, or a failure: a wrong sum, a lost job, a stuck member.
pub(crate) fn run(args: &ChaosArgs, page: Option<PagePlace>) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(disturb(args, page))
}

async fn disturb(args: &ChaosArgs, page: Option<PagePlace>) -> Result<()> {
    let mut stop = Stop::new()?;
    let start = Instant::now();
    let topology = Topology::load(&args.topology)?;
    check_ranks(&topology, args.ranks_per_host)?;
    let per_worker = args.ranks_per_host as usize;
    let mut targets = targets::all(&topology, per_worker);
    targets.retain(|target| args.only.is_empty() || args.only.contains(&target.kind));
    let blows = schedule(&targets, args.outage, args.seed, args.kills);
    if blows.is_empty() && args.kills > 0 {
        return Err(
            WrongUse(format!("--only: topology {} has none of these targets", topology.name())).into()
        );
    }
    let progress = Progress::new(args.kills, args.json);
    progress.message("making the lab");
    let (lab, record) = up_with_page(&args.name, &args.topology, (&args.fabric, page), &mut stop).await?;
    progress.message("waiting for the members");
    let (topology_name, switch) = (topology.name().to_owned(), args.fabric.switch());
    let report = ChaosReport { topology: topology_name, switch, seed: args.seed, ..ChaosReport::default() };
    let mut chaos = ChaosRun::new(
        &lab,
        &record,
        &topology,
        (args.size.as_u64(), per_worker),
        report,
        progress,
        args.keep,
    );
    if args.foreign {
        chaos.start_foreign()?;
    }
    let done = tokio::select! {
        done = chaos.run(&blows) => done,
        () = stop.requested() => Err(interrupted()),
    };
    let mut report = chaos.finish();
    let removed = match report.failure() {
        Some(_) if args.keep => {
            lab.keep();
            Ok(())
        }
        _ => lab.down(),
    };
    report.seconds = start.elapsed().as_secs_f64();
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(report.text())?,
    }
    done?;
    removed?;
    match report.failure() {
        Some(failure) => bail!("{failure}"),
        None => Ok(()),
    }
}

fn check_ranks(topology: &Topology, per_host: u32) -> Result<()> {
    let ranks = topology.workers().len() as u64 * u64::from(per_host);
    if ranks > worker::MAX_RANKS.into() {
        return Err(WrongUse(format!(
            "{ranks} ranks are too many: sums of at most {} can be checked",
            worker::MAX_RANKS
        ))
        .into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one of the topologies that the repository ships.
    pub(crate) fn shipped(topology: &str) -> Topology {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        Topology::load(folder.join(topology).with_extension("toml")).unwrap()
    }

    #[test]
    fn outages_are_a_range_of_seconds() {
        let parsed = outages("0.2..3").unwrap();
        assert_eq!((parsed.shortest, parsed.longest), (Duration::from_millis(200), Duration::from_secs(3)));
        for bad in ["", "1", "3..1", "-1..2", "0..61", "a..b", "NaN..1"] {
            assert!(outages(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tensors_are_whole_slices() {
        assert_eq!(size("8KiB").unwrap().as_u64(), 8192);
        for bad in ["0", "4KiB", "8KB", "much"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
