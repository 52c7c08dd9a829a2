//! The caller's side of an agent: starting it, sending requests, stopping it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use mio::{Poll, Token, Waker};
use tokio::sync::{SetOnce, oneshot};
use tributary_link::{FramePort, MIN_FRAME_BYTES};
use tributary_wire::SliceWidth;

use crate::AgentStats;
use crate::driver::{Command, Driver, Role};
use crate::error::AgentError;
use crate::link::FrameLink;

const COMMANDS: Token = Token(0);
const FRAMES: Token = Token(1);

/// A running agent. Dropping it stops the agent and waits for its thread.
pub(crate) struct Handle<R: Role> {
    name: String,
    /// The channel to the agent's thread; `None` after the handle has begun to stop the agent.
    commands: Option<Sender<Command<R>>>,
    waker: Waker,
    end: Arc<SetOnce<End>>,
    thread: Option<JoinHandle<()>>,
}

/// The outcome of an agent's thread.
#[derive(Debug, Clone)]
enum End {
    /// A caller requested the end, for this reason.
    Asked(String),
    /// The agent could not continue, for this reason.
    Failed(String),
}

impl<R: Role> Handle<R> {
    /// Starts a thread that owns `port` and `role`. `what` names the thread and must not contain external
    /// text. `job` may be any text and appears only in errors. `width` is the width of the job's slices; the port must
    /// carry frames for it.
    pub(crate) fn start(
        what: &str,
        (job, width): (&str, SliceWidth),
        role: R,
        port: Box<dyn FramePort>,
    ) -> Result<Self, AgentError> {
        let (needed, carried) = (width.mtu(), port.longest_frame().saturating_sub(MIN_FRAME_BYTES));
        if needed > carried {
            return Err(AgentError::Mtu { needed, carried });
        }
        let poll = Poll::new().map_err(AgentError::system("create a poll"))?;
        let waker = Waker::new(poll.registry(), COMMANDS).map_err(AgentError::system("create a waker"))?;
        let mut link = FrameLink::new(port);
        link.port().register(poll.registry(), FRAMES).map_err(AgentError::system("register the port"))?;
        let (sender, receiver) = unbounded();
        let driver = Driver::new(role, link, receiver, poll);
        let end = Arc::new(SetOnce::new());
        let note = EndNote(Arc::clone(&end));
        let thread = thread::Builder::new()
            .name(what.into())
            .spawn(move || run(driver, &note))
            .map_err(AgentError::system("start a thread"))?;
        let name = format!("the {what} of job \"{job}\"");
        Ok(Self { name, commands: Some(sender), waker, end, thread: Some(thread) })
    }

    /// Sends the agent a command that contains the sender of its reply, and waits for the reply.
    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> R::Command,
    ) -> Result<T, AgentError> {
        let (reply, answer) = oneshot::channel();
        self.submit(command(reply))?;
        answer.await.map_err(|_| self.ended())
    }

    /// Sends the agent a command.
    pub(crate) fn submit(&self, command: R::Command) -> Result<(), AgentError> {
        self.send(Command::Role(command))
    }

    /// Requests the counters and waits for the reply.
    pub(crate) fn stats(&self) -> Result<AgentStats<R::Stats>, AgentError> {
        let (sender, receiver) = bounded(1);
        self.send(Command::Stats(sender))?;
        self.wait_for(&receiver)
    }

    /// Waits for the agent's reply.
    pub(crate) fn wait_for<T>(&self, reply: &Receiver<T>) -> Result<T, AgentError> {
        reply.recv().map_err(|_| self.ended())
    }

    /// Ends the agent. All callers that wait for it get `reason`.
    pub(crate) fn end(&self, reason: &str) {
        // An agent that has already ended keeps its first reason.
        let _ = self.send(Command::End(reason.into()));
    }

    /// Waits until the agent has ended, and returns the reason.
    pub(crate) async fn wait_for_end(&self) -> AgentError {
        self.end.wait().await;
        self.ended()
    }

    /// Stops the agent and waits for its thread.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent had failed before.
    pub(crate) fn stop(mut self) -> Result<(), AgentError> {
        self.shut_down();
        match self.end.get() {
            Some(End::Failed(_)) | None => Err(self.ended()),
            Some(End::Asked(_)) => Ok(()),
        }
    }

    fn send(&self, command: Command<R>) -> Result<(), AgentError> {
        let commands = self.commands.as_ref().ok_or_else(|| self.ended())?;
        commands.send(command).map_err(|_| self.ended())?;
        self.waker.wake().map_err(AgentError::system("wake the agent"))
    }

    /// Returns the error with the reason why the agent has ended.
    pub(crate) fn ended(&self) -> AgentError {
        let reason = match self.end.get() {
            Some(End::Asked(reason) | End::Failed(reason)) => reason.clone(),
            None => "for an unknown reason".into(),
        };
        AgentError::Ended { agent: self.name.clone(), reason }
    }

    fn shut_down(&mut self) {
        self.commands = None;
        // If the waker fails, the thread does not wake up, and waiting for it could take forever.
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            // After a panic the end note contains the failure, so the result of `join` is not needed.
            let _ = thread.join();
        }
    }
}

impl<R: Role> Drop for Handle<R> {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Runs an agent's thread. It writes the end note before it drops the driver and, with it, all pending
/// replies. A caller whose reply is dropped therefore finds the note.
fn run<R: Role>(mut driver: Driver<R>, note: &EndNote) {
    let panicked = NoteOnPanic(note);
    let end = match driver.run() {
        Ok(reason) => End::Asked(reason),
        Err(error) => End::Failed(error.to_string()),
    };
    panicked.0.write(end);
}

/// The place where the thread writes its outcome.
struct EndNote(Arc<SetOnce<End>>);

impl EndNote {
    /// Writes the note, unless a note already exists.
    fn write(&self, end: End) {
        let _ = self.0.set(end);
    }
}

/// Writes a note when the thread unwinds. It must be dropped before the driver.
struct NoteOnPanic<'a>(&'a EndNote);

impl Drop for NoteOnPanic<'_> {
    fn drop(&mut self) {
        self.0.write(End::Failed("its thread panicked: this is a bug, please report it".into()));
    }
}

#[cfg(test)]
mod tests {
    use tributary_link::{LinkConfig, link};
    use tributary_protocol::Time;
    use tributary_wire::{FrameView, JobId};

    use super::*;
    use crate::link::Verdict;

    /// A role that panics at its first command.
    struct Fragile {
        _reply: Sender<()>,
    }

    impl Role for Fragile {
        type Command = ();
        type Stats = ();

        fn job(&self) -> JobId {
            JobId::new(1).expect("any number but 0 is a job's")
        }

        fn handle_command(&mut self, _: Time, (): ()) {
            panic!("a bug");
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
        let (reply, replies) = bounded::<()>(1);
        let agent = Handle::start(
            "fragile",
            ("glass", SliceWidth::NARROWEST),
            Fragile { _reply: reply },
            Box::new(port),
        )
        .unwrap();
        agent.submit(()).unwrap();
        let error = agent.wait_for(&replies).unwrap_err().to_string();
        assert!(error.contains("glass") && error.contains("panicked"), "{error}");
        assert_eq!(agent.stats().unwrap_err().to_string(), error);
        assert_eq!(agent.wait_for_end().await.to_string(), error);
        assert_eq!(agent.stop().unwrap_err().to_string(), error);
    }
}
