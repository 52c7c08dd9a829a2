//! The worker's agent: all-reduces for a training process.

use std::collections::BTreeMap;

use crossbeam_channel::{Sender, bounded};
use tributary_api::{JobConfig, Role as JobRole};
use tributary_link::FramePort;
use tributary_protocol::{
    AllReduce, OperationEvent, OperationId, Reduced, Time, Timers, Worker, WorkerConfig, WorkerStats,
};
use tributary_wire::{FrameView, Hop, Kind, MacAddr, Rank};

use crate::AgentStats;
use crate::driver::Role;
use crate::error::AgentError;
use crate::handle::Handle;
use crate::link::{FrameLink, Route, Verdict};

/// One member of a job. Training threads share it by reference; dropping it stops its thread.
pub struct WorkerAgent(Handle<WorkerRole>);

impl WorkerAgent {
    /// Starts a worker as the controller has configured it, on the port that leads to its first switch.
    ///
    /// # Errors
    /// [`AgentError::OtherRole`] for a server's configuration, [`AgentError::Config`] and
    /// [`AgentError::Frame`] for one that makes no sense, [`AgentError::System`] when the port cannot be
    /// registered or no thread be started.
    pub fn start(config: &JobConfig, timers: Timers, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        let JobRole::Worker { rank, up } = &config.role else {
            return Err(AgentError::OtherRole { job: config.name.clone(), started_as: "worker" });
        };
        let role = WorkerRole::new(config, *rank, up, timers)?;
        Handle::start(&format!("worker {rank}"), &config.name, role, port).map(Self)
    }

    /// Reduces over all members of the job and blocks until the result is there. Every member must start
    /// the same operations in the same order; those of several threads run in the order of their calls.
    ///
    /// # Errors
    /// [`AgentError::Collective`] when the operation failed, [`AgentError::Refused`] when it was not
    /// started, [`AgentError::Ended`] when the agent has ended, or ends meanwhile.
    pub fn all_reduce(&self, operation: AllReduce) -> Result<Reduced, AgentError> {
        let (reply, result) = bounded(1);
        self.0.submit(StartAllReduce { operation, reply })?;
        self.0.wait_for(&result)?
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`AgentError::Ended`] when the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<WorkerStats>, AgentError> {
        self.0.stats()
    }

    /// Ends the agent from any thread; whoever waits for a result gets [`AgentError::Ended`] with this
    /// reason.
    pub fn end(&self, reason: &str) {
        self.0.end(reason);
    }

    /// Waits until the agent has ended, whether it was told to or could not go on, and says why: an
    /// [`AgentError::Ended`].
    pub async fn ended(&self) -> AgentError {
        self.0.wait_for_end().await
    }

    /// Stops the agent and waits for its thread. A result that is still awaited by others will not come.
    ///
    /// # Errors
    /// [`AgentError::Ended`] when the agent had failed before.
    pub fn stop(self) -> Result<(), AgentError> {
        self.0.stop()
    }
}

/// The one command: start an operation, and tell `reply` how it ends.
pub(crate) struct StartAllReduce {
    operation: AllReduce,
    reply: Reply,
}

type Reply = Sender<Result<Reduced, AgentError>>;

pub(crate) struct WorkerRole {
    worker: Worker,
    up: Route,
    /// A result has one of these destinations: the worker's own address, or the job's multicast one.
    addresses: [MacAddr; 2],
    waiting: BTreeMap<OperationId, Reply>,
}

impl WorkerRole {
    fn new(config: &JobConfig, rank: Rank, up: &[Hop], timers: Timers) -> Result<Self, AgentError> {
        let worker = Worker::new(WorkerConfig {
            job: config.job,
            rank,
            members: config.ranks.clone(),
            window: config.window,
            start: config.start_seq,
            begun: 0,
            timers,
        })?;
        Ok(Self {
            worker,
            up: Route::new(&config.own, &config.server, up.to_vec())?,
            addresses: [config.own.mac, config.multicast.mac],
            waiting: BTreeMap::new(),
        })
    }
}

impl Role for WorkerRole {
    type Command = StartAllReduce;
    type Stats = WorkerStats;

    fn handle_command(&mut self, StartAllReduce { operation, reply }: StartAllReduce) {
        match self.worker.start_all_reduce(operation) {
            Ok(id) => drop(self.waiting.insert(id, reply)),
            // Nobody waits for the answer any more: then nobody misses it.
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict {
        let (message, to) = (frame.message(), frame.header().destination_mac);
        let Some(values) = message.values() else { return Verdict::NotOurs };
        if message.header().kind != Kind::Result || !self.addresses.contains(&to) {
            return Verdict::NotOurs;
        }
        self.worker.handle_result(now, message.header(), values);
        Verdict::Ours
    }

    fn transmit(&mut self, now: Time, link: &mut FrameLink) -> Result<(), AgentError> {
        while let Some(slice) = self.worker.poll_transmit(now) {
            link.send(&self.up, slice.header, slice.values)?;
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Time> {
        self.worker.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.worker.handle_timeout(now);
    }

    fn report(&mut self) {
        while let Some(event) = self.worker.poll_event() {
            let (operation, outcome) = match event {
                OperationEvent::Completed { operation, reduced } => (operation, Ok(reduced)),
                OperationEvent::Failed { operation, error } => (operation, Err(error.into())),
            };
            if let Some(reply) = self.waiting.remove(&operation) {
                let _ = reply.send(outcome);
            }
        }
    }

    fn stats(&self) -> WorkerStats {
        self.worker.stats()
    }
}
