//! The aggregation server's agent: the root of a job's tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use mio::Waker;
use tokio::sync::oneshot;
use tributary_api::{FinishedSlice, JobConfig, Role, TakeOver};
use tributary_link::FramePort;
use tributary_protocol::{
    ConfigError, OperationEvent, OperationId, Recipient, Reduced, Server, ServerConfig, ServerStats, Stripe,
    Tensor, Time,
};
use tributary_wire::{FrameView, JobId, Kind, MacAddr, NodeId, Rank, Seq, values};

use crate::AgentStats;
use crate::driver::StateMachine;
use crate::error::AgentError;
use crate::handle::Handle;
use crate::link::{FrameLink, Route, StripePort, Verdict, ports_of_stripes};

/// A member that has requested a result within this time waits for one now. Waiting members repeat
/// the request at least every 250 ms.
const ASKING: Duration = Duration::from_millis(500);

/// A job's aggregation server. It runs until it is stopped or dropped. Each of the job's stripes has a
/// thread.
#[derive(Debug)]
pub struct ServerAgent {
    /// There is at least one.
    threads: Vec<Handle<ServerState>>,
}

impl ServerAgent {
    /// Starts a server with the controller's configuration. The job's stripes have one of the `ports` each,
    /// which lead to the host's switch.
    ///
    /// # Errors
    /// The errors of [`WorkerAgent::start_threads`](crate::WorkerAgent::start_threads).
    pub fn start_threads(config: &JobConfig, ports: Vec<Box<dyn FramePort>>) -> Result<Self, AgentError> {
        let stripes =
            Stripe::all(config.start_seqs.len() as u32, config.window).map_err(ConfigError::from)?;
        let thread = |(port, stripe): (StripePort, Stripe)| {
            let name = if stripe == Stripe::WHOLE {
                "server".to_owned()
            } else {
                format!("server {}", stripe.number())
            };
            let state = |_: &Arc<Waker>| ServerState::new(config, stripe, false);
            Handle::spawn(&name, (&config.name, config.width), state, port)
        };
        let ports = ports_of_stripes(config, ports)?;
        Ok(Self { threads: ports.into_iter().zip(stripes).map(thread).collect::<Result<_, _>>()? })
    }

    /// Starts a server of a job with one stripe.
    ///
    /// # Errors
    /// As for [`start_threads`](Self::start_threads).
    pub fn start(config: &JobConfig, port: Box<dyn FramePort>) -> Result<Self, AgentError> {
        Self::start_threads(config, vec![port])
    }

    /// Starts a server of a job with one stripe, on one port. It also returns the [`sums`](Self::sums). The
    /// caller must announce each operation.
    ///
    /// # Errors
    /// The errors of [`start_threads`](Self::start_threads), and [`AgentError::NoSecret`] if the job's creator did not permit it.
    pub fn start_reading(config: &JobConfig, ports: Vec<Box<dyn FramePort>>) -> Result<Self, AgentError> {
        let state = |_: &Arc<Waker>| ServerState::new(config, Stripe::WHOLE, true);
        let port = ports_of_stripes(config, ports)?.remove(0);
        Ok(Self { threads: vec![Handle::spawn("server", (&config.name, config.width), state, port)?] })
    }

    /// Changes to another generation of the job. Does nothing if the server is already in that
    /// generation.
    ///
    /// # Errors
    /// [`AgentError::OtherRole`], [`AgentError::Config`] and [`AgentError::Frame`] if the configuration is invalid; the
    /// server then stays in the old generation. [`AgentError::Ended`] if the agent has ended.
    pub async fn change(&self, config: &JobConfig) -> Result<(), AgentError> {
        for thread in &self.threads {
            let config = config.clone();
            thread.call(move |server, _| server.change(&config)).await??;
        }
        Ok(())
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
        let sums = self.first().request(|server, _, reply| server.read(tensor, reply))?;
        Ok(async move { sums.await.map_err(|_| self.first().end_error())? })
    }

    /// Returns the ranks that wait for a result and whose frames reach the server.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub(crate) async fn asking(&self) -> Result<Vec<Rank>, AgentError> {
        let mut ranks = BTreeSet::new();
        for thread in &self.threads {
            let asking = thread.call(|server, now| server.server.asking(now, ASKING).collect::<Vec<_>>());
            ranks.extend(asking.await?);
        }
        Ok(ranks.into_iter().collect())
    }

    /// Returns the present values of the counters.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent has ended.
    pub fn stats(&self) -> Result<AgentStats<ServerStats>, AgentError> {
        let all = self.threads.iter().map(|thread| thread.call_blocking(|driver| driver.stats()));
        all.reduce(|all, one| {
            let (all, one) = (all?, one?);
            Ok(AgentStats {
                protocol: all.protocol.with(one.protocol),
                traffic: all.traffic.with(one.traffic),
            })
        })
        .unwrap_or_else(|| Err(self.first().end_error()))
    }

    /// Ends the agent from any thread; see [`Handle::end`].
    pub fn end(&self, reason: &str) {
        self.threads.iter().for_each(|thread| thread.end(reason));
    }

    /// Waits until a thread of the agent has ended, and returns the reason: an [`AgentError::Ended`].
    pub async fn ended(&self) -> AgentError {
        let ends = self.threads.iter().map(|thread| Box::pin(thread.ended()));
        select_all(ends).await.0
    }

    /// Stops the agent and waits for its threads.
    ///
    /// # Errors
    /// [`AgentError::Ended`] if the agent had failed before.
    pub fn stop(self) -> Result<(), AgentError> {
        self.threads.into_iter().try_for_each(Handle::stop)
    }

    #[expect(clippy::indexing_slicing, reason = "there is at least one thread")]
    fn first(&self) -> &Handle<ServerState> {
        &self.threads[0]
    }
}

/// The sender of an operation's sums to the caller.
type SumsReply = oneshot::Sender<Result<Reduced, AgentError>>;

/// The state of a server's thread.
struct ServerState {
    stripe: Stripe,
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
    fn new(config: &JobConfig, stripe: Stripe, reads: bool) -> Result<Self, AgentError> {
        let tree = Tree::new(config)?;
        let Role::Server { take_over, vouching_key, secret, confidential, .. } = &config.role else {
            return Err(other_role(config));
        };
        let no_secret = || AgentError::NoSecret { job: config.name.clone() };
        let secret = reads.then(|| secret.clone().ok_or_else(no_secret));
        let server = ServerConfig {
            stripe,
            job: config.job,
            members: config.ranks.clone(),
            width: config.width,
            window: config.window,
            start: Seq::FIRST,
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
        Ok(Self {
            stripe,
            server,
            waiting: BTreeMap::new(),
            job: config.job,
            generation: config.generation,
            tree,
        })
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
            *self = Self::new(config, self.stripe, false)?;
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

    fn job(&self) -> Option<JobId> {
        Some(self.job)
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
