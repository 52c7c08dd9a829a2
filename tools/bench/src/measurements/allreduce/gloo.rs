//! PyTorch's gloo: one process on each worker, which runs for all turns.
//!
//! PyTorch takes seconds to start.

use std::fs;

use anyhow::{Context, Result, ensure};
use tributary_lab::Lab;

use super::args::AllReduceArgs;
use super::timing::{self, Timing};
use crate::measurements::ranks::Rank;
use tributary::lab::threads_of_a_rank;

const SCRIPT: &str = include_str!("../../../baselines/gloo.py");
/// Line that a process prints when all ranks are connected.
const READY: &str = "ready";

/// The processes, one on each worker.
#[derive(Debug)]
pub(super) struct Gloo {
    ranks: Vec<Rank>,
    iterations: u32,
}

impl Gloo {
    /// Starts the processes and waits until all are connected.
    pub(super) async fn start(lab: &Lab, hosts: &[String], args: &AllReduceArgs) -> Result<Self> {
        let script = lab.folder().join("gloo.py");
        fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        let mut ranks = Vec::new();
        for (rank, host) in hosts.iter().enumerate() {
            let mut command = lab.command(host, &args.python)?;
            command.arg(&script).args([rank.to_string(), hosts.len().to_string()]);
            command.arg(lab.folder().join("gloo.store")).arg(args.elements().to_string());
            for interface in lab.interfaces(host)? {
                command.env("GLOO_SOCKET_IFNAME", &interface.name);
            }
            command.envs(threads_of_a_rank());
            ranks.push(Rank::start(&format!("gloo on {host}"), command)?);
        }
        let mut gloo = Self { ranks, iterations: args.iterations };
        for said in gloo.lines().await? {
            ensure!(said == READY, "the process of gloo printed {said:?} instead of {READY:?}");
        }
        Ok(gloo)
    }

    /// Runs one turn.
    pub(super) async fn turn(&mut self) -> Result<Vec<Timing>> {
        for rank in &mut self.ranks {
            rank.tell(&self.iterations.to_string()).await;
        }
        let lines = self.lines().await?;
        timing::of_all(lines.iter().map(String::as_str), self.iterations)
    }

    async fn lines(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for rank in &mut self.ranks {
            lines.push(rank.line().await?);
        }
        Ok(lines)
    }
}
