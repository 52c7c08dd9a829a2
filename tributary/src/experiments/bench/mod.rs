//! `tributary bench`: measurements.

mod agent;
mod allreduce;
mod counters;
mod degraded;
mod endurance;
mod networks;
mod plan;
mod ranks;
mod scale;
mod schedule;
mod simulate;
mod switch;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use tokio::runtime;
use tributary_topology::parse_rate;
use tributary_wire::SliceWidth;

use crate::daemons::service::Stop;
use crate::lab::rights;

/// Measures the fabric, the agent, the protocol, the switch and the planner.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Debug, Clone, Subcommand)]
enum Measurement {
    Agent(agent::AgentArgs),
    Allreduce(allreduce::AllReduceArgs),
    Degraded(degraded::DegradedArgs),
    /// The training process of `degraded`
    #[command(hide = true)]
    DegradedWorker(degraded::WorkerArgs),
    Endurance(endurance::EnduranceArgs),
    Overlap(allreduce::overlap::OverlapArgs),
    Plan(plan::PlanArgs),
    Scale(scale::ScaleArgs),
    Schedule(schedule::ScheduleArgs),
    Simulate(simulate::SimulateArgs),
    Switch(switch::SwitchArgs),
}

impl Measurement {
    fn makes_labs(&self) -> bool {
        match self {
            Self::Agent(_) | Self::Allreduce(_) | Self::Degraded(_) | Self::Endurance(_) => true,
            Self::Overlap(_) | Self::Schedule(_) | Self::Switch(_) => true,
            Self::DegradedWorker(_) | Self::Plan(_) | Self::Scale(_) | Self::Simulate(_) => false,
        }
    }
}

/// Runs the measurement that was asked for.
///
/// # Errors
/// The measurement's errors.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let _rights = if args.measurement.makes_labs() { Some(rights()?) } else { None };
    match &args.measurement {
        Measurement::Agent(args) => agent::run(args),
        Measurement::Allreduce(args) => allreduce::run(args),
        Measurement::Degraded(args) => degraded::run(args),
        Measurement::DegradedWorker(args) => degraded::run_worker(args),
        Measurement::Endurance(args) => endurance::run(args),
        Measurement::Overlap(args) => allreduce::overlap::run(args),
        Measurement::Plan(args) => plan::run(args),
        Measurement::Scale(args) => scale::run(args),
        Measurement::Schedule(args) => schedule::run(args),
        Measurement::Simulate(args) => simulate::run(args),
        Measurement::Switch(args) => switch::run(args),
    }
}

/// Runs a measurement until a signal stops it; dropping it then ends its processes and removes its networks.
fn until_stopped<T>(measurement: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        tokio::select! {
            outcome = measurement => outcome,
            () = stop.requested() => bail!("interrupted; nothing stays"),
        }
    })
}

/// Parses the longest packet of links: a slice has to fit.
fn mtu(text: &str) -> Result<u16, String> {
    let mtu = text.parse().ok().filter(|mtu: &u16| SliceWidth::widest_within((*mtu).into()).is_some());
    mtu.ok_or_else(|| {
        format!("a number of bytes is needed, such as 1500, at least {}", SliceWidth::NARROWEST.mtu())
    })
}

/// Parses a rate.
fn rate(text: &str) -> Result<u64, String> {
    // `tc` writes rates without "/s".
    match parse_rate(text).or_else(|| parse_rate(&format!("{text}/s"))) {
        Some(rate) if rate > 0 => Ok(rate),
        _ => Err("a rate above 0 is needed, such as 50mbit or \"2.5 Gbit/s\"".to_owned()),
    }
}
