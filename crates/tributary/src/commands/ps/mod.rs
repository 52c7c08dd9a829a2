//! `tributary ps`: training over a parameter server.

mod codecs;
mod curve;
mod experiment;
mod gates;
mod learner;
mod options;
mod policies;
mod record;
mod run;
mod timeline;
mod way;
mod worker;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Trains over a parameter server, and compares ways to do so.
#[derive(Debug, Clone, Args)]
pub(crate) struct PsArgs {
    #[command(subcommand)]
    command: Ps,
}

#[derive(Debug, Clone, Subcommand)]
enum Ps {
    Run(run::RunArgs),
    /// Compares policies or codecs on the same training, and checks their limits
    #[command(subcommand)]
    Compare(Compare),
    Worker(worker::WorkerArgs),
}

#[derive(Debug, Clone, Subcommand)]
enum Compare {
    Codecs(codecs::CodecsArgs),
    Policies(policies::PoliciesArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// The errors of the subcommand.
pub(crate) fn run(args: &PsArgs) -> Result<()> {
    match &args.command {
        Ps::Run(args) => run::run(args),
        Ps::Compare(Compare::Policies(args)) => policies::run(args),
        Ps::Compare(Compare::Codecs(args)) => codecs::run(args),
        Ps::Worker(args) => worker::run(args),
    }
}
