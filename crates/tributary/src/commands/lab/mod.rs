//! `tributary lab`: a complete fabric on this machine, with each node in a separate network namespace.

mod exec;
mod list;
mod logs;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use tokio::runtime;
use tributary_api::agent::MAX_PROCESSES;
use tributary_lab::Lab;

use crate::commands::counters;
use crate::commands::moved::MovedArgs;
use crate::daemons::service::Stop;
use crate::lab::workers::{self, Prefix};
use crate::lab::{
    DEFAULT_NAME, FabricArgs, PagePlace, Record, broken, hold_namespaces, job, operations, page, rights,
    up_with_page,
};

/// Runs a whole fabric on this machine
///
/// Each node of the topology is a network namespace, and each link is a veth pair with a rate and losses. The daemons
/// run in the namespaces as on real hosts.
///
/// Without root, labs are made in a user namespace, if the kernel allows this. Each user then has separate labs.
/// Commands in these labs run as this user, but appear as root to themselves.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Start a fabric with a job that waits for its workers; it stays up until `down`
    Up(UpArgs),
    /// Run a command on all workers at once, as ranks of the job
    ///
    /// With a TOPOLOGY, a fabric is started for this command alone and removed after it. Without, the command runs in
    /// the fabric that `up` started. The command finds TRIBUTARY_RANK, TRIBUTARY_WORLD_SIZE, TRIBUTARY_JOB,
    /// TRIBUTARY_TOKEN_FILE, TRIBUTARY_SOCKET and TRIBUTARY_CONTROLLER in its environment, so that `tributary
    /// allreduce` and others need no options. It also finds the variables of torchrun: RANK, LOCAL_RANK, WORLD_SIZE,
    /// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, OMP_NUM_THREADS. If it fails on one worker, its processes on the
    /// others have 5 seconds to end by themselves.
    Run(LabRunArgs),
    /// Run a command at one node, with this terminal, and exit with its status
    ///
    /// At a worker, the command has the environment that `run` gives to a rank. At every node, its environment has
    /// TRIBUTARY_CONTROLLER, so that `tributary jobs` and others need no options.
    Exec(exec::ExecArgs),
    /// End everything that runs in a lab and remove it, after a crash too
    Down(DownArgs),
    /// Show the labs on this machine, also labs that a crash left, and the parts that are killed, cut or
    /// slow
    List(list::ListArgs),
    /// Show the log of a daemon, or the logs of all daemons by time, with the node's name in front
    Logs(logs::LogsArgs),
    /// Show the switches' counters, as `tributary counters` does
    Counters(LabCountersArgs),
    /// Kill the daemon at a node at once (SIGKILL): of a switch, a worker (its agent), the
    /// server, the controller
    Kill(operations::StationArgs),
    /// Restart the daemon at a node with its earlier command, and wait until it is ready
    Start(operations::StationArgs),
    /// Cut a link: frames sent over it vanish, in both directions, and neither end notices
    Cut(operations::CutArgs),
    /// Repair a link that was cut
    #[command(alias = "mend")]
    Repair(operations::LinkArgs),
    /// Make everything that runs at a node slower by a factor, also the commands of `run`
    Slow(operations::SlowArgs),
    /// Moved to the program tributary-bench
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Chaos(MovedArgs),
    /// The process that shows the controller's page
    #[command(hide = true)]
    KeepPage(page::PageArgs),
    /// The process that `slow` starts
    #[command(hide = true)]
    KeepSlow(operations::SlowArgs),
    /// The process that holds the namespaces of an ordinary user's labs
    #[command(hide = true)]
    HoldNamespaces {
        /// The folder by which the user's commands find it
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
struct UpArgs {
    /// Topology file
    topology: PathBuf,

    /// Name that distinguishes this lab from others on the machine
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,

    #[command(flatten)]
    fabric: FabricArgs,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct LabRunArgs {
    /// Topology file, for a fabric that exists only for this command
    topology: Option<PathBuf>,

    /// The lab to run in, or a name for the new one
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,

    #[command(flatten)]
    fabric: FabricArgs,

    /// Processes on each worker's host, each with a rank of its own
    #[arg(long, value_name = "RANKS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_PROCESSES)))]
    ranks_per_host: u16,

    /// Print the lines of the commands as they are, without the host's name in front
    #[arg(long)]
    no_prefix: bool,

    /// Command to run on every worker
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct DownArgs {
    /// Name of the lab [default: lab]
    #[arg(value_name = "NAME", conflicts_with = "name")]
    lab: Option<String>,

    /// Name of the lab; the same option as in the other commands
    #[arg(long)]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct LabCountersArgs {
    #[command(flatten)]
    lab: operations::WhichLab,

    #[command(flatten)]
    shown: counters::ShownArgs,
}

impl LabCommand {
    fn take_page_place(&self) -> Result<Option<PagePlace>> {
        match self {
            Self::Up(args) => args.fabric.take_page_place(),
            Self::Run(args) => args.fabric.take_page_place(),
            _ => Ok(None),
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The privileges to create a lab are missing, a step failed, or a command failed on a worker.
pub(crate) fn run(args: &LabArgs) -> Result<()> {
    match &args.command {
        LabCommand::HoldNamespaces { folder } => return hold_namespaces(folder),
        LabCommand::Chaos(args) => return args.refuse("lab chaos", &["chaos"]),
        _ => {}
    }
    let page = args.command.take_page_place()?;
    let rights = rights()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.command {
            LabCommand::Up(args) => up(args, page).await,
            LabCommand::Run(args) => run_command(args, page).await,
            LabCommand::Exec(args) => exec::run(args),
            LabCommand::Down(args) => down(args),
            LabCommand::List(args) => list::run(args, &rights),
            LabCommand::Logs(args) => logs::run(args),
            LabCommand::Counters(args) => show_counters(args),
            LabCommand::Kill(args) => operations::run_kill(args),
            LabCommand::Start(args) => operations::run_start(args).await,
            LabCommand::Cut(args) => operations::run_cut(args),
            LabCommand::Repair(args) => operations::run_repair(args),
            LabCommand::Slow(args) => operations::run_slow(args).await,
            LabCommand::Chaos(args) => args.refuse("lab chaos", &["chaos"]),
            LabCommand::KeepPage(args) => page::run_keep_page(args).await,
            LabCommand::KeepSlow(args) => operations::run_keep_slow(args).await,
            LabCommand::HoldNamespaces { folder } => hold_namespaces(folder),
        }
    })
}

async fn up(args: &UpArgs, page: Option<PagePlace>) -> Result<()> {
    let mut stop = Stop::new()?;
    let (lab, record) = up_with_page(&args.name, &args.topology, (&args.fabric, page), &mut stop).await?;
    lab.keep();
    record.print(args.json)
}

fn down(args: &DownArgs) -> Result<()> {
    let name = args.lab.as_ref().or(args.name.as_ref());
    Ok(Lab::clean(name.map_or(DEFAULT_NAME, String::as_str))?)
}

fn show_counters(args: &LabCountersArgs) -> Result<()> {
    let lab = args.lab.open()?;
    let record = Record::load(&lab)?;
    job::with_controller(&lab, &record, async |mut client| counters::show(&mut client, &args.shown).await)
}

async fn run_command(args: &LabRunArgs, page: Option<PagePlace>) -> Result<()> {
    let mut stop = Stop::new()?;
    let prefix = if args.no_prefix { Prefix::None } else { Prefix::Host };
    if let Some(topology) = &args.topology {
        let (lab, record) = up_with_page(&args.name, topology, (&args.fabric, page), &mut stop).await?;
        let done =
            workers::run(&lab, (&record, args.ranks_per_host), (&args.command, prefix), &mut stop).await;
        let removed = lab.down();
        return done.and(removed.map_err(Into::into));
    }
    let lab = Lab::open(&args.name)?;
    let record = Record::load(&lab)?;
    let ended = record.ended(&lab)?;
    if !ended.is_empty() {
        bail!("lab {} is {}", lab.name(), broken(lab.name(), &ended));
    }
    job::renew(&lab, &record)?;
    let done = workers::run(&lab, (&record, args.ranks_per_host), (&args.command, prefix), &mut stop).await;
    match done {
        Ok(()) => job::end_begun(&lab, &record)?,
        // A worker that remains must not take part in the next command's job.
        Err(_) => job::end(&lab, &record)?,
    }
    done
}
