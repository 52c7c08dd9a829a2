//! The aggregation server's agent: the root of a job's tree.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tributary_api::{FinishedSlice, JobConfig, Role, TakeOver};
use tributary_link::FramePort;
use tributary_protocol::{
    OperationEvent, OperationId, Recipient, Reduced, Server, ServerConfig, ServerStats, Tensor, Time,
};
use tributary_wire::{FrameView, JobId, Kind, MacAddr, NodeId, Rank, values};

use crate::AgentStats;
use crate::driver::StateMachine;
use crate::error::AgentError;
use crate::handle::Handle;
use crate::link::{FrameLink, Route, Verdict};

/// A member that has requested a result within this time waits for one now. Waiting members repeat
/// the request at least every 250 ms.
const ASKING: Duration = Duration::from_millis(500);

/// A job's aggregation server. It runs until it is stopped or dropped.
pub type ServerAgent = Handle<ServerState>;

impl Handle<ServerState> {
    /// Starts a server with the controller's configuration, on the port that leads to its switch.
    ///
    /// # Errors
    /// The errors of [`WorkerAgent::start`](crate::WorkerAgent::start).
    pub fn start(config: &JobConfig, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        Self::spawn("server", (&config.name, config.width), ServerState::new(config, false)?, port)
    }

    /// Starts a server that also returns the [`sums`](Self::sums). The caller must announce each
    /// operation.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start), and [`AgentError::NoSecret`] if the job's creator did not permit it.
    pub fn start_reading(config: &JobConfig, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        Self::spawn("server", (&config.name, config.width), ServerState::new(config, true)?, port)
    }

    /// Changes to another generation of the job. Does nothing if the server is already in that
    /// generation.
    ///
    /// # Errors
    /// [`AgentError::OtherRole`], [`AgentError::Config`] and [`AgentError::Frame`] if the configuration is invalid; the
    /// server then stays in the old generation. [`AgentError::Ended`] if the agent has ended.
    pub async fn change(&self, config: &JobConfig) -> Result<(), AgentError> {
        let config = config.clone();
        self.call(move |server, _| server.change(&config)).await?
    }

    /// Announces the members' next operation to the server, and returns a future of the server's sums.
    /// The sums are bit for bit identical to the members' sums. `sums` returns after it has sent the announcement to
    /// the server; start the members' operation after that.
    ///
    /// # Errors
    /// `sums` returns [`AgentError::Ended`] if the agent has ended. The future returns [`AgentError::Refused`] if the
    /// server does not read sums, [`AgentError::Collective`] if the operation failed, and [`AgentError::Ended`] if the
    /// agent ended before the result.
    pub fn sums(
        &self,
        tensor: Tensor,
    ) -> Result<impl Future<Output = Result<Reduced, AgentError>> + use<'_>, AgentError> {
        let sums = self.request(|server, _, reply| server.read(tensor, reply))?;
        Ok(async move { sums.await.map_err(|_| self.end_error())? })
    }

    /// Returns the ranks that wait for a result and whose frames reach the server.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub(crate) async fn asking(&self) -> Result<Vec<Rank>, AgentError> {
        self.call(|server, now| server.server.asking(now, ASKING).collect()).await
    }

    /// Returns the present values of the counters.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<ServerStats>, AgentError> {
        self.call_blocking(|driver| driver.stats())
    }
}

/// The sender of an operation's sums to the caller.
type SumsReply = oneshot::Sender<Result<Reduced, AgentError>>;

/// The state of a server's thread.
pub struct ServerState {
    server: Server,
    /// The callers that wait for the sums of an operation.
    waiting: BTreeMap<OperationId, SumsReply>,
    job: JobId,
    generation: u32,
    tree: Tree,
}

/// The server's place in one generation's tree.
struct Tree {
    node: NodeId,
    fan_in: u8,
    own: MacAddr,
    to_all: Route,
    to_rank: BTreeMap<Rank, Route>,
}

impl Tree {
    fn new(config: &JobConfig) -> Result<Self, AgentError> {
        let Role::Server { node, fan_in, down, .. } = &config.role else {
            return Err(other_role(config));
        };
        let mut to_rank = BTreeMap::new();
        for path in down {
            to_rank.insert(path.rank, Route::new(&config.own, &path.worker, path.hops.clone())?);
        }
        let to_all = Route::new(&config.own, &config.multicast, Vec::new())?;
        Ok(Self { node: *node, fan_in: *fan_in, own: config.own.mac, to_all, to_rank })
    }
}

impl ServerState {
    fn new(config: &JobConfig, reads: bool) -> Result<Self, AgentError> {
        let tree = Tree::new(config)?;
        let Role::Server { take_over, vouching_key, secret, confidential, .. } = &config.role else {
            return Err(other_role(config));
        };
        let no_secret = || AgentError::NoSecret { job: config.name.clone() };
        let secret = reads.then(|| secret.clone().ok_or_else(no_secret));
        let server = ServerConfig {
            job: config.job,
            members: config.ranks.clone(),
            width: config.width,
            window: config.window,
            start: config.start_seq,
            fan_in: tree.fan_in,
            downlink: config.downlink,
            vouching_key: vouching_key.clone(),
            reads: secret.transpose()?,
            confidential: *confidential,
        };
        let server = match take_over {
            Some(TakeOver { dues, finished }) => {
                let finished: Vec<_> = finished.iter().map(finished_slice).collect();
                Server::take_over(server, dues, &finished)?
            }
            None => Server::new(server)?,
        };
        Ok(Self { server, waiting: BTreeMap::new(), job: config.job, generation: config.generation, tree })
    }

    fn read(&mut self, tensor: Tensor, reply: SumsReply) {
        match self.server.expect(tensor) {
            Ok(id) => drop(self.waiting.insert(id, reply)),
            // The answer is dropped if the caller no longer waits for it.
            Err(error) => drop(reply.send(Err(error.into()))),
        }
    }

    fn change(&mut self, config: &JobConfig) -> Result<(), AgentError> {
        if config.generation == self.generation {
            return Ok(());
        }
        if let Role::Server { take_over: Some(_), .. } = &config.role {
            // Other hosts have served the job since, so the members know better than this server which slices are
            // finished.
            *self = Self::new(config, false)?;
            return Ok(());
        }
        let tree = Tree::new(config)?;
        self.server.change_generation(config.job, &config.ranks, tree.fan_in)?;
        (self.job, self.generation, self.tree) = (config.job, config.generation, tree);
        Ok(())
    }
}

fn other_role(config: &JobConfig) -> AgentError {
    AgentError::OtherRole { job: config.name.clone(), started_as: "server" }
}

/// Converts a slice to the protocol's type, with its values in wire format.
fn finished_slice(slice: &FinishedSlice) -> tributary_protocol::FinishedSlice {
    let FinishedSlice { seq, job, operator, totals, values } = slice;
    let values = values::to_bytes(values).into();
    tributary_protocol::FinishedSlice { seq: *seq, job: *job, operator: *operator, totals: *totals, values }
}

impl StateMachine for ServerState {
    type Stats = ServerStats;

    fn job(&self) -> JobId {
        self.job
    }

    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict {
        let message = frame.message();
        let mut hops = message.hops();
        // The server must be the only remaining hop. Another hop or another node means that the packet was misrouted.
        let (Some(hop), None) = (hops.next(), hops.next()) else { return Verdict::NotOurs };
        let Tree { node, own, to_rank, .. } = &self.tree;
        let for_us = hop.node == *node && frame.header().destination_mac == *own;
        if message.header().kind != Kind::Gradient || !for_us {
            return Verdict::NotOurs;
        }
        // Plain switches deliver frames of any sender to this host, so the sender's address must be checked.
        let sender = to_rank.get(&message.header().rank);
        if !sender.is_some_and(|worker| worker.leads_to_sender_of(frame.header())) {
            return Verdict::NotOurs;
        }
        self.server.handle_gradient(now, message.header(), &hop, message.values());
        Verdict::Ours
    }

    fn transmit(&mut self, _now: Time, link: &mut FrameLink) -> Result<(), AgentError> {
        while let Some(result) = self.server.poll_transmit() {
            let route = match result.to {
                Recipient::All => Some(&self.tree.to_all),
                Recipient::Rank(rank) => self.tree.to_rank.get(&rank),
            };
            // A rank without a route is not in the job, because the server's members are the ranks with routes.
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

    fn report(&mut self, _: Time) {
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
