//! The thread that sends probes out of a host's interface and receives those that come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use tokio::sync::mpsc;
use tributary_api::v1;
use tributary_link::FramePort;
use tributary_wire::frame::longest_frame;
use tributary_wire::{NodeId, Probe, SliceWidth};

use super::config::Cable;
use crate::error::AgentError;

const FRAMES: Token = Token(0);
const STOP: Token = Token(1);
/// Received probes that may wait in the queue; a full queue means that another host floods this one.
const HEARD: usize = 64;
/// The most frames that the thread reads between two checks of the clock.
const FRAMES_PER_ROUND: usize = 64;

/// The probes that the controller wants of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WantedProbes {
    probe: Probe,
    /// Between two of them; not zero.
    pub(super) interval: Duration,
    /// Between two long ones, and the length of their frames; `None`: none are wanted.
    long: Option<(Duration, usize)>,
}

impl WantedProbes {
    /// `None`: the controller wants none.
    pub(super) fn of(welcome: &v1::Welcome) -> Option<Self> {
        let interval = |milliseconds: u32| {
            Some(Duration::from_millis(milliseconds.into())).filter(|interval| !interval.is_zero())
        };
        let node = u16::try_from(welcome.node).ok().and_then(NodeId::new)?;
        // No job sends longer ones.
        let bytes = (welcome.long_probe_bytes as usize).min(longest_frame(SliceWidth::WIDEST));
        Some(Self {
            // A host has only one port.
            probe: Probe { node, port: 1 },
            interval: interval(welcome.probe_interval_milliseconds)?,
            long: interval(welcome.long_probe_interval_milliseconds).map(|interval| (interval, bytes)),
        })
    }
}

/// A probe that has come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeardProbe {
    pub(super) probe: Probe,
    /// The length of its frame.
    pub(super) bytes: usize,
}

/// A thread that probes a cable. Dropping it ends the thread.
pub(super) struct Prober {
    heard: mpsc::Receiver<HeardProbe>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts a thread that sends what is wanted.
    pub(super) fn start(cable: &Cable, wanted: WantedProbes) -> Result<Self, AgentError> {
        let poll = Poll::new().map_err(AgentError::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), STOP).map_err(AgentError::system("create a waker"))?;
        let mut port = (cable.open)()?;
        port.register(poll.registry(), FRAMES).map_err(AgentError::system("register the port"))?;
        let (tell, heard) = mpsc::channel(HEARD);
        let stop = Arc::new(AtomicBool::new(false));
        let WantedProbes { probe, interval, long } = wanted;
        let sequences = [
            Some(Sequence::new(probe.to_frame(cable.address).to_vec(), interval)),
            long.map(|(interval, bytes)| Sequence::new(probe.to_long_frame(cable.address, bytes), interval)),
        ];
        let sequences = sequences.into_iter().flatten().collect();
        let mut work = Work { port, poll, sequences, tell, stop: Arc::clone(&stop) };
        let thread = thread::Builder::new()
            .name("cable probes".into())
            .spawn(move || {
                if let Err(error) = work.run() {
                    tracing::warn!(%error, "cannot probe this host's cable any more");
                }
            })
            .map_err(AgentError::system("start a thread"))?;
        Ok(Self { heard, stop, waker, thread: Some(thread) })
    }

    /// Waits for the next probe that comes in; `None`: the thread could not go on.
    pub(super) async fn hear(&mut self) -> Option<HeardProbe> {
        self.heard.recv().await
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // If the waker fails, the thread notices at the next probe; it waits for nothing else.
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state that the thread owns.
struct Work {
    port: Box<dyn FramePort>,
    poll: Poll,
    sequences: Vec<Sequence>,
    tell: mpsc::Sender<HeardProbe>,
    stop: Arc<AtomicBool>,
}

/// A frame that is sent again and again.
struct Sequence {
    frame: Vec<u8>,
    interval: Duration,
    due: Instant,
}

impl Sequence {
    fn new(frame: Vec<u8>, interval: Duration) -> Self {
        Self { frame, interval, due: Instant::now() }
    }
}

impl Work {
    fn run(&mut self) -> Result<(), AgentError> {
        let mut events = Events::with_capacity(4);
        while !self.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            let wait = self.send(now)?;
            let timeout = if self.listen()? { Duration::ZERO } else { wait };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(AgentError::System { step: "wait for probes", reason: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends what is due at this time; returns how long it is until something is due again.
    fn send(&mut self, now: Instant) -> Result<Duration, AgentError> {
        let mut wait = Duration::MAX;
        for Sequence { frame, interval, due } in &mut self.sequences {
            if now >= *due {
                self.port.send(frame).map_err(AgentError::system("send a probe"))?;
                *due = now + *interval;
            }
            wait = wait.min(*due - now);
        }
        self.port.flush().map_err(AgentError::system("send a probe"))?;
        Ok(wait)
    }

    /// Takes the waiting frames, up to a limit; returns whether there may be more.
    fn listen(&mut self) -> Result<bool, AgentError> {
        for _ in 0..FRAMES_PER_ROUND {
            let Some(frame) = self.port.receive().map_err(AgentError::system("receive probes"))? else {
                return Ok(false);
            };
            // The host's own probe comes back if a cable leads back to its own interface: worth reporting, too.
            let bytes = frame.len();
            if let Ok(probe) = Probe::parse(frame) {
                // Probes of a flood are lost if the queue is full.
                let _ = self.tell.try_send(HeardProbe { probe, bytes });
            }
        }
        Ok(true)
    }
}
