//! The gradients of a parameter server's synchronous group, aggregated between agents. Processes,
//! agents, frames and the parameter server are real. Only the server's access to the fabric is simulated: a member of
//! the group's job contributes zeros and so receives the sums.

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::directory::{Directory, TOKEN};
use crate::job::configs;
use crate::process::{PARAMETERS, Process};
use crate::star::Hub;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tributary_api::Downlink;
use tributary_client::{Agent, TrainingOptions};
use tributary_host_agent::{
    AgentConfig, AgentDaemon, JobEvent, JobMember, Limits, Membership, OpenPort, RunningAgent, ServerAgent,
    WorkerAgent, open_once,
};
use tributary_protocol::{AllReduce, GradientData, Sums, Timers};
use tributary_ps::client::{Client, ClientOptions, operation_name};
use tributary_ps::server::{
    GroupEvent, GroupEvents, GroupFabric, GroupRequest, JobSettings, JobSpec, ParameterServer, PolicyKind,
    Reduction, Sum, View,
};
use tributary_transport::Remote;

/// The number of fast workers. Each is on a host with an agent; the slow worker has no agent.
const FAST: u8 = 3;
const EPOCH: u64 = 50;

/// A fabric with one job.
struct Fabric {
    /// The runtime in which the test runs.
    runtime: Handle,
    controller: Remote,
    open_port: OpenPort,
    opened: Mutex<Vec<GroupRequest>>,
    live: mpsc::UnboundedSender<()>,
    sums: mpsc::UnboundedSender<Sum>,
}

/// The channel for the rounds whose sums the test must read.
struct Rounds(mpsc::UnboundedSender<u64>);

impl Reduction for Rounds {
    fn expect(&mut self, round: u64) {
        // If the reader has failed, it has already reported that.
        let _ = self.0.send(round);
    }
}

impl GroupFabric for Fabric {
    fn open(&self, request: GroupRequest, events: GroupEvents) -> Box<dyn Reduction> {
        let mut opened = self.opened.lock().unwrap();
        opened.push(request);
        let (rounds, expected) = mpsc::unbounded_channel();
        if opened.len() > 1 {
            events(GroupEvent::Failed { reason: "there is one job only".into() });
            return Box::new(Rounds(rounds));
        }
        let (controller, open_port) = (self.controller.clone(), Arc::clone(&self.open_port));
        let (live, sums) = (self.live.clone(), self.sums.clone());
        self.runtime.spawn(async move {
            events(GroupEvent::Opened { job: "star".into(), token: TOKEN.to_vec() });
            let member = JobMember::worker("star", TOKEN, &format!("w{FAST}"));
            let mut membership = Membership::join(&controller, member).await.unwrap();
            let JobEvent::Start(config) = membership.next_event().await.unwrap() else { panic!("no start") };
            let reader = WorkerAgent::start(&config, Timers::default(), open_port().unwrap()).unwrap();
            events(GroupEvent::Live);
            live.send(()).unwrap();
            read(reader, expected, &events, &sums).await;
            drop(membership);
        });
        Box::new(Rounds(rounds))
    }
}

/// Contributes zeros to each round, and reports the outcome.
async fn read(
    reader: WorkerAgent,
    mut expected: mpsc::UnboundedReceiver<u64>,
    events: &GroupEvents,
    sums: &mpsc::UnboundedSender<Sum>,
) {
    let reader = Arc::new(reader);
    while let Some(round) = expected.recv().await {
        let zeros = GradientData::F32(vec![0.0; PARAMETERS]);
        let operation = AllReduce { name: operation_name(round), data: zeros, weight: 0 };
        let agent = Arc::clone(&reader);
        let reduced =
            tokio::task::spawn_blocking(move || agent.all_reduce(operation)).await.unwrap().unwrap();
        let (Sums::F32(values), [run]) = (reduced.sums, &reduced.runs[..]) else { panic!("not one sum") };
        let sum = Sum { round, weight: run.weight, contributors: run.contributors - 1, values };
        events(GroupEvent::Sum(sum.clone()));
        sums.send(sum).unwrap();
    }
}

/// All parts of the test.
struct Group {
    fabric: Arc<Fabric>,
    directory: Directory,
    live: mpsc::UnboundedReceiver<()>,
    sums: mpsc::UnboundedReceiver<Sum>,
    fast: Vec<Process>,
    slow: Client,
    view: View,
    _agents: Vec<RunningAgent>,
    _folder: TempDir,
    _stop: oneshot::Sender<()>,
    _server: ServerAgent,
    _hub: Hub,
}

impl Group {
    async fn start() -> Self {
        let (mut ports, hub) = Hub::with_ports(FAST + 1, 0.0, Box::new(|_, _| {}));
        let (worker_configs, server_config) = configs(FAST + 1, Downlink::Multicast);
        let server = ServerAgent::start(&server_config, Box::new(ports.pop().unwrap())).unwrap();
        let directory = Directory::start(worker_configs).await;
        let ((live_sender, live), (sums_sender, sums)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let fabric = Arc::new(Fabric {
            runtime: Handle::current(),
            controller: directory.remote(),
            open_port: open_once(ports.pop().unwrap()),
            opened: Mutex::default(),
            live: live_sender,
            sums: sums_sender,
        });
        let (address, view, stop) = serve(Arc::clone(&fabric)).await;
        let folder = tempfile::tempdir().unwrap();
        let mut agents = Vec::new();
        for (rank, port) in ports.into_iter().enumerate() {
            let config = AgentConfig {
                host: format!("w{rank}"),
                controller: directory.remote(),
                open_port: open_once(port),
                socket: folder.path().join(rank.to_string()),
                timers: Timers::default(),
                limits: Limits::of_this_machine(),
            };
            agents.push(AgentDaemon::start(config).unwrap());
        }
        let begin = async |rank: u8| {
            let agent = Agent::connect(folder.path().join(rank.to_string())).await.unwrap();
            let options = TrainingOptions::new(vec![address.clone()], "job", rank.into());
            Process::start(agent.train(options).await.unwrap()).await.unwrap()
        };
        let remote = Remote::parameter_server(&address, None).unwrap();
        let slow = Client::join(ClientOptions::new(vec![remote], "job", FAST.into()), &[100.0; PARAMETERS]);
        let (a, b, c, slow) = tokio::join!(begin(0), begin(1), begin(2), slow);
        Self {
            fabric,
            directory,
            live,
            sums,
            fast: vec![a, b, c],
            slow: slow.unwrap().0,
            view,
            _agents: agents,
            _folder: folder,
            _stop: stop,
            _server: server,
            _hub: hub,
        }
    }

    /// Lets the fast workers push these gradients at the same time.
    async fn push(&mut self, gradients: [f32; FAST as usize]) {
        let [a, b, c] = &mut self.fast[..] else { panic!("not three") };
        let [x, y, z] = gradients;
        let pushed = tokio::join!(a.push(x), b.push(y), c.push(z));
        pushed.0.and(pushed.1).and(pushed.2).unwrap();
    }

    /// Returns the computing time of each fast worker, which grows when a gradient arrives.
    fn busy(&self) -> Vec<Duration> {
        let stats = self.view.stats().remove(0).1;
        (0..FAST).map(|worker| stats.workers[&worker.into()].busy).collect()
    }

    /// Lets the slow worker push zeros, which do not change the parameters.
    async fn push_slowly(&mut self) {
        self.slow.push(&[0.0; PARAMETERS]).await.unwrap();
    }
}

async fn serve(fabric: Arc<Fabric>) -> (String, View, oneshot::Sender<()>) {
    let (workers, epoch) = (NonZeroU16::new(u16::from(FAST) + 1).unwrap(), NonZeroU64::new(EPOCH).unwrap());
    let spec = JobSpec::new("job", workers, PolicyKind::A2s, epoch, 1.0);
    let spec = JobSpec { decay: 1.0, slack: 1, ..spec };
    let fabric: Arc<dyn GroupFabric> = fabric;
    let settings = JobSettings { spec, token: None };
    let server = ParameterServer::start(vec![settings], None, Some(&fabric)).unwrap();
    let view = server.view();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server.serve(listener, None, async move {
        let _ = stopped.await;
    }));
    (address, view, stop)
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_aggregate_the_synchronous_groups_gradients() {
    let mut group = Group::start().await;
    // The fast workers are four epochs ahead of the slow worker's single epoch, so the group consists of all three fast
    // workers.
    for _ in 0..4 * EPOCH {
        group.push([0.0; 3]).await;
    }
    for _ in 0..EPOCH {
        group.push_slowly().await;
    }
    group.live.recv().await.unwrap();
    {
        let opened = group.fabric.opened.lock().unwrap();
        assert_eq!(
            (opened[0].length, &opened[0].hosts[..]),
            (PARAMETERS, &["w0", "w1", "w2"].map(String::from)[..])
        );
    }
    // This gradient still uses TCP. The step that answers it reports that the fabric is ready.
    group.push([0.0; 3]).await;
    let iterations = 4 * EPOCH + 2;
    group.push([1.0, 4.0, 7.0]).await;
    let sum = group.sums.recv().await.unwrap();
    let weight = u32::try_from(iterations).unwrap();
    assert_eq!((sum.round, sum.weight, sum.contributors), (0, 3 * weight, 3));
    assert_eq!(sum.values, [12.0 * weight as f32; PARAMETERS]);
    let mean = [100.0 - 4.0; PARAMETERS];
    assert!(group.fast.iter().all(|process| process.parameters() == mean));

    // One worker still computes when the others' patience ends, so its agent contributes zeros.
    let busy = group.busy();
    let mut last = group.fast.pop().unwrap();
    let (mut second, mut first) = (group.fast.pop().unwrap(), group.fast.pop().unwrap());
    let pushing = tokio::spawn(async move {
        let (a, b) = tokio::join!(first.push(1.0), second.push(4.0));
        a.and(b).unwrap();
        (first, second)
    });
    // Both gradients are at the server. The next gradient would exceed the slack.
    while group.busy().iter().zip(&busy).filter(|(now, before)| now > before).count() < 2 {
        tokio::task::yield_now().await;
    }
    group.push_slowly().await;
    let (first, second) = pushing.await.unwrap();
    let sum = group.sums.recv().await.unwrap();
    assert_eq!((sum.round, sum.weight, sum.contributors), (1, 2 * (weight + 1), 3));
    assert_eq!(sum.values, [5.0 * (weight + 1) as f32; PARAMETERS]);
    assert_eq!(first.parameters(), [96.0 - 2.5; PARAMETERS]);

    // The late gradient goes into the next round.
    group.fast = vec![first, second];
    let [first, second] = &mut group.fast[..] else { panic!("not two") };
    let pushed = tokio::join!(last.push(3.0), first.push(3.0), second.push(3.0));
    pushed.0.and(pushed.1).and(pushed.2).unwrap();
    assert_eq!(group.sums.recv().await.unwrap().contributors, 3);
    assert_eq!(last.parameters(), [93.5 - 3.0; PARAMETERS]);

    // A process that dies ends its group, and the other processes continue. The policy then releases the workers that
    // it finds waiting. It must not release only one of the two, because each would then wait for the other's next
    // gradient.
    drop(last);
    while group.view.stats()[0].1.workers[&u16::from(FAST - 1)].connected {
        tokio::task::yield_now().await;
    }
    let pushed = tokio::join!(first.push(1.0), second.push(1.0));
    pushed.0.and(pushed.1).unwrap();
    assert_eq!(second.parameters(), [90.5 - 1.0; PARAMETERS]);
    // All three workers stay in the fabric's job until it ends without failing.
    group.directory.end().await;
    let heard = group.directory.heard();
    assert!(heard.iter().all(|heard| heard.ends_with("joins")), "{heard:?}");
}
