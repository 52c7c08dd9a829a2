//! The protocol's own state machines as tables: each step from each state is computed once, on a copy.
//!
//! States that differ only in time count as one state. The time is constant within a step, and advances by
//! `STEP` between two steps.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tributary_protocol::{
    Downlink, OperationEvent, Recipient, Server, ServerConfig, Stripe, Time, Timers, Worker, WorkerConfig,
    vouching_key,
};
use tributary_wire::{Header, Hop, JobSecret, Kind, NodeId, Rank};

use crate::Error;
use crate::content::{ContentId, Contents, Origins};
use crate::setup::{Node, START, Setup, WIDTH, job, seq, slice};
use crate::slot::Bug;

/// The number of a machine's state.
pub(crate) type StateId = u16;

/// The time between two steps, which is longer than any timer.
const STEP: Duration = Duration::from_secs(100);

/// An input of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WorkerInput {
    Result {
        generation: u8,
        slice: u8,
        content: ContentId,
        to: Option<u8>,
    },
    /// Time passes until the worker has requested everything for which it waits.
    Ask,
    Change,
}

/// A packet that a worker sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) slice: u8,
    pub(crate) retransmit: bool,
    pub(crate) content: ContentId,
}

/// The effect of an input on a machine.
#[derive(Debug, Clone)]
pub(crate) struct Step<O> {
    pub(crate) next: StateId,
    pub(crate) out: Rc<[O]>,
    /// The error, if an operation has failed.
    pub(crate) failure: Option<Rc<str>>,
}

/// Facts about a worker in one state.
#[derive(Debug, Clone)]
pub(crate) struct WorkerFacts {
    pub(crate) rank: u8,
    pub(crate) generation: u8,
    pub(crate) is_done: bool,
    /// The slice for which each slot waits.
    pub(crate) dues: Vec<u8>,
}

/// All states of all workers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    states: Vec<(Worker, Time, WorkerFacts)>,
    ids: FxHashMap<(u8, u64), StateId>,
    steps: FxHashMap<(StateId, WorkerInput), Step<Sent>>,
}

impl Workers {
    /// Returns a worker's state at the job's start, and the packets that it sends.
    pub(crate) fn first(
        &mut self,
        setup: &Setup,
        rank: u8,
        contents: &mut Contents,
    ) -> Result<Step<Sent>, Error> {
        let wider = if setup.bug == Some(Bug::LooseWindow) { 2 } else { 1 };
        let config = WorkerConfig {
            stripe: Stripe::WHOLE,
            job: job(0).ok_or(Error::Setup)?,
            rank: Rank::new(rank.into()),
            members: setup.members(0),
            secret: secret(),
            confidential: false,
            width: WIDTH,
            window: setup.window * wider,
            start: START,
            begun: 0,
            // The silence timers request everything that the gap timers would request.
            timers: Timers { gap: u32::MAX, asks: u32::MAX, ..Timers::default() },
        };
        let mut worker = Worker::new(config).map_err(Error::Config)?;
        for operation in setup.operations_of(rank) {
            worker.start_all_reduce(operation).map_err(Error::Start)?;
        }
        Ok(self.settle(worker, Time::ZERO, (rank, 0), contents))
    }

    pub(crate) fn facts(&self, id: StateId) -> Option<&WorkerFacts> {
        self.states.get(usize::from(id)).map(|(.., facts)| facts)
    }

    pub(crate) fn step(
        &mut self,
        setup: &Setup,
        at: StateId,
        input: WorkerInput,
        contents: &mut Contents,
    ) -> Result<Step<Sent>, Error> {
        if let Some(step) = self.steps.get(&(at, input)) {
            return Ok(step.clone());
        }
        let (worker, now, facts) = self.states.get(usize::from(at)).ok_or(Error::Setup)?;
        let (mut worker, mut now) = (worker.clone(), *now + STEP);
        let (rank, mut generation) = (facts.rank, facts.generation);
        match input {
            WorkerInput::Result { generation, slice, content, to } => {
                let content = contents.get(content).ok_or(Error::Setup)?;
                let header = Header {
                    kind: Kind::Result,
                    operator: content.operator,
                    retransmit: false,
                    job: job(generation).ok_or(Error::Setup)?,
                    rank: to.map_or(Rank::ALL, |rank| Rank::new(rank.into())),
                    seq: seq(slice),
                    totals: content.totals,
                };
                worker.handle_result(now, &header, Some(content.values()));
            }
            WorkerInput::Ask => {
                while let Some(deadline) = worker.poll_timeout() {
                    now = now.max(deadline);
                    worker.handle_timeout(now);
                }
            }
            WorkerInput::Change => {
                generation = 1;
                let id = job(generation).ok_or(Error::Setup)?;
                worker.change_generation(now, id, &setup.members(generation)).map_err(Error::Config)?;
            }
        }
        let step = self.settle(worker, now, (rank, generation), contents);
        self.steps.insert((at, input), step.clone());
        Ok(step)
    }

    /// Collects everything that the worker sends, and stores the worker's new state.
    fn settle(
        &mut self,
        mut worker: Worker,
        now: Time,
        (rank, generation): (u8, u8),
        contents: &mut Contents,
    ) -> Step<Sent> {
        let mut out = Vec::new();
        while let Some(packet) = worker.poll_transmit(now) {
            // The model has no broadcasts, so that workers send no PROBE.
            let values = packet.values.unwrap_or_default();
            let content = contents.intern(packet.header.operator, packet.header.totals, values);
            let (slice, retransmit) = (slice(packet.header.seq), packet.header.retransmit);
            out.push(Sent { slice, retransmit, content });
        }
        let mut failure = None;
        while let Some(event) = worker.poll_event() {
            if let OperationEvent::Failed { error, .. } = event {
                failure = Some(error.to_string().into());
            }
        }
        let mut hasher = DefaultHasher::new();
        worker.hash_state(&mut hasher);
        let fresh = self.states.len() as StateId;
        let next = *self.ids.entry((rank, hasher.finish())).or_insert(fresh);
        if next == fresh {
            let dues = worker.progress().dues.into_iter().map(slice).collect();
            let facts = WorkerFacts { rank, generation, is_done: worker.is_idle(), dues };
            self.states.push((worker, now, facts));
        }
        Step { next, out: out.into(), failure }
    }
}

/// A GRADIENT or PROBE for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ForServer {
    pub(crate) generation: u8,
    pub(crate) slice: u8,
    pub(crate) rank: u8,
    pub(crate) retransmit: bool,
    pub(crate) child: u8,
    /// The content of a GRADIENT; `None` for a PROBE.
    pub(crate) content: Option<ContentId>,
}

/// A result that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The recipient's rank; `None` for all workers.
    pub(crate) to: Option<u8>,
    pub(crate) slice: u8,
    pub(crate) content: ContentId,
}

fn secret() -> JobSecret {
    JobSecret::new([3; JobSecret::BYTES])
}

/// Facts about the server in one state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerFacts {
    pub(crate) generation: u8,
    /// All contributions that the server has ever accepted.
    pub(crate) taken: Origins,
}

/// All states of the server.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    states: Vec<(Server, Time, ServerFacts)>,
    ids: FxHashMap<u64, StateId>,
    steps: FxHashMap<(StateId, Option<ForServer>), Step<Answer>>,
}

impl Servers {
    pub(crate) fn first(&mut self, setup: &Setup, contents: &mut Contents) -> Result<StateId, Error> {
        let server = Server::new(ServerConfig {
            stripe: Stripe::WHOLE,
            job: job(0).ok_or(Error::Setup)?,
            members: setup.members(0),
            width: WIDTH,
            window: setup.window,
            start: START,
            fan_in: setup.fan_in(Node::Server, 0),
            downlink: Downlink::Multicast,
            vouching_key: vouching_key(&secret()),
            reads: None,
            confidential: false,
        });
        Ok(self
            .settle(
                server.map_err(Error::Config)?,
                Time::ZERO,
                ServerFacts { generation: 0, taken: 0 },
                contents,
            )
            .next)
    }

    pub(crate) fn facts(&self, id: StateId) -> Option<ServerFacts> {
        self.states.get(usize::from(id)).map(|(.., facts)| *facts)
    }

    /// Handles an input. `None` changes the server to the next generation.
    pub(crate) fn step(
        &mut self,
        setup: &Setup,
        at: StateId,
        input: Option<ForServer>,
        contents: &mut Contents,
    ) -> Result<Step<Answer>, Error> {
        if let Some(step) = self.steps.get(&(at, input)) {
            return Ok(step.clone());
        }
        let (server, now, facts) = self.states.get(usize::from(at)).ok_or(Error::Setup)?;
        let (mut server, now, mut facts) = (server.clone(), *now + STEP, *facts);
        match input {
            None => {
                facts.generation = 1;
                let fan_in = setup.fan_in(Node::Server, 1);
                let id = job(1).ok_or(Error::Setup)?;
                server.change_generation(id, &setup.members(1), fan_in).map_err(Error::Config)?;
            }
            Some(packet) => {
                take(&mut server, now, setup, packet, contents)?;
                facts.taken |= packet.content.map_or(0, |content| contents.origins(content));
            }
        }
        let step = self.settle(server, now, facts, contents);
        self.steps.insert((at, input), step.clone());
        Ok(step)
    }

    fn settle(
        &mut self,
        mut server: Server,
        now: Time,
        facts: ServerFacts,
        contents: &mut Contents,
    ) -> Step<Answer> {
        let mut out = Vec::new();
        while let Some(result) = server.poll_transmit() {
            // The model has no reduce-scatters, so that the server sends no acknowledgement.
            let values = result.values.unwrap_or_default();
            let content = contents.intern(result.header.operator, result.header.totals, values);
            let to = match result.to {
                Recipient::All => None,
                Recipient::Rank(rank) => Some(rank.get() as u8),
            };
            out.push(Answer { to, slice: slice(result.header.seq), content });
        }
        let mut hasher = DefaultHasher::new();
        server.hash_state(&mut hasher);
        let fresh = self.states.len() as StateId;
        let next = *self.ids.entry(hasher.finish()).or_insert(fresh);
        if next == fresh {
            self.states.push((server, now, facts));
        }
        Step { next, out: out.into(), failure: None }
    }
}

fn take(
    server: &mut Server,
    now: Time,
    setup: &Setup,
    packet: ForServer,
    contents: &Contents,
) -> Result<(), Error> {
    let ForServer { generation, slice, rank, retransmit, child, content } = packet;
    let content = content.and_then(|content| contents.get(content));
    let header = Header {
        kind: Kind::Gradient,
        operator: content.map_or(tributary_wire::Operator::Sum, |content| content.operator),
        retransmit,
        job: job(generation).ok_or(Error::Setup)?,
        rank: Rank::new(rank.into()),
        seq: seq(slice),
        totals: content.map(|content| content.totals).unwrap_or_default(),
    };
    let hop = Hop {
        node: NodeId::new(1000).ok_or(Error::Setup)?,
        egress_port: 0,
        aggregate: true,
        child,
        fan_in: setup.fan_in(Node::Server, generation),
    };
    server.handle_gradient(now, &header, &hop, content.map(crate::content::Content::values));
    Ok(())
}
