//! The `tributary` command line: argument parsing and wiring only.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic where output cannot be written: `tributary_cli::output` does not"
)]

mod allocator;
mod command_line;
mod commands;
mod daemons;
mod experiments;
mod files;
mod lab;
mod options;
mod present;
mod version;

use std::process::ExitCode;

use anyhow::Error;
use clap::{Parser, Subcommand};
use tributary_cli::output;

use commands::{allreduce, certs, counters, doctor, jobs, manual, plan, topology};
use daemons::service::{DaemonArgs, WrongUse};
use daemons::{agent, controller, server, switch};
use experiments::{bench, ps};
use lab::NoProgram;

/// In-network gradient aggregation: switches aggregate the gradients of distributed training
#[derive(Debug, Parser)]
#[command(version = version::VERSION.as_str(), propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the agent of a host
    ///
    /// It takes part in jobs for the training processes there.
    Agent(DaemonArgs<agent::Settings>),
    Allreduce(allreduce::AllReduceArgs),
    Bench(bench::BenchArgs),
    Certs(certs::CertsArgs),
    Completions(manual::CompletionsArgs),
    /// Runs the controller, which plans jobs and sets up switches
    Controller(DaemonArgs<controller::Settings>),
    Counters(counters::CountersArgs),
    Demo(tributary_demo::DemoArgs),
    Doctor(doctor::DoctorArgs),
    Jobs(jobs::JobsArgs),
    Lab(commands::lab::LabArgs),
    #[command(hide = true)]
    Man(manual::ManArgs),
    Plan(plan::PlanArgs),
    Ps(ps::PsArgs),
    /// Runs an aggregation server, a parameter server, or both
    Server(DaemonArgs<server::Settings>),
    /// Runs an embedded switch between network interfaces
    Switch(DaemonArgs<switch::Settings>),
    Topology(topology::TopologyArgs),
}

/// The exit status for wrong use, as clap has it; 1 means that something failed.
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    allocator::give_large_pieces_back();
    let done = match &version::parse_or_tell_version::<Cli>().command {
        Command::Agent(args) => agent::run(args),
        Command::Allreduce(args) => allreduce::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Certs(args) => certs::run(args),
        Command::Completions(args) => manual::print_completions(args, command_line::command::<Cli>()),
        Command::Controller(args) => controller::run(args),
        Command::Counters(args) => counters::run(args),
        Command::Demo(args) => return tributary_demo::run(args),
        Command::Doctor(args) => return doctor::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Lab(args) => commands::lab::run(args),
        Command::Man(args) => manual::write_pages(args, command_line::command::<Cli>()),
        Command::Plan(args) => plan::run(args),
        Command::Ps(args) => ps::run(args),
        Command::Server(args) => server::run(args),
        Command::Switch(args) => switch::run(args),
        Command::Topology(args) => topology::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format_args!("error: {error:#}"));
            exit_code(&error)
        }
    }
}

fn exit_code(error: &Error) -> ExitCode {
    match error.downcast_ref::<NoProgram>() {
        Some(no_program) => ExitCode::from(no_program.status()),
        None if error.is::<WrongUse>() => ExitCode::from(WRONG_USE),
        None => ExitCode::FAILURE,
    }
}
