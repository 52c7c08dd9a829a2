//! `tributary jobs`: creates, lists, explains and ends jobs at the controller.

mod create;
mod explain;
mod list;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
pub(crate) use create::write_token;
use tokio::runtime;
use tributary_api::v1;

use crate::remote::{ControllerArgs, read_token, refused};

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
    /// Show the jobs that are alive, and the last ones that were
    List,
    /// Show what a job's processes take for a step, which groups of them it could go on with, and what is done about slow
    /// ones
    Explain(explain::ExplainArgs),
    /// End a job and withdraw its tables
    End(EndArgs),
}

#[derive(Debug, Args)]
struct EndArgs {
    /// The job's name
    name: String,

    /// File with the job's token [default: none, for operators where the controller demands certificates]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Does what the subcommand says.
///
/// # Errors
/// No controller, or its refusal.
pub(crate) fn run(args: &JobsArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.command {
            JobsCommand::Create(create) => create::run(&args.controller, create, args.json).await,
            JobsCommand::Explain(explain) => explain::run(&args.controller, explain, args.json).await,
            JobsCommand::List => list::run(&args.controller, args.json).await,
            JobsCommand::End(end) => run_end(&args.controller, end, args.json).await,
        }
    })
}

async fn run_end(controller: &ControllerArgs, args: &EndArgs, json: bool) -> Result<()> {
    let token = args.token_file.as_deref().map(read_token).transpose()?.unwrap_or_default();
    let request = v1::EndJobRequest { job: args.name.clone(), token };
    controller.connect().await?.end_job(request).await.map_err(refused)?;
    if json {
        println!("{}", serde_json::json!({ "job": args.name, "state": "ended" }));
    } else {
        println!("job {} has ended", args.name);
    }
    Ok(())
}
