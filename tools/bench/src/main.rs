//! `tributary-bench`: measures fabrics, and disturbs them on purpose.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic where output cannot be written: `tributary_cli::output` does not"
)]

mod chaos;
mod measurements;

use std::process::{self, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use tributary::VERSION;
use tributary::lab::{rights, tributary_program};
use tributary_cli::output;

use measurements::{agent, allreduce, degraded, endurance, node, plan, scale, schedule, simulate, switch};

/// Measures the fabric, the agent, the protocol, the switch and the planner, and breaks fabrics on
/// purpose
///
/// Labs run the program `tributary` from the same folder, or the program that the variable TRIBUTARY_BINARY names.
#[derive(Debug, Parser)]
#[command(name = "tributary-bench", version = VERSION.as_str(), propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(agent::AgentArgs),
    Allreduce(allreduce::AllReduceArgs),
    /// Break components at random while a training runs, and report the effects
    ///
    /// The command makes a lab. Each training process on a worker of the lab (`--ranks-per-host`) runs all-reduces without end and checks every
    /// sum: it must be the sum over exactly the members that it names, and all members must have the same bits.
    /// Meanwhile the command kills and restarts switches, the controller, agents, the server and training processes,
    /// and cuts and repairs links. It hits one target after the other, and sometimes two at once. The next hit
    /// follows when all members are in the job again.
    ///
    /// A pause belongs to one disturbance: it is the longest time between two consecutive sums of a member that was
    /// not hit, from the disturbance until all members are in the job again. A member is hit if its process or its
    /// host's agent is killed, or if it is cut off from the part of the network with the most members (of several
    /// largest parts, the part with the shortest pause counts as not cut off). Each of two simultaneous disturbances
    /// gets the longest pause of both. A member that was hit is back with its first sum after the repair. A member is
    /// stuck if it makes no progress for more than 10 s without a hit, or is not back 10 s after the repair.
    Chaos(chaos::ChaosArgs),
    /// The training process of `chaos`
    #[command(hide = true)]
    ChaosWorker(chaos::ChaosWorkerArgs),
    Degraded(degraded::DegradedArgs),
    /// The training process of `degraded`
    #[command(hide = true)]
    DegradedWorker(degraded::DegradedWorkerArgs),
    Endurance(endurance::EnduranceArgs),
    Forwarding(switch::forwarding::ForwardingArgs),
    Node(node::NodeArgs),
    Overlap(allreduce::overlap::OverlapArgs),
    Plan(plan::PlanArgs),
    Scale(scale::ScaleArgs),
    Schedule(schedule::ScheduleArgs),
    Simulate(simulate::SimulateArgs),
    Switch(switch::SwitchArgs),
}

impl Command {
    fn makes_labs(&self) -> bool {
        match self {
            Self::Agent(_) | Self::Allreduce(_) | Self::Chaos(_) | Self::Degraded(_) => true,
            Self::Endurance(_) | Self::Forwarding(_) | Self::Node(_) | Self::Overlap(_) => true,
            Self::Schedule(_) | Self::Switch(_) => true,
            Self::ChaosWorker(_) | Self::DegradedWorker(_) => false,
            Self::Plan(_) | Self::Scale(_) | Self::Simulate(_) => false,
        }
    }
}

fn main() -> ExitCode {
    tributary::process::end(run(&tributary::process::start::<Cli>().command))
}

fn run(command: &Command) -> Result<()> {
    // Takes the page's address before this process gets the rights to make labs. An ordinary user's process
    // gets them in another network namespace, which browsers cannot reach.
    let page = match command {
        Command::Chaos(args) => args.take_page_place()?,
        _ => None,
    };
    let _rights = if command.makes_labs() {
        check_tributary()?;
        Some(rights()?)
    } else {
        None
    };
    match command {
        Command::Agent(args) => agent::run(args),
        Command::Allreduce(args) => allreduce::run(args),
        Command::Chaos(args) => chaos::run(args, page),
        Command::ChaosWorker(args) => chaos::run_worker(args),
        Command::Degraded(args) => degraded::run(args),
        Command::DegradedWorker(args) => degraded::run_worker(args),
        Command::Endurance(args) => endurance::run(args),
        Command::Forwarding(args) => switch::forwarding::run(args),
        Command::Node(args) => node::run(args),
        Command::Overlap(args) => allreduce::overlap::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Scale(args) => scale::run(args),
        Command::Schedule(args) => schedule::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Switch(args) => switch::run(args),
    }
}

/// Checks that labs will run `tributary`, and warns if it is of another commit than this program.
///
/// This happens if cargo has rebuilt only one of the programs.
///
/// # Errors
/// The program cannot be run, or is not `tributary`.
fn check_tributary() -> Result<()> {
    const FIX: &str =
        "install `tributary` in the folder of this program, or set TRIBUTARY_BINARY to its path";
    let tributary = tributary_program()?;
    let printed = process::Command::new(&tributary).arg("--version").output();
    let printed = printed.with_context(|| format!("cannot run {}: {FIX}", tributary.display()))?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    let Some(version) = printed.lines().next().and_then(|line| line.strip_prefix("tributary ")) else {
        bail!("{} is not the program `tributary`: {FIX}", tributary.display());
    };
    if version != VERSION.as_str() {
        output::complain(format_args!(
            "warning: labs run {} {version}, but this program is {}: build both at the same commit",
            tributary.display(),
            *VERSION,
        ));
    }
    Ok(())
}
