//! A job around one wire hub: every worker and the server have a link to it, and it forwards frames by their
//! destination address. No switch adds anything up, so the server waits for every worker itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use mio::{Events, Poll, Token, Waker};
use tributary_api::{Downlink, JobConfig};
use tributary_host_agent::{AgentError, ServerAgent, WorkerAgent};
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};
use tributary_protocol::Timers;

use crate::job::{SERVER_NUMBER, configs};

/// What the hub does to a frame: `from` is the number of the link that it came from, the servers' last.
pub(crate) type Meddle = Box<dyn FnMut(usize, &mut Vec<u8>) + Send>;

/// A job with all of its agents. Dropping it stops them and the hub.
pub(crate) struct Star {
    pub(crate) workers: Vec<WorkerAgent>,
    pub(crate) server: ServerAgent,
    /// Dropped last, after the agents.
    _hub: Hub,
}

impl Star {
    pub(crate) fn start(workers: u8, downlink: Downlink, loss: f64, meddle: Meddle) -> Self {
        Self::start_with(workers, downlink, loss, meddle, ServerAgent::start)
    }

    /// The same with a server that is started in this way.
    pub(crate) fn start_with(
        workers: u8,
        downlink: Downlink,
        loss: f64,
        meddle: Meddle,
        start: fn(&JobConfig, Box<dyn FramePort>) -> Result<ServerAgent, AgentError>,
    ) -> Self {
        let (worker_configs, server_config) = configs(workers, downlink);
        let (mut host_ports, hub) = Hub::with_ports(workers, loss, meddle);
        let server = start(&server_config, Box::new(host_ports.pop().unwrap())).unwrap();
        let workers = worker_configs
            .iter()
            .zip(host_ports)
            .map(|(config, port)| WorkerAgent::start(config, Timers::default(), Box::new(port)).unwrap())
            .collect();
        Self { workers, server, _hub: hub }
    }

    /// Runs `task` on every worker at once, each on its own thread, and collects what they return.
    pub(crate) fn on_every_worker<T: Send>(&self, task: impl Fn(usize, &WorkerAgent) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let task = &task;
            let threads: Vec<_> = self
                .workers
                .iter()
                .enumerate()
                .map(|(rank, worker)| scope.spawn(move || task(rank, worker)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

/// The thread that forwards.
pub(crate) struct Hub {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// A hub, and the other ends of its links: the workers' in rank order, then the server's.
    pub(crate) fn with_ports(workers: u8, loss: f64, meddle: Meddle) -> (Vec<InProcessPort>, Self) {
        Self::with_servers(workers, 1, loss, meddle)
    }

    /// The same with several servers.
    pub(crate) fn with_servers(
        workers: u8,
        servers: u8,
        loss: f64,
        meddle: Meddle,
    ) -> (Vec<InProcessPort>, Self) {
        let new_link = |seed| link(&LinkConfig { loss, seed, queue_frames: 4096 }).unwrap();
        let links = u64::from(workers) + u64::from(servers);
        let (hosts, hub) = (0..links).map(new_link).map(|(host, hub, _)| (host, hub)).unzip();
        (hosts, Self::start(hub, workers, meddle))
    }

    fn start(mut ports: Vec<InProcessPort>, workers: u8, meddle: Meddle) -> Self {
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(ports.len())).unwrap();
        for (number, port) in ports.iter_mut().enumerate() {
            port.register(poll.registry(), Token(number)).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || forward(ports, workers, poll, meddle, &stopped));
        Self { stop, waker, thread: Some(thread) }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake().unwrap();
        let outcome = self.thread.take().unwrap().join();
        assert!(outcome.is_ok() || thread::panicking());
    }
}

fn forward(
    mut ports: Vec<InProcessPort>,
    workers: u8,
    mut poll: Poll,
    mut meddle: Meddle,
    stop: &AtomicBool,
) {
    let mut events = Events::with_capacity(64);
    while !stop.load(Ordering::Acquire) {
        for from in 0..ports.len() {
            while let Some(mut frame) = ports[from].receive().unwrap().map(<[u8]>::to_vec) {
                meddle(from, &mut frame);
                deliver(&mut ports, workers, from, &frame);
            }
        }
        ports.iter_mut().for_each(|port| port.flush().unwrap());
        poll.poll(&mut events, None).unwrap();
    }
}

/// A host that is not there gets nothing.
fn deliver(ports: &mut [InProcessPort], workers: u8, from: usize, frame: &[u8]) {
    let [2, 0, 0, 0, 1, number] = frame[..6] else {
        return (0..ports.len()).filter(|to| *to != from).for_each(|to| ports[to].send(frame).unwrap());
    };
    let to = number.checked_sub(SERVER_NUMBER).map_or(number, |server| workers + server);
    if let Some(port) = ports.get_mut(usize::from(to)) {
        port.send(frame).unwrap();
    }
}
