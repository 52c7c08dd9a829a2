//! The caller's side of an agent: starting it, calling it, stopping it.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, bounded, unbounded};
use mio::{Poll, Token, Waker};
use tokio::sync::{SetOnce, oneshot};
use tributary_link::MIN_FRAME_BYTES;
use tributary_protocol::Time;
use tributary_wire::SliceWidth;

use crate::driver::{Call, Driver, StateMachine};
use crate::error::AgentError;
use crate::link::{FrameLink, StripePort};

const CALLS: Token = Token(0);
const FRAMES: Token = Token(1);

/// The handle of a running agent, whose thread owns the state `S` and a port. Threads share the handle
/// by reference. Dropping it stops the agent and waits for its thread.
pub struct Handle<S> {
    name: String,
    /// The width of the job's slices.
    pub(crate) width: SliceWidth,
    /// The number of stripes of a worker, for each of which a thread works.
    pub(crate) stripes: u32,
    /// The channel to the agent's thread; `None` after the handle has begun to stop the agent.
    calls: Option<Sender<Call<S>>>,
    waker: Arc<Waker>,
    end: Arc<SetOnce<ThreadEnd>>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why an agent's thread has ended.
#[derive(Debug, Clone)]
enum ThreadEnd {
    /// A caller requested the end, for this reason.
    Requested(String),
    /// The agent could not continue, for this reason.
    Failed(String),
}

impl<S> Handle<S> {
    /// Starts a thread that owns `port` and the state that `state` makes.
    /// `what` names the thread and must not contain external text. `job` may be any text and appears only in errors. `width` is the width of the job's slices;
    /// the port must carry frames for it. The port receives the frames of one stripe, or of all. The state's waker wakes
    /// the thread.
    pub(crate) fn spawn(
        what: &str,
        (job, width): (&str, SliceWidth),
        state: impl FnOnce(&Arc<Waker>) -> Result<S, AgentError>,
        (port, stripe): StripePort,
    ) -> Result<Self, AgentError>
    where
        S: StateMachine,
    {
        let (needed, carried) = (width.mtu(), port.longest_frame().saturating_sub(MIN_FRAME_BYTES));
        if needed > carried {
            return Err(AgentError::Mtu { needed, carried });
        }
        let poll = Poll::new().map_err(AgentError::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), CALLS).map_err(AgentError::system("create a waker"))?;
        let waker = Arc::new(waker);
        let state = state(&waker)?;
        let mut link = FrameLink::new(port, stripe);
        link.port().register(poll.registry(), FRAMES).map_err(AgentError::system("register the port"))?;
        let (sender, receiver) = unbounded();
        let driver = Driver::new(state, link, receiver, poll);
        let end = Arc::new(SetOnce::new());
        let note = EndNote(Arc::clone(&end));
        let thread = thread::Builder::new()
            .name(what.into())
            .spawn(move || run(driver, note))
            .map_err(AgentError::system("start a thread"))?;
        let name = format!("{what} of job \"{job}\"");
        Ok(Self { name, width, stripes: 1, calls: Some(sender), waker, end, thread: Some(thread) })
    }

    /// Runs `call` on the agent's thread.
    pub(crate) fn send(&self, call: impl FnOnce(&mut Driver<S>) + Send + 'static) -> Result<(), AgentError> {
        let calls = self.calls.as_ref().ok_or_else(|| self.end_error())?;
        calls.send(Box::new(call)).map_err(|_| self.end_error())?;
        self.waker.wake().map_err(AgentError::system("wake the agent"))
    }

    /// Runs `call` on the agent's thread, and blocks until it has returned.
    pub(crate) fn call_blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Driver<S>) -> T + Send + 'static,
    ) -> Result<T, AgentError> {
        let (reply, result) = bounded(1);
        self.send(move |driver| drop(reply.send(call(driver))))?;
        result.recv().map_err(|_| self.end_error())
    }

    /// Runs `request` on the agent's thread. Returns the receiver of the reply, which the state may send
    /// later. The receiver gets an error if the agent ends before.
    pub(crate) fn request<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut S, Time, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, AgentError> {
        let (reply, result) = oneshot::channel();
        self.send(move |driver| {
            let now = driver.now();
            request(&mut driver.state, now, reply);
        })?;
        Ok(result)
    }

    /// Runs `call` on the agent's thread, and waits for its result.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut S, Time) -> T + Send + 'static,
    ) -> Result<T, AgentError> {
        // The result is dropped if the caller no longer waits for it.
        let result = self.request(|state, now, reply| drop(reply.send(call(state, now))))?;
        result.await.map_err(|_| self.end_error())
    }

    /// Ends the agent from any thread. Callers that wait for a result get [`AgentError::Ended`] with this
    /// reason.
    pub fn end(&self, reason: &str) {
        let reason = reason.to_owned();
        // An agent that has already ended keeps its first reason.
        let _ = self.send(|driver| driver.end = Some(reason));
    }

    /// Waits until the agent has ended, on request or because of a failure, and returns the reason: an
    /// [`AgentError::Ended`].
    pub async fn ended(&self) -> AgentError {
        self.end.wait().await;
        self.end_error()
    }

    /// Stops the agent and waits for its thread. Callers that still wait for a result get no result.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent had failed before.
    pub fn stop(mut self) -> Result<(), AgentError> {
        self.shut_down();
        match self.end.get() {
            Some(ThreadEnd::Failed(_)) | None => Err(self.end_error()),
            Some(ThreadEnd::Requested(_)) => Ok(()),
        }
    }

    /// Returns the error with the reason why the agent has ended.
    pub(crate) fn end_error(&self) -> AgentError {
        let reason = match self.end.get() {
            Some(ThreadEnd::Requested(reason) | ThreadEnd::Failed(reason)) => reason.clone(),
            None => "for an unknown reason".into(),
        };
        AgentError::Ended { agent: self.name.clone(), reason }
    }

    fn shut_down(&mut self) {
        self.calls = None;
        // If the waker fails, the thread does not wake up, and waiting for it could take forever.
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            // After a panic the end note contains the failure, so the result of `join` is not needed.
            let _ = thread.join();
        }
    }
}

impl<S> fmt::Debug for Handle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.name).finish()
    }
}

impl<S> Drop for Handle<S> {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Runs an agent's thread. It writes the end note before it drops the driver and, with it, all pending
/// replies. A caller whose reply is dropped therefore finds the note.
#[expect(clippy::needless_pass_by_value, reason = "the last parameter is dropped first")]
fn run<S: StateMachine>(mut driver: Driver<S>, note: EndNote) {
    let end = match driver.run() {
        Ok(reason) => ThreadEnd::Requested(reason),
        Err(error) => ThreadEnd::Failed(error.to_string()),
    };
    let _ = note.0.set(end);
}

/// The place where the thread writes its end. If the thread unwinds, dropping the note writes it.
struct EndNote(Arc<SetOnce<ThreadEnd>>);

impl Drop for EndNote {
    fn drop(&mut self) {
        let panic = "its thread panicked: this is a bug, please report it";
        // An existing note stays.
        let _ = self.0.set(ThreadEnd::Failed(panic.into()));
    }
}

#[cfg(test)]
mod tests {
    use tributary_link::{LinkConfig, link};
    use tributary_wire::{FrameView, JobId};

    use super::*;
    use crate::link::Verdict;

    /// A state machine that only holds a pending reply.
    struct Fragile(Option<oneshot::Sender<()>>);

    impl StateMachine for Fragile {
        type Stats = ();

        fn job(&self) -> Option<JobId> {
            JobId::new(1)
        }

        fn handle_frame(&mut self, _: Time, _: &FrameView<'_>) -> Verdict {
            Verdict::NotOurs
        }

        fn transmit(&mut self, _: Time, _: &mut FrameLink) -> Result<(), AgentError> {
            Ok(())
        }

        fn next_timeout(&self) -> Option<Time> {
            None
        }

        fn handle_timeout(&mut self, _: Time) {}

        fn report(&mut self, _: Time) {}

        fn stats(&self) {}
    }

    #[tokio::test]
    async fn a_panic_releases_whoever_waits_and_says_what_happened() {
        let (port, _peer, _) = link(&LinkConfig { loss: 0.0, seed: 0, queue_frames: 1 }).unwrap();
        let job = ("glass", SliceWidth::NARROWEST);
        let port: StripePort = (Box::new(port), None);
        let agent = Handle::spawn("fragile", job, |_| Ok(Fragile(None)), port).unwrap();
        let reply = agent.request(|state, _, reply| state.0 = Some(reply)).unwrap();
        agent.send(|_| panic!("a bug")).unwrap();
        assert!(reply.await.is_err());
        let error = agent.end_error().to_string();
        assert!(error.contains("glass") && error.contains("panicked"), "{error}");
        assert_eq!(agent.call_blocking(|_| ()).unwrap_err().to_string(), error);
        assert_eq!(agent.ended().await.to_string(), error);
        assert_eq!(agent.stop().unwrap_err().to_string(), error);
    }
}
