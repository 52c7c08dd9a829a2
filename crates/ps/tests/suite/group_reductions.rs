//! Tests of the synchronous group's reductions with real clients and servers. Only the fabric is
//! simulated, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU64};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tributary_ps::client::{Client, ClientOptions, Contribution, Contributor, Fabric, FabricError};
use tributary_ps::policy::Worker;
use tributary_ps::server::{
    GroupEvent, GroupEvents, GroupFabric, GroupRequest, JobSettings, JobSpec, JobStats, ParameterServer,
    PolicyKind, Reduction, Sum, View,
};
use tributary_transport::Remote;

const PARAMETERS: usize = 10;
const GRADIENT: [f32; PARAMETERS] = [1.0; PARAMETERS];
const TOKEN: &[u8] = b"of the fabric job";
/// A number of turns that is enough for a group to form.
const TURNS: usize = 100;

/// A fabric that aggregates in memory.
#[derive(Debug, Clone, Default)]
struct Hub(Arc<Mutex<HubJobs>>);

/// The jobs of the fabric, and the number of contributions of each host.
#[derive(Debug, Default)]
struct HubJobs {
    jobs: BTreeMap<String, Job>,
    made: usize,
    broken: bool,
    /// For each host, the number of gradients and the number of zeros that it has contributed.
    given: BTreeMap<String, [usize; 2]>,
}

struct Job {
    request: GroupRequest,
    events: GroupEvents,
    joined: BTreeSet<String>,
    expected: BTreeSet<u64>,
    rounds: BTreeMap<u64, Sum>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.request.fmt(f)
    }
}

struct Open {
    hub: Hub,
    job: String,
}

impl GroupFabric for Hub {
    fn open(&self, request: GroupRequest, events: GroupEvents) -> Box<dyn Reduction> {
        let state = &mut *self.0.lock().unwrap();
        state.made += 1;
        let job = format!("{}.{}", request.job, state.made);
        events(GroupEvent::Opened { job: job.clone(), token: TOKEN.to_vec() });
        let (joined, expected, rounds) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        state.jobs.insert(job.clone(), Job { request, events, joined, expected, rounds });
        Box::new(Open { hub: self.clone(), job })
    }
}

impl Reduction for Open {
    fn expect(&mut self, round: u64) {
        let state = &mut *self.hub.0.lock().unwrap();
        assert!(state.jobs.get_mut(&self.job).unwrap().expected.insert(round));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.hub.0.lock().unwrap().jobs.remove(&self.job);
    }
}

/// One host's access to the fabric.
#[derive(Debug)]
struct Host {
    hub: Hub,
    name: String,
}

struct HubContributor {
    hub: Hub,
    host: String,
    job: String,
    next: u64,
}

#[tonic::async_trait]
impl Fabric for Host {
    fn host(&self) -> &str {
        &self.name
    }

    async fn join(
        &self,
        job: &str,
        token: &[u8],
        length: usize,
    ) -> Result<Box<dyn Contributor>, FabricError> {
        assert_eq!(token, TOKEN);
        let state = &mut *self.hub.0.lock().unwrap();
        let its = state.jobs.get_mut(job).ok_or("no such job")?;
        assert_eq!(its.request.length, length);
        assert!(its.request.hosts.contains(&self.name) && its.joined.insert(self.name.clone()));
        if its.joined.len() == its.request.hosts.len() {
            (its.events)(GroupEvent::Live);
        }
        let (hub, host) = (self.hub.clone(), self.name.clone());
        Ok(Box::new(HubContributor { hub, host, job: job.to_owned(), next: 0 }))
    }
}

#[tonic::async_trait]
impl Contributor for HubContributor {
    async fn contribute(&mut self, round: u64, contribution: Contribution) -> Result<(), FabricError> {
        assert_eq!(round, self.next);
        self.next += 1;
        let state = &mut *self.hub.0.lock().unwrap();
        if state.broken {
            return Err("the switch is gone".into());
        }
        let job = state.jobs.get_mut(&self.job).ok_or("the job has ended")?;
        assert!(job.expected.contains(&round));
        let values = vec![0.0; job.request.length];
        let sum = job.rounds.entry(round).or_insert(Sum { round, weight: 0, contributors: 0, values });
        sum.contributors += 1;
        let given = state.given.entry(self.host.clone()).or_default();
        match contribution {
            Contribution::Zeros => given[1] += 1,
            Contribution::Gradient { values, weight } => {
                given[0] += 1;
                sum.weight += weight.get();
                let add = |(sum, value): (&mut f32, &f32)| *sum += weight.get() as f32 * value;
                sum.values.iter_mut().zip(values.iter()).for_each(add);
            }
        }
        if sum.contributors as usize == job.request.hosts.len() {
            let sum = job.rounds.remove(&round).unwrap();
            (job.events)(GroupEvent::Sum(sum));
        }
        Ok(())
    }
}

/// Hands in a worker's gradient. Workers with odd numbers hand it in as parts, which take the same path
/// as a whole gradient.
async fn hand_in(worker: usize, client: &mut Client) {
    if worker.is_multiple_of(2) {
        client.push(&GRADIENT).await.unwrap();
        return;
    }
    for first in [6, 3, 0] {
        client.push_part(first, &GRADIENT[first..(first + 3).min(PARAMETERS)]).unwrap();
    }
    client.push_part(9, &GRADIENT[9..]).unwrap();
    client.push_parts().await.unwrap();
}

/// Servers, and the workers of their job. The last worker is slow.
struct Running {
    hub: Hub,
    views: Vec<View>,
    clients: Vec<Client>,
    _stop: Vec<oneshot::Sender<()>>,
}

impl Running {
    async fn start(servers: usize, workers: u16) -> Self {
        let (hub, mut remotes, mut views, mut stops) = (Hub::default(), vec![], vec![], vec![]);
        let epoch = NonZeroU64::new(2).unwrap();
        let spec = JobSpec::new("job", NonZeroU16::new(workers).unwrap(), PolicyKind::A2s, epoch, 1.0);
        // [`Self::fast`] waits for all fast workers, so the group must not continue without any of them.
        // Between the first and the last arrival, gradients of all other fast workers may arrive, whether
        // they belong to the group or not.
        let slack = u64::from(workers) - 3;
        let spec = JobSpec { decay: 1.0, slack, ..spec };
        for _ in 0..servers {
            let fabric: Arc<dyn GroupFabric> = Arc::new(hub.clone());
            let settings = JobSettings { spec: spec.clone(), token: None };
            let server = ParameterServer::start(vec![settings], None, Some(&fabric)).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            remotes.push(Remote::parameter_server(&address, None).unwrap());
            views.push(server.view());
            let (stop, stopped) = oneshot::channel::<()>();
            stops.push(stop);
            tokio::spawn(server.serve(listener, None, async move {
                let _ = stopped.await;
            }));
        }
        let join = |worker: Worker| {
            let host = Host { hub: hub.clone(), name: format!("h{worker}") };
            let options = ClientOptions::new(remotes.clone(), "job", worker);
            let options = ClientOptions { fabric: Some(Arc::new(host)), ..options };
            async move { Client::join(options, &[0.0; PARAMETERS]).await.unwrap().0 }
        };
        let clients = join_all((0..workers).map(join)).await;
        Self { hub, views, clients, _stop: stops }
    }

    fn stats(&self) -> Vec<JobStats> {
        self.views.iter().map(|view| view.stats().remove(0).1).collect()
    }

    /// Lets all workers except the slow one hand in a gradient and continue.
    async fn fast(&mut self) {
        let fast = self.clients.split_last_mut().unwrap().1;
        join_all(fast.iter_mut().enumerate().map(async |(worker, client)| hand_in(worker, client).await))
            .await;
    }

    async fn slow(&mut self) {
        self.clients.last_mut().unwrap().push(&GRADIENT).await.unwrap();
    }

    /// Completes updates of workers 0 and 1 without worker 2. Worker 2 is computing, because the test does
    /// not call its client.
    ///
    /// The slow worker's gradient uses up the slack, so the policy does not wait for worker 2.
    async fn without_worker_2(&mut self) {
        let busy = |view: &View| [0, 1].map(|worker| view.stats()[0].1.workers[&worker].busy);
        let (view, before) = (self.views[0].clone(), busy(&self.views[0]));
        let [first, second, _, slow] = &mut self.clients[..] else { panic!("four workers") };
        let both_wait = async {
            while busy(&view).iter().zip(before).any(|(now, before)| *now == before) {
                tokio::task::yield_now().await;
            }
            slow.push(&GRADIENT).await.unwrap();
        };
        let (first, second, ()) = tokio::join!(first.push(&GRADIENT), second.push(&GRADIENT), both_wait);
        assert!(first.unwrap().in_group && second.unwrap().in_group);
    }

    /// Trains until the fabric has carried `rounds` rounds at each server.
    async fn train(&mut self, rounds: u64) {
        for _ in 0..TURNS {
            for _ in 0..4 {
                self.fast().await;
            }
            self.slow().await;
            if self.stats().iter().all(|stats| stats.fabric_rounds >= rounds) {
                return;
            }
        }
        panic!("the fabric carries nothing: {:?}", self.stats());
    }

    /// Checks the parameters. All gradients are equal, so each update changes a parameter by 1, independent
    /// of the number of gradients in it.
    async fn check(&self) {
        for (view, stats) in self.views.iter().zip(self.stats()) {
            for value in view.parameters("job").await.unwrap() {
                assert!((value + stats.updates as f32).abs() < 1e-3, "{value} after {stats:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_late_worker_gives_zeros_while_it_computes_and_joins_the_next_round() {
    let mut running = Running::start(1, 4).await;
    running.train(2).await;
    let before = running.stats().remove(0);
    assert_eq!(before.group, BTreeSet::from([0, 1, 2]));
    assert_eq!(before.fabric_fallbacks, 0);
    let zeros = |running: &Running| running.hub.0.lock().unwrap().given.get("h2").unwrap()[1];
    let zeros_before = zeros(&running);
    running.without_worker_2().await;
    let after = running.stats().remove(0);
    assert_eq!(after.fabric_rounds, before.fabric_rounds + 1);
    assert_eq!((after.fabric_zeros, zeros(&running)), (before.fabric_zeros + 1, zeros_before + 1));
    running.fast().await;
    let last = running.stats().remove(0);
    assert!(last.workers[&2].gradients == after.workers[&2].gradients + 1);
    assert_eq!((last.fabric_rounds, last.fabric_zeros), (after.fabric_rounds + 1, after.fabric_zeros));
    running.check().await;
}

#[tokio::test]
async fn without_its_fabric_a_group_goes_on_over_tcp_and_tries_again() {
    let mut running = Running::start(1, 4).await;
    running.train(2).await;
    running.hub.0.lock().unwrap().broken = true;
    running.fast().await;
    let broken = running.stats().remove(0);
    assert_eq!(broken.fabric_fallbacks, 1);
    running.fast().await;
    running.check().await;
    assert_eq!(running.stats().remove(0).fabric_fallbacks, 1, "the reduction was given up");
    running.hub.0.lock().unwrap().broken = false;
    running.train(broken.fabric_rounds + 1).await;
    running.check().await;
}

#[tokio::test]
async fn who_leaves_takes_the_reduction_with_it_and_the_others_go_on() {
    let mut running = Running::start(1, 5).await;
    running.train(2).await;
    let jobs = running.hub.0.lock().unwrap().made;
    drop(running.clients.remove(0));
    // Workers that wait at that time are released. A group that contains only some of them would then wait
    // for these.
    while running.stats()[0].workers[&0].connected {
        tokio::task::yield_now().await;
    }
    running.train(running.stats()[0].fabric_rounds + 2).await;
    assert!(!running.stats()[0].group.contains(&0));
    assert!(running.hub.0.lock().unwrap().made > jobs, "another group needs another fabric job");
    running.check().await;
}

#[tokio::test]
async fn several_servers_have_reductions_of_their_own() {
    let mut running = Running::start(2, 4).await;
    running.train(3).await;
    running.check().await;
}
