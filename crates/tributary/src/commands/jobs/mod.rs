//! `tributary jobs`: creates, lists, explains and ends jobs at the controller.

mod create;
mod end;
mod explain;
mod list;
pub(crate) mod queue;
mod schedule;

use anyhow::Result;
use clap::{Args, Subcommand};
pub(crate) use create::write_token;
use tokio::runtime;

use crate::options::remote::ControllerArgs;

/// Creates, lists, explains and ends jobs of the fabric
#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    controller: ControllerArgs,

    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: JobsCommand,
}

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Plan a job and take its slots; it starts when all of its members have joined
    Create(create::CreateArgs),
    /// Show all current jobs, and the last jobs that ended
    List,
    /// Show the step times of a job's processes, the groups with which it could continue, and its treatment
    /// of slow processes
    Explain(explain::ExplainArgs),
    /// Show the times at which a job's gradients are sent, and the profile of the backward pass
    Schedule(schedule::ScheduleArgs),
    /// End a job and withdraw its tables
    End(end::EndArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// The controller does not answer, or refuses.
pub(crate) fn run(args: &JobsArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.command {
            JobsCommand::Create(create) => create::run(&args.controller, create, args.json).await,
            JobsCommand::Explain(explain) => explain::run(&args.controller, explain, args.json).await,
            JobsCommand::Schedule(schedule) => schedule::run(&args.controller, schedule, args.json).await,
            JobsCommand::List => list::run(&args.controller, args.json).await,
            JobsCommand::End(end) => end::run(&args.controller, end, args.json).await,
        }
    })
}
