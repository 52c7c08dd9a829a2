//! PyTorch's gloo: processes on the workers, which run for all turns.
//!
//! PyTorch takes seconds to start.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;
use tributary_bench::comparison::Elements;
use tributary_lab::Lab;

use super::timing::{self, Timing};
use crate::measurements::ranks::Rank;
use tributary::lab::threads_of_a_rank;

const SCRIPT: &str = include_str!("../../../baselines/gloo.py");
/// Line that a process prints when all ranks are connected.
const READY: &str = "ready";
const PATIENCE_TO_START: Duration = Duration::from_secs(120);

/// The work of each process.
#[derive(Debug, Clone, Copy)]
pub(in crate::measurements) struct GlooWork<'a> {
    /// The Python interpreter with PyTorch.
    pub(in crate::measurements) python: &'a Path,
    pub(in crate::measurements) elements: u64,
    pub(in crate::measurements) dtype: Elements,
    /// The number of all-reduces in each turn.
    pub(in crate::measurements) iterations: u32,
}

/// The processes.
#[derive(Debug)]
pub(in crate::measurements) struct Gloo {
    ranks: Vec<Rank>,
    iterations: u32,
}

impl Gloo {
    /// Starts a process for each rank, on the rank's host, and waits until all are connected.
    pub(in crate::measurements) async fn start(
        lab: &Lab,
        hosts: &[String],
        work: GlooWork<'_>,
    ) -> Result<Self> {
        let started = timeout(PATIENCE_TO_START, Self::connect(lab, hosts, work)).await;
        started.with_context(|| format!("gloo's ranks are not connected after {PATIENCE_TO_START:?}"))?
    }

    async fn connect(lab: &Lab, hosts: &[String], work: GlooWork<'_>) -> Result<Self> {
        let GlooWork { python, elements, dtype, iterations } = work;
        let script = lab.folder().join("gloo.py");
        fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        let mut ranks = Vec::new();
        for (rank, host) in hosts.iter().enumerate() {
            let mut command = lab.command(host, python)?;
            command.arg(&script).args([rank.to_string(), hosts.len().to_string()]);
            command.arg(lab.folder().join("gloo.store")).args([&elements.to_string(), dtype.name()]);
            for interface in lab.interfaces(host)? {
                command.env("GLOO_SOCKET_IFNAME", &interface.name);
            }
            command.envs(threads_of_a_rank());
            ranks.push(Rank::start(&format!("gloo's rank {rank} on {host}"), command)?);
        }
        let mut gloo = Self { ranks, iterations };
        for said in gloo.lines().await? {
            ensure!(said == READY, "the process of gloo printed {said:?} instead of {READY:?}");
        }
        Ok(gloo)
    }

    /// Runs one turn.
    pub(in crate::measurements) async fn turn(&mut self) -> Result<Vec<Timing>> {
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
