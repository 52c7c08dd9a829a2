//! The `tributary` command line: argument parsing and wiring only.

mod bench;
mod demo;
mod options;
mod plan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// In-network gradient aggregation: programmable switches add up the gradients of distributed training
/// while they travel.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::BenchArgs),
    Demo(demo::DemoArgs),
    Plan(plan::PlanArgs),
}

/// Exit status 2 is clap's, for wrong use; 1 says that something failed.
fn main() -> ExitCode {
    let done = match &Cli::parse().command {
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Plan(args) => plan::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
