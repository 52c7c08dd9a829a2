//! The event loop of every agent's thread, for both roles.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use mio::{Events, Poll};
use tributary_protocol::Time;
use tributary_wire::{FrameView, JobId};

use crate::AgentStats;
use crate::error::AgentError;
use crate::link::{self, FrameLink, Verdict};

/// The most frames that the agent reads before it checks its calls and timers again.
const FRAMES_PER_ROUND: usize = 64;
/// The number of events that one wait returns. The only sources of events are the port and the
/// handle's waker.
const EVENTS_PER_WAIT: usize = 4;

/// The state machine of a worker or a server, which the loop drives.
pub(crate) trait StateMachine: Send + 'static {
    /// The counters of the state machine.
    type Stats;

    /// Returns the job whose frames the agent receives; `None` if it receives none. The id is different in
    /// each generation.
    fn job(&self) -> Option<JobId>;
    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict;
    /// Sends all frames that are due.
    fn transmit(&mut self, now: Time, link: &mut FrameLink) -> Result<(), AgentError>;
    fn next_timeout(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
    /// Sends the results of ended operations to their callers.
    fn report(&mut self, now: Time);
    fn stats(&self) -> Self::Stats;
    /// Adds the counters of the threads that work for this one.
    fn with_others(&self, own: AgentStats<Self::Stats>) -> AgentStats<Self::Stats> {
        own
    }
}

/// A call of the handle, which the agent's thread runs. Closing the channel of calls stops the agent.
pub(crate) type Call<S> = Box<dyn FnOnce(&mut Driver<S>) + Send>;

/// Everything that an agent's thread owns.
pub(crate) struct Driver<S> {
    pub(crate) state: S,
    link: FrameLink,
    /// The job whose frames the port passes; `None` if it passes the frames of all jobs.
    passing: Option<JobId>,
    calls: Receiver<Call<S>>,
    poll: Poll,
    epoch: Instant,
    /// The reason to end, as soon as a call has requested the end.
    pub(crate) end: Option<String>,
}

impl<S: StateMachine> Driver<S> {
    pub(crate) fn new(state: S, link: FrameLink, calls: Receiver<Call<S>>, poll: Poll) -> Self {
        Self { state, link, passing: None, calls, poll, epoch: Instant::now(), end: None }
    }

    /// Runs until a call ends the agent, and returns the reason.
    ///
    /// # Errors
    /// Returns an error if the port or the poll does not work any more.
    pub(crate) fn run(&mut self) -> Result<String, AgentError> {
        let mut events = Events::with_capacity(EVENTS_PER_WAIT);
        loop {
            if let Some(reason) = self.take_calls() {
                return Ok(reason);
            }
            self.pass_only_ours()?;
            let any = self.take_frames()?;
            let now = self.now();
            if self.state.next_timeout().is_some_and(|due| due <= now) {
                self.state.handle_timeout(now);
            }
            self.state.transmit(now, &mut self.link)?;
            self.link.flush()?;
            self.state.report(now);
            if any {
                // A frame was received, so more frames may follow soon. The loop therefore yields and does not sleep:
                // other threads run, and may send something. The embedded switch does this, too.
                thread::yield_now();
            } else {
                // If a call has arrived since `take_calls`, its waker ends the wait immediately.
                self.wait(&mut events)?;
            }
        }
    }

    /// Runs the waiting calls. Returns the reason if a call has ended the agent, or if the handle stops it.
    fn take_calls(&mut self) -> Option<String> {
        while self.end.is_none() {
            match self.calls.try_recv() {
                Ok(call) => call(self),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Some("it was stopped".into()),
            }
        }
        self.end.take()
    }

    /// Makes the port drop frames for other agents on the same interface and for the host itself.
    fn pass_only_ours(&mut self) -> Result<(), AgentError> {
        if let Some(job) = self.state.job()
            && self.passing != Some(job)
        {
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
            let verdict = link::parse(frame, |view| self.state.handle_frame(now, view));
            self.link.count(verdict);
            self.state.transmit(now, &mut self.link)?;
        }
        Ok(true)
    }

    fn wait(&mut self, events: &mut Events) -> Result<(), AgentError> {
        let timeout: Option<Duration> = self.state.next_timeout().map(|due| due - self.now());
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                Err(AgentError::System { step: "wait for frames", reason: error })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn stats(&self) -> AgentStats<S::Stats> {
        self.state.with_others(AgentStats { protocol: self.state.stats(), traffic: self.link.traffic() })
    }
}

impl<S> Driver<S> {
    /// Returns the present time of the agent's clock.
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }
}
