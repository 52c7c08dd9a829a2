//! Operations on a running lab: kill and restart daemons, cut and repair cables, slow down machines.

use std::process::Stdio;
use std::sync::mpsc;

use anyhow::{Result, bail};
use clap::Args;
use tokio::task::spawn_blocking;
use tributary_cli::output;
use tributary_lab::{CONTROLLER, Cut, Lab, LabError, Slowdown};

use super::background::Background;
use super::launch::Ready;
use super::record::{DaemonState, Record, Slow, StationRecord};
use super::{DEFAULT_NAME, name_option, tributary_program};
use crate::daemons::service::{self, Stop};

/// An alias of the controller's station, unless a node has that name.
const CONTROLLER_ALIAS: &str = "controller";

/// A lab that is up.
#[derive(Debug, Args)]
pub(crate) struct WhichLab {
    /// Which lab
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

impl WhichLab {
    /// Opens the lab that the option names.
    ///
    /// # Errors
    /// The lab does not exist, or was never completed.
    pub(crate) fn open(&self) -> Result<Lab, LabError> {
        Lab::open(&self.name)
    }
}

/// A station of a lab.
#[derive(Debug, Args)]
pub(crate) struct StationArgs {
    /// A node of the topology, or `controller`
    pub(crate) node: String,

    #[command(flatten)]
    pub(crate) lab: WhichLab,
}

/// A link of a lab, and the way to cut it.
#[derive(Debug, Args)]
pub(crate) struct CutArgs {
    #[command(flatten)]
    link: LinkArgs,

    /// Take the interface down at one end, if possible at a switch, so that the other end loses its carrier
    #[arg(long)]
    carrier: bool,
}

/// A link of a lab.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// The link's two nodes in any order, as in leaf0-w3 or leaf0:w3; or an interface at one of its ends
    link: String,

    #[command(flatten)]
    lab: WhichLab,
}

/// A station of a lab, and its slowdown.
#[derive(Debug, Args)]
pub(crate) struct SlowArgs {
    #[command(flatten)]
    station: StationArgs,

    /// Factor by which the station's processes become slower: from 1 (full speed) to 100
    #[arg(value_parser = slowdown)]
    factor: Slowdown,
}

fn slowdown(text: &str) -> Result<Slowdown, String> {
    let factor = text.parse().map_err(|_| "a number is needed".to_owned())?;
    Slowdown::new(factor).map_err(|error| error.to_string())
}

/// Runs `tributary lab kill`.
pub(crate) fn run_kill(args: &StationArgs) -> Result<()> {
    let lab = args.lab.open()?;
    let station = station(&lab, &args.node);
    let killed = kill(&lab, station)?;
    let again = name_option(lab.name());
    output::print(format_args!(
        "{station}: process {killed} is killed; `tributary lab start{again} {}` starts it again",
        args.node
    ))?;
    Ok(())
}

/// Runs `tributary lab start`.
pub(crate) async fn run_start(args: &StationArgs) -> Result<()> {
    let lab = args.lab.open()?;
    let station = station(&lab, &args.node);
    let process = start(&lab, station).await?;
    output::print(format_args!("{station}: process {process} is ready"))
}

/// Runs `tributary lab cut`.
pub(crate) fn run_cut(args: &CutArgs) -> Result<()> {
    let lab = args.link.lab.open()?;
    let how = if args.carrier { Cut::Carrier } else { Cut::Silent };
    let link = lab.cut(&args.link.link, how)?;
    let again = name_option(lab.name());
    output::print(format_args!("link {0} is cut; `tributary lab repair{again} {0}` repairs it", link.name))?;
    Ok(())
}

/// Runs `tributary lab repair`.
pub(crate) fn run_repair(args: &LinkArgs) -> Result<()> {
    let link = args.lab.open()?.repair(&args.link)?;
    output::print(format_args!("link {} is repaired", link.name))
}

/// Runs `tributary lab slow`.
pub(crate) async fn run_slow(args: &SlowArgs) -> Result<()> {
    let lab = args.station.lab.open()?;
    let station = station(&lab, &args.station.node);
    slow(&lab, station, args.factor).await?;
    match args.factor.factor() {
        1.0 => output::print(format_args!("{station}: runs at full speed"))?,
        factor => output::print(format_args!("{station}: everything takes {factor} times as long"))?,
    }
    Ok(())
}

/// Runs `tributary lab keep-slow`, which [`slow`] starts. It slows a station down until a signal stops
/// it.
pub(crate) async fn run_keep_slow(args: &SlowArgs) -> Result<()> {
    let mut stop = Stop::new()?;
    let lab = args.station.lab.open()?;
    let (station, slowdown) = (args.station.node.clone(), args.factor);
    let (end, ended) = mpsc::channel();
    let slowing = spawn_blocking(move || lab.slow_down(&station, slowdown, &ended));
    service::ready();
    tokio::pin!(slowing);
    tokio::select! {
        done = &mut slowing => Ok(done??),
        () = stop.requested() => {
            drop(end);
            Ok(slowing.await??)
        }
    }
}

/// Returns the station for a name or an alias.
pub(crate) fn station<'a>(lab: &Lab, node: &'a str) -> &'a str {
    let is_alias = node == CONTROLLER_ALIAS && lab.stations().all(|station| station != node);
    if is_alias { CONTROLLER } else { node }
}

/// Kills the daemon at a station (SIGKILL). Returns its process id.
///
/// # Errors
/// The station does not exist, or no daemon runs there.
pub fn kill(lab: &Lab, name: &str) -> Result<u32> {
    Record::change(lab, |record| {
        let station = record.station_mut(lab, name)?;
        let Some(process) = running(lab, station)? else { bail!("{}", why_none_runs(lab, station)?) };
        lab.kill(name, process)?;
        station.process = None;
        Ok(process)
    })
}

/// Restarts the daemon at a station with its recorded command, and waits until it is ready. Returns its
/// process id.
///
/// # Errors
/// The station does not exist or has no daemon, the daemon is running already, or it does not become
/// ready.
pub async fn start(lab: &Lab, name: &str) -> Result<u32> {
    let starting = Record::change(lab, |record| {
        let station = record.station_mut(lab, name)?;
        if let Some(process) = running(lab, station)? {
            bail!("the daemon of {name} runs already, as process {process}");
        }
        let Some(launch) = station.launch.clone() else { bail!("{}", why_none_runs(lab, station)?) };
        record.launch(lab, name, launch)
    })?;
    let process = starting.process;
    starting.ready(lab).await?;
    Ok(process)
}

/// Slows down all processes at a station by a factor, until the next call; 1 ends the slowdown.
///
/// # Errors
/// The station does not exist, or the process that slows it down cannot be started or ended.
pub async fn slow(lab: &Lab, name: &str, slowdown: Slowdown) -> Result<()> {
    let starting = Record::change(lab, |record| {
        let folder = record.folder.clone();
        let station = record.station_mut(lab, name)?;
        if let Some(before) = station.slow.take() {
            lab.end_beside(before.process)?;
        }
        // If the previous process was killed, it may have left the station's processes stopped.
        lab.wake(name)?;
        let factor = slowdown.factor();
        if factor == 1.0 {
            return Ok(None);
        }
        let mut command = lab.command_beside(tributary_program()?);
        command.args(["lab", "keep-slow", "--name", lab.name(), name, &factor.to_string()]);
        let command = (command, Stdio::null());
        let keeper = Background::start(&folder, &format!("{name}.slow"), command, Ready::Notifies)?;
        station.slow = Some(Slow { factor, process: keeper.process });
        Ok(Some(keeper))
    })?;
    match starting {
        Some(keeper) => keeper.ready(lab).await,
        None => Ok(()),
    }
}

/// Returns the process id of the daemon at a station; `None` if the daemon does not run.
fn running(lab: &Lab, station: &StationRecord) -> Result<Option<u32>> {
    let up = station.state(lab)? == DaemonState::Up;
    Ok(station.process.filter(|_| up))
}

/// Returns the reason why no daemon runs at a station, for an error message.
pub(crate) fn why_none_runs(lab: &Lab, station: &StationRecord) -> Result<String> {
    let (name, again) = (&station.name, name_option(lab.name()));
    Ok(match station.state(lab)? {
        DaemonState::None if station.daemon.is_empty() => format!("nothing runs at {name}"),
        DaemonState::None => format!("{name} is a {}, and has no daemon", station.daemon),
        DaemonState::Killed | DaemonState::Ended | DaemonState::Up => {
            format!("the daemon of {name} does not run: `tributary lab start{again} {name}` starts it")
        }
    })
}
