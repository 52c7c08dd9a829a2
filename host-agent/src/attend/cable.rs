//! The thread that sends probes out of a host's interface and receives those that come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use tokio::sync::mpsc;
use tributary_link::FramePort;
use tributary_wire::Probe;
use tributary_wire::probe::FRAME_BYTES;

use super::config::Cable;
use crate::error::AgentError;

const FRAMES: Token = Token(0);
const STOP: Token = Token(1);
/// Received probes that may wait to be taken; more than that means that somebody floods us.
const HEARD: usize = 64;
/// The most frames that are read between two looks at the clock.
const FRAMES_PER_ROUND: usize = 64;

/// A thread that probes a cable. Dropping it ends the thread.
pub(super) struct Prober {
    heard: mpsc::Receiver<Probe>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts a thread that sends `probe` every `interval`.
    pub(super) fn start(cable: &Cable, probe: Probe, interval: Duration) -> Result<Self, AgentError> {
        let poll = Poll::new().map_err(AgentError::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), STOP).map_err(AgentError::system("create a waker"))?;
        let mut port = (cable.open)()?;
        port.register(poll.registry(), FRAMES).map_err(AgentError::system("register the port"))?;
        let (tell, heard) = mpsc::channel(HEARD);
        let stop = Arc::new(AtomicBool::new(false));
        let frame = probe.to_frame(cable.address);
        let mut work = Work { port, poll, frame, interval, tell, stop: Arc::clone(&stop) };
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
    pub(super) async fn hear(&mut self) -> Option<Probe> {
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

/// What the thread owns.
struct Work {
    port: Box<dyn FramePort>,
    poll: Poll,
    frame: [u8; FRAME_BYTES],
    interval: Duration,
    tell: mpsc::Sender<Probe>,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn run(&mut self) -> Result<(), AgentError> {
        let mut events = Events::with_capacity(4);
        let mut due = Instant::now();
        while !self.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            if now >= due {
                self.port.send(&self.frame).map_err(AgentError::system("send a probe"))?;
                self.port.flush().map_err(AgentError::system("send a probe"))?;
                due = now + self.interval;
            }
            let timeout = if self.listen()? { Duration::ZERO } else { due - now };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(AgentError::System { step: "wait for probes", reason: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the waiting frames, up to a limit; returns whether there may be more.
    fn listen(&mut self) -> Result<bool, AgentError> {
        for _ in 0..FRAMES_PER_ROUND {
            let Some(frame) = self.port.receive().map_err(AgentError::system("receive probes"))? else {
                return Ok(false);
            };
            // The host's own probe comes back if a cable leads back to its own interface: worth reporting, too.
            if let Ok(probe) = Probe::parse(frame) {
                // Probes of a flood that nobody takes are lost.
                let _ = self.tell.try_send(probe);
            }
        }
        Ok(true)
    }
}
