//! A job of two workers on two hosts, which processes join.

use std::path::PathBuf;

use tempfile::TempDir;
use tributary_api::{Downlink, ProcessCounts};
use tributary_client::{Agent, ClientError, Job, Operation};
use tributary_host_agent::{Limits, RunningAgent, ServerAgent, open_once};

use crate::directory::{Directory, TOKEN};
use crate::hosts::{self, reduce, start_limited_agent};
use crate::job::configs;
use crate::star::{Hub, Meddle};

const WORKERS: u8 = 2;

/// The agents of two hosts, the server of their job, and a simulated controller.
pub(crate) struct Hosts {
    pub(crate) folder: TempDir,
    pub(crate) directory: Directory,
    pub(crate) agents: Vec<RunningAgent>,
    _server: ServerAgent,
    _hub: Hub,
}

impl Hosts {
    pub(crate) async fn start() -> Self {
        Self::limited(&Limits::of_this_machine()).await
    }

    /// Starts agents with these limits.
    pub(crate) async fn limited(limits: &Limits) -> Self {
        Self::start_with(limits, Downlink::Multicast, Box::new(|_, _| {})).await
    }

    /// Starts agents with these limits on a network that applies `meddle` to frames.
    pub(crate) async fn start_with(limits: &Limits, downlink: Downlink, meddle: Meddle) -> Self {
        Self::start_processes([1, 1], limits, downlink, meddle).await
    }

    /// Starts agents of hosts with these numbers of processes.
    pub(crate) async fn of_processes(processes: [u32; 2]) -> Self {
        let limits = Limits::of_this_machine();
        Self::start_processes(processes, &limits, Downlink::Multicast, Box::new(|_, _| {})).await
    }

    async fn start_processes(
        processes: [u32; 2],
        limits: &Limits,
        downlink: Downlink,
        meddle: Meddle,
    ) -> Self {
        let (mut ports, hub) = Hub::with_ports(WORKERS, 0.0, meddle);
        let (mut worker_configs, server_config) = configs(WORKERS, downlink);
        let counts = ProcessCounts::new(processes).unwrap();
        worker_configs.iter_mut().for_each(|config| config.processes = counts.clone());
        let server = ServerAgent::start(&server_config, Box::new(ports.pop().unwrap())).unwrap();
        let directory = Directory::start(worker_configs).await;
        let folder = tempfile::tempdir().unwrap();
        let mut agents = Vec::new();
        for (rank, port) in ports.into_iter().enumerate() {
            let limits = limits.clone();
            agents.push(start_limited_agent(directory.remote(), &folder, rank, open_once(port), limits));
        }
        Self { folder, directory, agents, _server: server, _hub: hub }
    }

    pub(crate) fn socket(&self, rank: usize) -> PathBuf {
        hosts::socket(&self.folder, rank)
    }

    pub(crate) async fn join(&self, rank: usize, token: &[u8]) -> Result<Job, ClientError> {
        Agent::connect(self.socket(rank)).await?.join("star", token.into()).await
    }

    /// Waits until this rank's agent has sent a frame.
    pub(crate) async fn has_sent(&self, rank: usize) {
        let observer = self.agents[rank].observer();
        while observer.stats().iter().all(|job| job.stats.protocol.sent == 0) {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn join_both(&self) -> [Job; 2] {
        let (first, second) = tokio::join!(self.join(0, TOKEN), self.join(1, TOKEN));
        [first.unwrap(), second.unwrap()]
    }
}

/// Sums `values` with the other rank's values.
pub(crate) async fn sum(job: &mut Job, values: &[f32]) -> Result<Vec<f32>, ClientError> {
    let mut sums = values.to_vec();
    let runs = reduce(job, &mut sums, Operation::whole::<f32>()).await?;
    assert_eq!((runs.len(), runs[0].contributors, runs[0].elements), (1, 2, values.len() as u64));
    Ok(sums)
}
