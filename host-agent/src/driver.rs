//! The event loop of every agent's thread, for both roles.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use mio::{Events, Poll};
use tributary_protocol::Time;
use tributary_wire::{FrameView, JobId};

use crate::AgentStats;
use crate::error::AgentError;
use crate::link::{self, FrameLink, Verdict};

/// The most frames that the agent reads before it checks its commands and timers again.
const FRAMES_PER_ROUND: usize = 64;
/// The number of events that one wait returns. The only sources of events are the port and the
/// commands' waker.
const EVENTS_PER_WAIT: usize = 4;

/// The state machine of a worker or a server, which the loop drives.
pub(crate) trait Role: Send + 'static {
    /// The commands that the role's handle can send.
    type Command: Send;
    /// The counters of the role.
    type Stats: Send;

    /// Returns the job whose frames the role receives. The id is different in each generation.
    fn job(&self) -> JobId;
    fn handle_command(&mut self, now: Time, command: Self::Command);
    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict;
    /// Sends all frames that are due.
    fn transmit(&mut self, now: Time, link: &mut FrameLink) -> Result<(), AgentError>;
    fn next_timeout(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
    /// Sends the results of ended operations to their callers.
    fn report(&mut self, now: Time);
    fn stats(&self) -> Self::Stats;
}

/// A command from a handle to its agent's thread. Closing the channel stops the agent.
pub(crate) enum Command<R: Role> {
    /// End the agent, and report this reason to all waiting callers.
    End(String),
    /// Send the counters.
    Stats(Sender<AgentStats<R::Stats>>),
    /// A command of this role.
    Role(R::Command),
}

/// Everything that an agent's thread owns.
pub(crate) struct Driver<R: Role> {
    role: R,
    link: FrameLink,
    /// The job whose frames the port passes; `None` if it passes the frames of all jobs.
    passing: Option<JobId>,
    commands: Receiver<Command<R>>,
    poll: Poll,
    epoch: Instant,
}

impl<R: Role> Driver<R> {
    pub(crate) fn new(role: R, link: FrameLink, commands: Receiver<Command<R>>, poll: Poll) -> Self {
        Self { role, link, passing: None, commands, poll, epoch: Instant::now() }
    }

    /// Runs until a command ends the agent, and returns the reason.
    ///
    /// # Errors
    /// Returns an error if the port or the poll does not work any more.
    pub(crate) fn run(&mut self) -> Result<String, AgentError> {
        let mut events = Events::with_capacity(EVENTS_PER_WAIT);
        loop {
            if let Some(reason) = self.take_commands() {
                return Ok(reason);
            }
            self.pass_only_ours()?;
            let any = self.take_frames()?;
            let now = self.now();
            if self.role.next_timeout().is_some_and(|due| due <= now) {
                self.role.handle_timeout(now);
            }
            self.role.transmit(now, &mut self.link)?;
            self.link.flush()?;
            self.role.report(now);
            if any {
                // A frame was received, so more frames may follow soon. The loop therefore yields and does not sleep:
                // other threads run, and may send something. The embedded switch does this, too.
                thread::yield_now();
            } else {
                // If a command has arrived since `take_commands`, its waker ends the wait immediately.
                self.wait(&mut events)?;
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Carries out commands; returns the reason if a command ends the agent.
    fn take_commands(&mut self) -> Option<String> {
        loop {
            match self.commands.try_recv() {
                Ok(Command::End(reason)) => return Some(reason),
                // The reply is dropped if the caller no longer waits for it.
                Ok(Command::Stats(reply)) => drop(reply.send(self.stats())),
                Ok(Command::Role(command)) => self.role.handle_command(self.now(), command),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => return Some("it was stopped".into()),
            }
        }
    }

    /// Makes the port drop frames for other agents on the same interface and for the host itself.
    fn pass_only_ours(&mut self) -> Result<(), AgentError> {
        let job = self.role.job();
        if self.passing != Some(job) {
            self.link.pass_only(job)?;
            self.passing = Some(job);
        }
        Ok(())
    }

    /// Reads the waiting frames, up to `FRAMES_PER_ROUND`. Returns true if there were any.
    fn take_frames(&mut self) -> Result<bool, AgentError> {
        for taken in 0..FRAMES_PER_ROUND {
            let Some(frame) = self.link.receive()? else { return Ok(taken > 0) };
            let now = Time::ZERO + self.epoch.elapsed();
            let verdict = link::parse(frame, |view| self.role.handle_frame(now, view));
            self.link.count(verdict);
            self.role.transmit(now, &mut self.link)?;
        }
        Ok(true)
    }

    fn wait(&mut self, events: &mut Events) -> Result<(), AgentError> {
        let timeout: Option<Duration> = self.role.next_timeout().map(|due| due - self.now());
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                Err(AgentError::System { step: "wait for frames", reason: error })
            }
            _ => Ok(()),
        }
    }

    fn stats(&self) -> AgentStats<R::Stats> {
        AgentStats { protocol: self.role.stats(), traffic: self.link.traffic() }
    }
}
