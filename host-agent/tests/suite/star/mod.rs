//! A job around a hub. Every worker and the server have a link to the hub, which forwards frames by
//! their destination address. No switch aggregates, so the server itself waits for every worker.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use mio::{Events, Poll, Registry, Token, Waker};
use tributary_api::{Downlink, JobConfig};
use tributary_host_agent::{AgentError, OpenPort, ServerAgent, WorkerAgent};
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};
use tributary_protocol::Timers;

use crate::job::{SERVER_NUMBER, configs};

const FRAMES: Token = Token(0);
const WAKE: Token = Token(1);

/// A function that changes frames in the hub. The first argument is the number of the link from which
/// the frame came. The servers' numbers are the last.
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

    /// Starts a star, with a server that this function starts.
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

    /// Runs `task` on every worker at the same time, each on its own thread, and collects the results.
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

/// The hub's thread, which forwards frames.
pub(crate) struct Hub {
    plugs: Arc<Plugs>,
    thread: Option<JoinHandle<()>>,
}

/// The links of the hub.
struct Plugs {
    /// Each link with the number of its host. The numbers of the workers are their ranks, and the servers
    /// follow.
    links: Mutex<Vec<(usize, InProcessPort)>>,
    workers: u8,
    loss: f64,
    registry: Registry,
    waker: Waker,
    stop: AtomicBool,
}

impl Hub {
    /// Starts a hub. Returns the other ends of its links, first the workers' in rank order and then the
    /// server's, and the hub.
    pub(crate) fn with_ports(workers: u8, loss: f64, meddle: Meddle) -> (Vec<InProcessPort>, Self) {
        let hub = Self::start(workers, loss, meddle);
        ((0..=workers).map(|number| hub.plugs.open(number.into())).collect(), hub)
    }

    /// Starts a hub without links.
    pub(crate) fn start(workers: u8, loss: f64, meddle: Meddle) -> Self {
        let poll = Poll::new().unwrap();
        let plugs = Arc::new(Plugs {
            links: Mutex::default(),
            workers,
            loss,
            registry: poll.registry().try_clone().unwrap(),
            waker: Waker::new(poll.registry(), WAKE).unwrap(),
            stop: AtomicBool::new(false),
        });
        let forwarding = Arc::clone(&plugs);
        let thread = thread::spawn(move || forwarding.forward(poll, meddle));
        Self { plugs, thread: Some(thread) }
    }

    /// Returns a function that opens links of this host, for one job after another. As with an
    /// interface's sockets, all links get the frames that are sent to the host.
    pub(crate) fn opener(&self, number: u8) -> OpenPort {
        let plugs = Arc::clone(&self.plugs);
        Arc::new(move || Ok(Box::new(plugs.open(number.into()))))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.plugs.stop.store(true, Ordering::Release);
        self.plugs.waker.wake().unwrap();
        let outcome = self.thread.take().unwrap().join();
        assert!(outcome.is_ok() || thread::panicking());
    }
}

impl Plugs {
    fn open(&self, number: usize) -> InProcessPort {
        let config = LinkConfig { loss: self.loss, seed: number as u64, queue_frames: 4096 };
        let (host, mut hub, _) = link(&config).unwrap();
        hub.register(&self.registry, FRAMES).unwrap();
        self.links.lock().unwrap().push((number, hub));
        // After the hub has checked the new link, the link's frames wake it.
        self.waker.wake().unwrap();
        host
    }

    fn forward(&self, mut poll: Poll, mut meddle: Meddle) {
        let mut events = Events::with_capacity(64);
        while !self.stop.load(Ordering::Acquire) {
            {
                let mut links = self.links.lock().unwrap();
                for at in 0..links.len() {
                    while let Some(mut frame) = links[at].1.receive().unwrap().map(<[u8]>::to_vec) {
                        let from = links[at].0;
                        meddle(from, &mut frame);
                        self.deliver(&mut links, from, &frame);
                    }
                }
                links.iter_mut().for_each(|(_, link)| link.flush().unwrap());
            }
            match poll.poll(&mut events, None) {
                Err(error) if error.kind() != ErrorKind::Interrupted => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// Delivers a frame to its destination. Frames for a host that does not exist are lost.
    fn deliver(&self, links: &mut [(usize, InProcessPort)], from: usize, frame: &[u8]) {
        let goes_to: Box<dyn Fn(usize) -> bool> = match frame[..6] {
            [2, 0, 0, 0, 1, number] => {
                let to = number.checked_sub(SERVER_NUMBER).map_or(number, |server| self.workers + server);
                Box::new(move |number| number == usize::from(to))
            }
            _ => Box::new(move |number| number != from),
        };
        let receivers = links.iter_mut().filter(|(number, _)| goes_to(*number));
        receivers.for_each(|(_, link)| link.send(frame).unwrap());
    }
}
