//! Shares a host's link between two agents, like two packet sockets on one interface.
//! Each agent gets every frame that arrives at the host, but no frame that the other agent sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use mio::{Events, Poll, Token, Waker};
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};

/// A shared link. Dropping it stops its thread.
pub(crate) struct Splitter {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Splitter {
    /// Shares a host's end of its link, and returns a port for each of the two agents.
    pub(crate) fn start(shared: InProcessPort) -> (Self, [InProcessPort; 2]) {
        let new_link = || link(&LinkConfig { loss: 0.0, seed: 0, queue_frames: 4096 }).unwrap();
        let [(agent, own, _), (other_agent, other_own, _)] = [new_link(), new_link()];
        let mut ports = [shared, own, other_own];
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(ports.len())).unwrap();
        for (number, port) in ports.iter_mut().enumerate() {
            port.register(poll.registry(), Token(number)).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || forward(ports, poll, &stopped));
        (Self { stop, waker, thread: Some(thread) }, [agent, other_agent])
    }
}

impl Drop for Splitter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake().unwrap();
        let outcome = self.thread.take().unwrap().join();
        assert!(outcome.is_ok() || thread::panicking());
    }
}

fn forward(mut ports: [InProcessPort; 3], mut poll: Poll, stop: &AtomicBool) {
    let mut events = Events::with_capacity(8);
    while !stop.load(Ordering::Acquire) {
        let [shared, agents @ ..] = &mut ports;
        while let Some(frame) = shared.receive().unwrap() {
            agents.iter_mut().for_each(|agent| agent.send(frame).unwrap());
        }
        for agent in agents {
            while let Some(frame) = agent.receive().unwrap() {
                shared.send(frame).unwrap();
            }
        }
        ports.iter_mut().for_each(|port| port.flush().unwrap());
        poll.poll(&mut events, None).unwrap();
    }
}
