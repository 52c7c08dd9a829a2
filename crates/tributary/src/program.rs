//! The command line of `tributary`: argument parsing and wiring only.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{allreduce, certs, counters, doctor, jobs, lab, manual, moved, plan, ps, topology};
use crate::daemons::service::DaemonArgs;
use crate::daemons::{agent, controller, server, switch};
use crate::lab::executable;
use crate::{command_line, process, version};

/// In-network gradient aggregation: switches aggregate the gradients of distributed training
#[derive(Debug, Parser)]
#[command(name = "tributary", version = version::VERSION.as_str(), propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the agent of a host
    ///
    /// It takes part in jobs for the training processes there.
    Agent(DaemonArgs<agent::AgentSettings>),
    Allreduce(allreduce::AllReduceArgs),
    /// Moved to the program tributary-bench
    #[command(hide = true, disable_help_flag = true, disable_version_flag = true)]
    Bench(moved::MovedArgs),
    Certs(certs::CertsArgs),
    Completions(manual::CompletionsArgs),
    /// Runs the controller, which plans jobs and sets up switches
    Controller(DaemonArgs<controller::ControllerSettings>),
    Counters(counters::CountersArgs),
    Demo(tributary_demo::DemoArgs),
    Doctor(doctor::DoctorArgs),
    Jobs(jobs::JobsArgs),
    Lab(lab::LabArgs),
    #[command(hide = true)]
    Man(manual::ManArgs),
    Plan(plan::PlanArgs),
    Ps(ps::PsArgs),
    /// Runs an aggregation server, a parameter server, or both
    Server(DaemonArgs<server::ServerSettings>),
    /// Runs an embedded switch between network interfaces
    Switch(DaemonArgs<switch::SwitchSettings>),
    Topology(topology::TopologyArgs),
}

/// Runs the program with the arguments of this process. Only the program `tributary` calls this.
pub fn main() -> ExitCode {
    executable::this_is_tributary();
    let done = match &process::start::<Cli>().command {
        Command::Agent(args) => agent::run(args),
        Command::Allreduce(args) => allreduce::run(args),
        Command::Bench(args) => args.refuse("bench", &[]),
        Command::Certs(args) => certs::run(args),
        Command::Completions(args) => manual::print_completions(args, command_line::command::<Cli>()),
        Command::Controller(args) => controller::run(args),
        Command::Counters(args) => counters::run(args),
        Command::Demo(args) => return tributary_demo::run(args),
        Command::Doctor(args) => return doctor::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Man(args) => manual::write_pages(args, command_line::command::<Cli>()),
        Command::Plan(args) => plan::run(args),
        Command::Ps(args) => ps::run(args),
        Command::Server(args) => server::run(args),
        Command::Switch(args) => switch::run(args),
        Command::Topology(args) => topology::run(args),
    };
    process::end(done)
}
