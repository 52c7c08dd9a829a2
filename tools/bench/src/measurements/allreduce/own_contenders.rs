//! This project's own contenders: `tributary allreduce` on all workers, through their agents.

use anyhow::Result;
use tributary_lab::{Daemons, Lab};

use super::args::AllReduceArgs;
use super::timing::{self, Timing};
use crate::measurements::ranks::Rank;
use tributary::lab::{Record, tributary_program};

/// Runs one turn: a process on each worker.
pub(super) async fn turn(lab: &Lab, record: &Record, args: &AllReduceArgs) -> Result<Vec<Timing>> {
    let lines =
        run(lab, record, (args.size.as_u64(), 1), args.iterations, &["--dtype", args.dtype.name()]).await?;
    timing::of_all(lines.iter().map(String::as_str), args.iterations)
}

/// Runs processes on each worker, each of which reduces a tensor of `bytes` bytes `iterations` times.
/// Returns the output of the processes.
pub(in crate::measurements) async fn run(
    lab: &Lab,
    record: &Record,
    (bytes, processes): (u64, u32),
    iterations: u32,
    more: &[&str],
) -> Result<Vec<String>> {
    let daemons = Daemons::new(lab, tributary_program()?);
    let (size, iterations) = (bytes.to_string(), iterations.to_string());
    let mut options = vec!["allreduce", "--check", "--barrier", "--json"];
    options.extend(["--size", &size, "--iterations", &iterations, "--warm-up", &size]);
    options.extend(more);
    let mut ranks = Vec::new();
    let all = record.workers.iter().flat_map(|worker| (0..processes).map(move |process| (worker, process)));
    for (worker, process) in all {
        let mut command = daemons.command(&worker.host, &options)?;
        command.args(["--job", &record.job, "--socket"]).arg(&worker.socket);
        command.arg("--token-file").arg(&record.token_file);
        command.args(["--process", &process.to_string(), "--processes", &processes.to_string()]);
        ranks.push(Rank::start(&format!("tributary allreduce on {}", worker.host), command)?);
    }
    let mut lines = Vec::new();
    for rank in ranks {
        lines.push(rank.only_line().await?);
    }
    Ok(lines)
}
