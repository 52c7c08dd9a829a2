//! Hosts around a hub, with a job whose simulated controller changes its generation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::{self, job_event::Event};
use tributary_api::{Downlink, TakeOver};
use tributary_client::{Job, JoinOptions};
use tributary_host_agent::{OpenPort, RunningAgent, Served, Servers};
use tributary_wire::Seq;

use crate::directory::{Directory, TOKEN};
use crate::hosts::{self, start_agent};
use crate::job::Structure;
use crate::line::Line;
use crate::star::{Hub, Meddle};

/// The agents of hosts, of which some are in a job, two servers, and a controller.
pub(crate) struct Fabric {
    pub(crate) directory: Directory,
    /// The structure that the members received last, or the next structure.
    pub(crate) structure: Structure,
    pub(crate) agents: Vec<RunningAgent>,
    /// The line from the agents to the controller.
    pub(crate) line: Line,
    folder: TempDir,
    /// Opens ports of the second server's host.
    second: OpenPort,
    serves: Served,
    _hub: Hub,
}

impl Fabric {
    pub(crate) async fn start(workers: u8, meddle: Meddle) -> Self {
        Self::start_with(Structure::first(workers, Downlink::Multicast), meddle).await
    }

    /// Starts a fabric in which each worker gets its results by unicast.
    pub(crate) async fn start_unicast(workers: u8, meddle: Meddle) -> Self {
        Self::start_with(Structure::first(workers, Downlink::Unicast), meddle).await
    }

    async fn start_with(structure: Structure, meddle: Meddle) -> Self {
        let workers = u8::try_from(structure.ranks.len()).unwrap();
        let hub = Hub::start(workers, 0.0, meddle);
        let configs = structure.ranks.iter().map(|rank| structure.worker(*rank)).collect();
        let mut directory = Directory::start(configs).await;
        directory.carry_on();
        let [first, second] = [0, 1].map(|server| hub.opener(workers + server));
        let first = Servers::new("s0".into(), directory.remote(), first);
        let serves = first.serve("star", TOKEN).unwrap();
        directory.wait_for("s0 as the server joins").await;
        directory.tell("s0 as the server", Event::Start((&structure.server()).into())).await;
        let (folder, line) = (tempfile::tempdir().unwrap(), Line::to(directory.address()).await);
        let start = |rank: u8| start_agent(line.remote(), &folder, rank.into(), hub.opener(rank));
        let agents = (0..workers).map(start).collect();
        Self { directory, structure, agents, line, folder, second, serves, _hub: hub }
    }

    pub(crate) fn socket(&self, rank: usize) -> PathBuf {
        hosts::socket(&self.folder, rank)
    }

    /// Lets processes of all hosts join.
    pub(crate) async fn join_all<const N: usize>(&mut self, options: JoinOptions) -> [Job; N] {
        let joining: Vec<_> =
            (0..N).map(|rank| tokio::spawn(hosts::join(self.socket(rank), options.clone()))).collect();
        let mut jobs = Vec::new();
        for job in joining {
            jobs.push(job.await.unwrap().unwrap());
        }
        self.directory.listen_from_now_on();
        jobs.try_into().unwrap_or_else(|_| panic!("not {N} jobs"))
    }

    /// Waits until all agents have joined again after the connection to the controller was cut.
    pub(crate) async fn come_back(&mut self) {
        let mut missing = self.workers();
        while !missing.is_empty() {
            let heard = self.directory.wait_for("w").await;
            missing.retain(|worker| !heard.starts_with(&format!("{worker} comes back in generation")));
        }
    }

    fn workers(&self) -> Vec<String> {
        self.structure.ranks.iter().map(|rank| format!("w{rank}")).collect()
    }

    fn server(&self) -> String {
        format!("s{} as the server", self.structure.server)
    }

    pub(crate) async fn tell_workers(&self, event: Event) {
        for worker in self.workers() {
            self.directory.tell(&worker, event.clone()).await;
        }
    }

    /// Freezes all workers, and returns their progress.
    pub(crate) async fn prepare(&mut self) -> BTreeMap<String, v1::WorkerProgress> {
        self.tell_workers(Event::Prepare(v1::Prepare { generation: self.structure.generation + 1 })).await;
        self.directory.progress(self.structure.ranks.len()).await
    }

    /// Changes all members to the present structure, first the server and then the workers.
    pub(crate) async fn change(&mut self) {
        let server = self.server();
        self.directory.tell(&server, Event::Change((&self.structure.server()).into())).await;
        self.changed(1).await;
        self.change_workers(&[]).await;
    }

    /// Changes all workers to the present structure, except those in `joined`.
    pub(crate) async fn change_workers(&mut self, joined: &[u8]) {
        let old: Vec<_> =
            self.structure.ranks.iter().copied().filter(|rank| !joined.contains(rank)).collect();
        for rank in &old {
            let config = self.structure.worker(*rank);
            self.directory.tell(&format!("w{rank}"), Event::Change((&config).into())).await;
        }
        self.changed(old.len()).await;
    }

    /// Waits until `members` members have confirmed the change.
    async fn changed(&mut self, members: usize) {
        for _ in 0..members {
            let (host, generation, answer) = self.directory.answer().await;
            let Answer::Changed(_) = answer else { panic!("{host}: {answer:?}") };
            assert_eq!(generation, self.structure.generation, "{host}");
        }
    }

    /// Lets these ranks, which have joined at the controller, into the job after all others are idle.
    pub(crate) async fn let_join(&mut self, joined: &[u8]) {
        let all = std::mem::take(&mut self.structure.ranks);
        self.structure.ranks = all.iter().copied().filter(|rank| !joined.contains(rank)).collect();
        let progress = self.prepare().await;
        let first = progress.values().next().unwrap();
        assert!(progress.values().all(|other| other.idle && other == first), "{progress:?}");
        self.structure = Structure {
            ranks: all,
            joined: joined.to_vec(),
            start_seqs: first.next_seqs.iter().copied().map(Seq).collect(),
            begun: first.begun,
            ..self.structure.next()
        };
        let server = self.server();
        self.directory.tell(&server, Event::Change((&self.structure.server()).into())).await;
        self.changed(1).await;
        self.change_workers(joined).await;
        for rank in joined {
            let config = self.structure.worker(*rank);
            self.directory.tell(&format!("w{rank}"), Event::Start((&config).into())).await;
        }
    }

    /// Relieves the present server of the job.
    pub(crate) async fn relieve(&mut self) {
        let server = self.server();
        self.directory.tell(&server, Event::Relieved(v1::JobRelieved {})).await;
        self.serves.clone().over().await.unwrap();
    }

    /// Returns the servers of this host, with the port of the second server.
    pub(crate) fn second_server(&self, host: &str) -> Servers {
        Servers::new(host.into(), self.directory.remote(), Arc::clone(&self.second))
    }

    /// Lets the second server continue in the present structure where the first server stopped.
    pub(crate) async fn take_over(&mut self, take_over: TakeOver) {
        self.structure.server = 1;
        self.serves = self.second_server("s1").serve("star", TOKEN).unwrap();
        self.directory.wait_for("s1 as the server joins").await;
        let config = self.structure.server_after(Some(take_over));
        self.directory.tell(&self.server(), Event::Start((&config).into())).await;
        self.change_workers(&[]).await;
    }

    /// Waits until `are` returns true for the numbers of results of the hosts' workers.
    pub(crate) async fn wait_until(&self, are: impl Fn(&[u64]) -> bool) {
        let observers: Vec<_> = self.agents.iter().map(RunningAgent::observer).collect();
        let results = move || {
            let of_job = |job: &tributary_host_agent::JobStats| job.stats.protocol.results;
            observers.iter().map(|agent| agent.stats().first().map_or(0, of_job)).collect::<Vec<_>>()
        };
        while !are(&tokio::task::spawn_blocking(results.clone()).await.unwrap()) {
            tokio::task::yield_now().await;
        }
    }
}
