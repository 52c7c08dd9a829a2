//! The aggregation server's agent: the root of a job's tree.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use tributary_api::{Downlink as JobDownlink, JobConfig, Role as JobRole};
use tributary_link::FramePort;
use tributary_protocol::{
    Downlink, OperationEvent, OperationId, Recipient, Reduced, Server, ServerConfig, ServerStats, Tensor,
    Time,
};
use tributary_wire::{FrameView, Kind, MacAddr, NodeId, Rank};

use crate::AgentStats;
use crate::driver::Role;
use crate::error::AgentError;
use crate::handle::Handle;
use crate::link::{FrameLink, Route, Verdict};

/// A job's aggregation server. It works by itself until it is stopped or dropped.
pub struct ServerAgent(Handle<ServerRole>);

impl ServerAgent {
    /// Starts a server as the controller has configured it, on the port that leads to its switch.
    ///
    /// # Errors
    /// As [`WorkerAgent::start`](crate::WorkerAgent::start).
    pub fn start(config: &JobConfig, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        Handle::start("server", &config.name, ServerRole::new(config, false)?, port).map(Self)
    }

    /// Starts a server that reads the [`sums`](Self::sums), too: it must be told each operation.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_reading(config: &JobConfig, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        Handle::start("server", &config.name, ServerRole::new(config, true)?, port).map(Self)
    }

    /// Tells the server what the members' next operation is, and waits for its sums, which are the members'
    /// bit for bit. It is told before this returns; the members are best told to start after that.
    ///
    /// # Errors
    /// At once: [`AgentError::Ended`]. Later: [`AgentError::Refused`] when the server does not read,
    /// [`AgentError::Collective`] when the operation failed, [`AgentError::Ended`] when the agent ends meanwhile.
    pub fn sums(
        &self,
        tensor: Tensor,
    ) -> Result<impl Future<Output = Result<Reduced, AgentError>> + use<'_>, AgentError> {
        let (reply, sums) = oneshot::channel();
        self.0.submit(ReadSums { tensor, reply })?;
        Ok(async move { sums.await.map_err(|_| self.0.ended())? })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`AgentError::Ended`] when the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<ServerStats>, AgentError> {
        self.0.stats()
    }

    /// Ends the agent from any thread, for this reason.
    pub fn end(&self, reason: &str) {
        self.0.end(reason);
    }

    /// Waits until the agent has ended, whether it was told to or could not go on, and says why: an
    /// [`AgentError::Ended`].
    pub async fn ended(&self) -> AgentError {
        self.0.wait_for_end().await
    }

    /// Stops the agent and waits for its thread.
    ///
    /// # Errors
    /// [`AgentError::Ended`] when the agent had failed before.
    pub fn stop(self) -> Result<(), AgentError> {
        self.0.stop()
    }
}

/// One operation to be read, and who waits for it.
pub(crate) struct ReadSums {
    tensor: Tensor,
    reply: oneshot::Sender<Result<Reduced, AgentError>>,
}

pub(crate) struct ServerRole {
    server: Server,
    /// Who waits for which operation's sums.
    waiting: BTreeMap<OperationId, oneshot::Sender<Result<Reduced, AgentError>>>,
    node: NodeId,
    own: MacAddr,
    to_all: Route,
    to_rank: BTreeMap<Rank, Route>,
}

impl ServerRole {
    fn new(config: &JobConfig, reads: bool) -> Result<Self, AgentError> {
        let JobRole::Server { node, fan_in, down, .. } = &config.role else {
            return Err(AgentError::OtherRole { job: config.name.clone(), started_as: "server" });
        };
        let server = Server::new(ServerConfig {
            job: config.job,
            members: config.ranks.clone(),
            window: config.window,
            start: config.start_seq,
            fan_in: *fan_in,
            downlink: match config.downlink {
                JobDownlink::Multicast => Downlink::Multicast,
                JobDownlink::Unicast => Downlink::Unicast,
            },
            reads,
        })?;
        let mut to_rank = BTreeMap::new();
        for path in down {
            to_rank.insert(path.rank, Route::new(&config.own, &path.worker, path.hops.clone())?);
        }
        let to_all = Route::new(&config.own, &config.multicast, Vec::new())?;
        let waiting = BTreeMap::new();
        Ok(Self { server, waiting, node: *node, own: config.own.mac, to_all, to_rank })
    }
}

impl Role for ServerRole {
    type Command = ReadSums;
    type Stats = ServerStats;

    fn handle_command(&mut self, ReadSums { tensor, reply }: ReadSums) {
        match self.server.expect(tensor) {
            Ok(id) => drop(self.waiting.insert(id, reply)),
            // Nobody waits for the answer any more: then nobody misses it.
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict {
        let message = frame.message();
        let mut hops = message.hops();
        // The server is the last entry of the stack: more, or another node's, means a packet that went
        // astray.
        let (Some(hop), None) = (hops.next(), hops.next()) else { return Verdict::NotOurs };
        let for_us = hop.node == self.node && frame.header().destination_mac == self.own;
        if message.header().kind != Kind::Gradient || !for_us {
            return Verdict::NotOurs;
        }
        self.server.handle_gradient(now, message.header(), &hop, message.values());
        Verdict::Ours
    }

    fn transmit(&mut self, _now: Time, link: &mut FrameLink) -> Result<(), AgentError> {
        while let Some(result) = self.server.poll_transmit() {
            let route = match result.to {
                Recipient::All => Some(&self.to_all),
                Recipient::Rank(rank) => self.to_rank.get(&rank),
            };
            // A rank without a way to it is none of the job's: the server's members are these ranks.
            if let Some(route) = route {
                link.send(route, result.header, result.values)?;
            }
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn report(&mut self) {
        while let Some(event) = self.server.poll_event() {
            let (operation, outcome) = match event {
                OperationEvent::Completed { operation, reduced } => (operation, Ok(reduced)),
                OperationEvent::Failed { operation, error } => (operation, Err(error.into())),
            };
            if let Some(reply) = self.waiting.remove(&operation) {
                let _ = reply.send(outcome);
            }
        }
    }

    fn stats(&self) -> ServerStats {
        self.server.stats()
    }
}
