//! The thread that sends probes out of a host's interface and receives incoming probes.

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
/// Received probes that may wait in the queue. A full queue means that another host floods this host
/// with probes.
const HEARD: usize = 64;
/// The most frames that the thread reads between two checks of the clock.
const FRAMES_PER_ROUND: usize = 64;

/// The probes that the controller requests from a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WantedProbes {
    probe: Probe,
    /// Time between two short probes; not zero.
    pub(super) interval: Duration,
    /// Time between two long probes, and the length of their frames in bytes; `None` if the controller
    /// requests none.
    long: Option<(Duration, usize)>,
}

impl WantedProbes {
    /// Returns the probes that the controller requests; `None` if it requests none.
    pub(super) fn of(welcome: &v1::Welcome) -> Option<Self> {
        let interval = |milliseconds: u32| {
            Some(Duration::from_millis(milliseconds.into())).filter(|interval| !interval.is_zero())
        };
        let node = u16::try_from(welcome.node).ok().and_then(NodeId::new)?;
        // A job's frames are never longer than this, so longer probes would test nothing useful.
        let bytes = (welcome.long_probe_bytes as usize).min(longest_frame(SliceWidth::WIDEST));
        Some(Self {
            // A host has only one port.
            probe: Probe { node, port: 1 },
            interval: interval(welcome.probe_interval_milliseconds)?,
            long: interval(welcome.long_probe_interval_milliseconds).map(|interval| (interval, bytes)),
        })
    }
}

/// A received probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeardProbe {
    pub(super) probe: Probe,
    /// The length of the probe's frame in bytes.
    pub(super) bytes: usize,
}

/// A thread that sends and receives the probes of a cable. Dropping the `Prober` ends the thread.
pub(super) struct Prober {
    heard: mpsc::Receiver<HeardProbe>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts a thread that sends the probes that the controller requests.
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

    /// Waits for the next received probe; `None` if the thread has ended because of an error.
    pub(super) async fn hear(&mut self) -> Option<HeardProbe> {
        self.heard.recv().await
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // If the waker fails, the thread sees the stop flag when the next probe is due.
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

/// A frame that the thread sends at regular intervals.
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

    /// Sends the frames that are due at `now`. Returns the time until the next frame is due.
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

    /// Reads the waiting frames, up to `FRAMES_PER_ROUND`; returns true if more frames may be waiting.
    fn listen(&mut self) -> Result<bool, AgentError> {
        for _ in 0..FRAMES_PER_ROUND {
            let Some(frame) = self.port.receive().map_err(AgentError::system("receive probes"))? else {
                return Ok(false);
            };
            // The host receives its own probe if the cable leads back to the host's interface. The controller needs
            // that report, too.
            let bytes = frame.len();
            if let Ok(probe) = Probe::parse(frame) {
                // If the queue is full because of a flood, the probe is dropped.
                let _ = self.tell.try_send(HeardProbe { probe, bytes });
            }
        }
        Ok(true)
    }
}
