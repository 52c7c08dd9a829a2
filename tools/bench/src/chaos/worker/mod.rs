//! `tributary-bench chaos-worker`: the training process of a worker in a chaos run.
//!
//! It reduces until it is killed, and reports each result.

mod member;
mod participant;
mod sums;

use std::convert::Infallible;
use std::io::{self, Write};
use std::process;
use std::time::Duration;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use tokio::runtime;
use tokio::time::sleep;

use member::Member;
use participant::Participant;
pub(super) use sums::MAX_RANKS;

use super::event::MemberEvent;
use tributary::PartArgs;

/// Time that a process waits before it tries to rejoin a job that it has lost.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Options of a chaos worker.
#[derive(Debug, Args)]
pub(crate) struct ChaosWorkerArgs {
    #[command(flatten)]
    part: PartArgs,

    /// Ranks of the job
    #[arg(long, env = "TRIBUTARY_WORLD_SIZE")]
    ranks: u32,

    /// Size of the tensor
    #[arg(long)]
    size: ByteSize,
}

/// Reduces until the process is killed.
///
/// # Errors
/// The process cannot start. After the start, the process reports errors and tries again.
pub(crate) fn run(args: &ChaosWorkerArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(reduce(args))
}

async fn reduce(args: &ChaosWorkerArgs) -> Result<()> {
    let elements = usize::try_from(args.size.as_u64())? / size_of::<f32>();
    let mut member = Member::new(args.ranks, elements);
    loop {
        let Err(error) = take_part(args, &mut member).await;
        say(&MemberEvent::Out { reason: format!("{error:#}") });
        sleep(RETRY_INTERVAL).await;
    }
}

/// Reduces while this process is in the job.
async fn take_part(args: &ChaosWorkerArgs, member: &mut Member) -> Result<Infallible> {
    let mut participant = Participant::open(&args.part, member.most_elements()).await?;
    let rank = participant.rank();
    say(&MemberEvent::Joined);
    loop {
        if let Some(event) = member.step(rank, &mut participant).await? {
            say(&event);
        }
    }
}

fn say(event: &MemberEvent) {
    let line = serde_json::to_string(event).unwrap_or_default();
    let said = writeln!(io::stdout().lock(), "{line}");
    if said.is_err() {
        // The runner has ended, so that no process reads the reports.
        process::exit(1);
    }
}
