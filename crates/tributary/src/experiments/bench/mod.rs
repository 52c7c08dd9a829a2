//! `tributary bench`: measurements.

mod agent;
mod allreduce;
mod common;
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

use anyhow::Result;
use clap::{Args, Subcommand};

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
    Forwarding(switch::forwarding::ForwardingArgs),
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
            Self::Forwarding(_) | Self::Overlap(_) | Self::Schedule(_) | Self::Switch(_) => true,
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
        Measurement::Forwarding(args) => switch::forwarding::run(args),
        Measurement::Overlap(args) => allreduce::overlap::run(args),
        Measurement::Plan(args) => plan::run(args),
        Measurement::Scale(args) => scale::run(args),
        Measurement::Schedule(args) => schedule::run(args),
        Measurement::Simulate(args) => simulate::run(args),
        Measurement::Switch(args) => switch::run(args),
    }
}
