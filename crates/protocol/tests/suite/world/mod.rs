//! Workers, servers, a controller and a faulty fabric between them, driven by one
//! random number generator.

mod churn;
mod controller;
mod host;
mod keeper;
mod ledger;
mod stripes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{
    AllReduce, Broadcast, Collective, Downlink, GradientData, JointAllReduce, OperationId, OwnedPart, Server,
    ServerConfig, Stripe, Tensor, Time, Timers, WorkerConfig, vouching_key,
};
use tributary_wire::{JobSecret, NodeId, Operator, Rank, Seq, SliceWidth};

use crate::fabric::{Fabric, Packet, job, with_view};
pub(crate) use churn::Churn;
use churn::News;
use controller::Controller;
pub(crate) use host::Host;
pub(crate) use host::OperationOutcome;
use host::{Answer, Place, record};
use keeper::Keeper;
use ledger::Ledger;

/// The probabilities of network faults, for each packet and step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicates: f64,
    /// The probability that a packet is delayed for a long time.
    pub(crate) late: f64,
    pub(crate) reboots: f64,
    /// The probability that a value of a result is damaged on its last link.
    /// It happens at most once for each slice and worker.
    pub(crate) damage: f64,
    pub(crate) damaged: Operator,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { loss: 0.0, duplicates: 0.0, late: 0.0, reboots: 0.0, damage: 0.0, damaged: Operator::Sum };
}

/// An error in the behaviour of the controller of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The controller does not freeze members while a server takes over.
    NoFreeze,
    /// The new server begins with the earliest slice for which a member waits.
    LeastDues,
    /// The new server begins one window before the due slices.
    StartAnew,
    /// The new server gets no copies of finished slices.
    NoCopies,
    /// Members join in the middle of an operation.
    JoinInside,
    /// A new generation keeps the job id.
    SameJob,
    /// A new generation has the job id of the generation before the previous one.
    OldJob,
}

/// Parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) parents: Vec<Option<usize>>,
    pub(crate) aggregates: Vec<bool>,
    pub(crate) homes: Vec<usize>,
    pub(crate) window: u32,
    pub(crate) stripes: u32,
    pub(crate) start: Seq,
    pub(crate) downlink: Downlink,
    pub(crate) faults: Faults,
    pub(crate) churn: Churn,
    /// True if the server reads the sums.
    pub(crate) reads: bool,
    pub(crate) confidential: bool,
}

pub(crate) struct World {
    pub(crate) rng: ChaCha8Rng,
    pub(crate) fabric: Fabric,
    faults: Faults,
    churn: Churn,
    pub(crate) bug: Option<Bug>,
    /// True if the run ends when an operation fails or its outcomes differ.
    checks: bool,
    now: Time,
    /// Every server that has not died:
    /// the present server, and replaced servers that are not aware of their replacement.
    servers: HashMap<NodeId, Server>,
    pub(crate) hosts: Vec<Host>,
    inputs: Vec<Vec<Vec<AllReduce>>>,
    network: Vec<Packet>,
    /// Packets that are delayed for a long time.
    late: Vec<Packet>,
    /// The members that received a damaged copy of a result, with the slice.
    damaged: HashSet<(Rank, Seq)>,
    keeper: Option<Keeper>,
    reads: bool,
    /// Operations that have not been announced to the server yet.
    to_expect: Vec<Tensor>,
    /// The outcomes of the operations that the server has read.
    pub(crate) read: HashMap<OperationId, OperationOutcome>,
    controller: Controller,
    news: Vec<News>,
    answers: Vec<Answer>,
    pub(crate) ledger: Ledger,
    /// The SUM slices whose sums each member has received.
    pub(crate) summed: BTreeMap<Rank, HashSet<Seq>>,
    /// The number of times that each event has happened.
    pub(crate) seen: BTreeMap<&'static str, usize>,
    /// The data-plane job id of the present generation.
    job: u16,
    template: WorkerConfig,
    server_template: ServerConfig,
}

const FIRST_JOB: u16 = 7;

fn secret() -> JobSecret {
    JobSecret::new([1; JobSecret::BYTES])
}

impl World {
    /// Makes a world. `inputs[rank]` are the operations of the worker with this rank.
    pub(crate) fn new(setup: &Setup, inputs: &[Vec<AllReduce>]) -> Self {
        let alone = |operations: &Vec<AllReduce>| operations.iter().map(|one| vec![one.clone()]).collect();
        Self::of_processes(setup, inputs.iter().map(alone).collect())
    }

    /// Makes a world whose workers each contribute for several processes. `inputs[rank]` are the operations
    /// of the worker with this rank, each with one part for every process.
    pub(crate) fn of_processes(setup: &Setup, inputs: Vec<Vec<Vec<AllReduce>>>) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(setup.seed);
        let mut fabric = Fabric::new(&setup.parents, &setup.aggregates, setup.homes.clone(), setup.window);
        fabric.litter(&mut rng, setup.start);
        let members: Vec<Rank> = (0..inputs.len() as u16).map(Rank::new).collect();
        fabric.plan(&members);
        let server_template = ServerConfig {
            job: job(FIRST_JOB),
            members: members.clone(),
            width: SliceWidth::ETHERNET,
            stripe: Stripe::WHOLE,
            window: setup.window,
            start: setup.start,
            fan_in: fabric.server_fan_in,
            downlink: setup.downlink,
            vouching_key: vouching_key(&secret()),
            reads: setup.reads.then(secret),
            confidential: setup.confidential,
        };
        let template = WorkerConfig {
            job: job(FIRST_JOB),
            rank: Rank::new(0),
            members: members.clone(),
            secret: secret(),
            confidential: setup.confidential,
            width: SliceWidth::ETHERNET,
            stripe: Stripe::WHOLE,
            window: setup.window,
            start: setup.start,
            begun: 0,
            timers: Timers { gap: 3, ..Timers::default() },
        };
        let starts: Vec<Seq> = (0..setup.stripes).map(|stripe| setup.start.plus(stripe)).collect();
        let host = |(&rank, inputs): (&Rank, &Vec<Vec<AllReduce>>)| {
            let place = Place { generation: 0, stack: fabric.stacks[&rank].clone() };
            Host::new(&WorkerConfig { rank, ..template.clone() }, &starts, place, inputs.clone())
        };
        let to_read =
            inputs.first().filter(|_| setup.reads).into_iter().flatten().flat_map(|parts| parts.first());
        let to_expect = to_read.rev().map(|input| tensor(input, inputs.len())).collect();
        Self {
            rng,
            faults: setup.faults,
            churn: setup.churn,
            bug: None,
            checks: true,
            now: Time::ZERO,
            servers: HashMap::from([(fabric.server, Server::new(server_template.clone()).unwrap())]),
            hosts: members.iter().zip(&inputs).map(host).collect(),
            fabric,
            inputs,
            network: Vec::new(),
            late: Vec::new(),
            damaged: HashSet::new(),
            keeper: None,
            reads: setup.reads,
            to_expect,
            read: HashMap::new(),
            controller: Controller::default(),
            news: Vec::new(),
            answers: Vec::new(),
            ledger: Ledger::new(members),
            summed: BTreeMap::new(),
            seen: BTreeMap::new(),
            job: FIRST_JOB,
            template,
            server_template,
        }
    }

    /// Runs until every member has an outcome for all of its operations.
    /// Faults stop half-way; after that, everything must finish.
    ///
    /// # Errors
    /// A text that describes the failure, or the state in which the job got stuck.
    pub(crate) fn run(&mut self, steps: usize) -> Result<(), String> {
        for step in 0..steps {
            if self.is_done() {
                return Ok(());
            }
            let faulty = step < steps / 2;
            if faulty {
                self.churn();
            }
            self.step(faulty)?;
        }
        Err(self.describe_stuck())
    }

    /// Describes the state of all members.
    fn describe_stuck(&self) -> String {
        let member = |rank: &Rank| {
            let host = &self.hosts[usize::from(rank.get())];
            let progress = host.worker.as_ref().map(|worker| (worker.is_frozen(), worker.progress()));
            format!("rank {rank}: {} started, (frozen, progress): {progress:?}", host.started)
        };
        let members: Vec<String> = self.ledger.members().iter().map(member).collect();
        let server = self.servers.get(&self.fabric.server).map(Server::stats);
        let (controller, expect) = (&self.controller, self.to_expect.len());
        format!(
            "stuck: {members:#?}\n{controller:?} {:?}\n{server:?}; {expect} not expected, {} packets",
            self.news,
            self.network.len()
        )
    }

    /// Runs a world in which operations are expected to fail.
    ///
    /// # Errors
    /// A text that describes the state in which the job got stuck.
    pub(crate) fn run_unchecked(&mut self, steps: usize) -> Result<(), String> {
        self.checks = false;
        self.run(steps)
    }

    fn is_done(&self) -> bool {
        let calm = self.controller.is_at_rest() && self.news.is_empty();
        let all_expected = self.to_expect.is_empty();
        calm && all_expected
            && self.ledger.members().iter().all(|rank| self.hosts[usize::from(rank.get())].is_done())
    }

    fn step(&mut self, faulty: bool) -> Result<(), String> {
        self.now = self.now + Duration::from_micros(10);
        if self.rng.random_bool(self.churn.talk) {
            return self.talk();
        }
        if self.network.is_empty() || self.rng.random_bool(0.02) {
            return self.stir();
        }
        if faulty {
            self.give()?;
        }
        if faulty && self.rng.random_bool(self.faults.reboots) {
            self.fabric.reboot(&mut self.rng);
        }
        let in_order = self.rng.random_bool(0.5);
        let at = if in_order { 0 } else { self.rng.random_range(0..self.network.len()) };
        let packet = self.network.remove(at);
        if faulty && self.rng.random_bool(self.faults.loss) {
            return Ok(());
        }
        if faulty && self.rng.random_bool(self.faults.duplicates) {
            self.network.push(packet.clone());
        }
        if faulty && self.rng.random_bool(self.faults.late) {
            self.late.push(packet);
            return Ok(());
        }
        if !self.late.is_empty() && self.rng.random_bool(0.02) {
            let at = self.rng.random_range(0..self.late.len());
            self.network.push(self.late.swap_remove(at));
        }
        while self.network.len() > 300 {
            let at = self.rng.random_range(0..self.network.len());
            self.network.remove(at);
        }
        self.deliver(packet, faulty)
    }

    /// Lets the controller and its members exchange a message.
    fn talk(&mut self) -> Result<(), String> {
        let at = self.rng.random_range(0..self.hosts.len());
        match self.rng.random_range(0..6) {
            0 => {
                if self.rng.random_bool(0.2) {
                    self.hear();
                }
                self.control()
            }
            1..3 if !self.answers.is_empty() => {
                let answer = self.answers.swap_remove(self.rng.random_range(0..self.answers.len()));
                self.take_answer(answer)
            }
            _ => {
                let Some(order) = self.hosts[at].orders.pop_front() else { return Ok(()) };
                let answer = self.hosts[at].obey(self.now, order, self.bug)?;
                self.answers.extend(answer);
                self.drain(at)
            }
        }
    }

    /// Announces an operation to the server, or runs a step of a worker's process or its timeout.
    fn stir(&mut self) -> Result<(), String> {
        if !self.to_expect.is_empty() && self.rng.random_bool(0.1) {
            let tensor = self.to_expect.pop().unwrap();
            self.servers.get_mut(&self.fabric.server).unwrap().expect(tensor).unwrap();
            return self.take_read();
        }
        let at = self.rng.random_range(0..self.hosts.len());
        let host = &mut self.hosts[at];
        if host.has_more() && self.rng.random_bool(0.5) {
            host.start_next();
        } else if let Some(worker) = &mut host.worker
            && let Some(deadline) = worker.poll_timeout()
        {
            self.now = self.now.max(deadline);
            worker.handle_timeout(self.now);
        }
        self.drain(at)
    }

    fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn drain(&mut self, at: usize) -> Result<(), String> {
        let host = &mut self.hosts[at];
        let Some(worker) = &mut host.worker else { return Ok(()) };
        worker.collect(self.now, &host.place.stack, &mut self.network);
        self.answers.extend(host.proceeded());
        let ended = host.take_events()?;
        if !self.checks {
            return Ok(());
        }
        ended.into_iter().try_for_each(|id| self.ledger.check(id, &self.hosts, &self.inputs))
    }

    fn take_read(&mut self) -> Result<(), String> {
        let Some(server) = self.servers.get_mut(&self.fabric.server) else { return Ok(()) };
        while let Some(event) = server.poll_event() {
            record(event, &mut self.read)?;
        }
        Ok(())
    }

    fn deliver(&mut self, packet: Packet, faulty: bool) -> Result<(), String> {
        match packet {
            Packet::Up { header, stack, values } if stack.len() == 1 => {
                if header.job != job(self.job) {
                    self.see("a packet of an older generation");
                }
                if faulty && self.keeps(&header, values.as_ref()) {
                    return Ok(());
                }
                let Some(server) = self.servers.get_mut(&stack[0].node) else { return Ok(()) };
                match values {
                    Some(values) => with_view(&values, |view| {
                        server.handle_gradient(self.now, &header, &stack[0], Some(view));
                    }),
                    None => server.handle_gradient(self.now, &header, &stack[0], None),
                }
                while let Some(out) = server.poll_transmit() {
                    let values = out.values.map(Rc::from);
                    self.network.extend(self.fabric.downwards(out.header, out.to, values.as_ref()));
                }
                self.take_read()
            }
            Packet::Down { header, worker: rank, path, values } if path.is_empty() => {
                let at = usize::from(rank.get());
                let Some(worker) = &mut self.hosts[at].worker else { return Ok(()) };
                if values.is_some() && header.operator == Operator::Sum {
                    self.summed.entry(rank).or_default().insert(header.seq);
                }
                let Some(values) = values else {
                    worker.handle_result(self.now, &header, None);
                    return self.drain(at);
                };
                let mut values = values.to_vec();
                let damaged = header.operator == self.faults.damaged
                    && faulty
                    && self.rng.random_bool(self.faults.damage);
                if damaged && self.damaged.insert((rank, header.seq)) {
                    let at = self.rng.random_range(0..values.len());
                    values[at] ^= 1 << self.rng.random_range(0..32);
                }
                with_view(&values, |view| worker.handle_result(self.now, &header, Some(view)));
                self.drain(at)
            }
            packet => {
                self.network.extend(self.fabric.forward(packet));
                Ok(())
            }
        }
    }

    /// Checks that a reading server has read the same sums as the members.
    pub(crate) fn compare_read(&self) -> Result<(), String> {
        let first = self.ledger.members().iter().map(|rank| &self.hosts[usize::from(rank.get())]).next();
        for id in (0..self.inputs[0].len() as u64).map(OperationId).filter(|_| self.reads) {
            let read = self.read.get(&id).ok_or(format!("operation {} was not read", id.0))?;
            let known = first.and_then(|host| host.outcomes.get(&id)).filter(|outcome| outcome.is_ok());
            let has_all = parts(&self.inputs[0][id.0 as usize][0], self.hosts.len()).is_empty();
            if known.is_some_and(|known| has_all && !ledger::is_same_outcome(read, known)) {
                return Err(format!("operation {}: not the same bits on the server", id.0));
            }
        }
        Ok(())
    }

    /// Checks every operation whose outcomes were not checked before.
    fn check_everything(&mut self) -> Result<(), String> {
        let ids = (0..self.inputs[0].len() as u64).map(OperationId);
        ids.filter(|&id| !self.ledger.is_checked(id))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|id| self.ledger.check(id, &self.hosts, &self.inputs))
    }
}

/// The beginning of a broadcast's name; the root's rank follows.
const BROADCAST: &str = "broadcast of rank ";

/// Makes the input for a broadcast, with words of this member. Only the words of `root` count.
pub(crate) fn broadcast_from(root: usize, words: Vec<i32>) -> AllReduce {
    operation(&format!("{BROADCAST}{root}"), GradientData::I32(words), 1)
}

/// The name of a reduce-scatter in which each host owns an equal part.
const REDUCE_SCATTER: &str = "equal parts";

/// Makes the input for a reduce-scatter. Each host receives the sums of its part.
pub(crate) fn reduce_scatter(data: GradientData, weight: u32) -> AllReduce {
    operation(REDUCE_SCATTER, data, weight)
}

/// Returns the parts of a reduce-scatter of this input over `hosts` hosts; none for other collectives.
pub(crate) fn parts(input: &AllReduce, hosts: usize) -> Vec<OwnedPart> {
    if input.name != REDUCE_SCATTER {
        return Vec::new();
    }
    let (len, each) = (input.data.len(), input.data.len() / hosts);
    let part = |host: usize| OwnedPart {
        len: if host + 1 < hosts { each } else { len - each * (hosts - 1) },
        owner: Rank::new(host as u16),
        process: 0,
    };
    (0..hosts).map(part).collect()
}

/// Returns the collective that this input stands for, unless it is a broadcast.
pub(crate) fn collective(input: &AllReduce, hosts: usize) -> Collective {
    let parts = parts(input, hosts);
    if parts.is_empty() { Collective::AllReduce } else { Collective::ReduceScatter(parts) }
}

/// Returns the broadcast that this input stands for; `None` if it stands for an all-reduce.
pub(crate) fn broadcast(input: &AllReduce) -> Option<Broadcast> {
    let root = Rank::new(input.name.strip_prefix(BROADCAST)?.parse().unwrap());
    let GradientData::I32(words) = input.data.clone() else { unreachable!() };
    Some(Broadcast { name: input.name.clone(), words, root, process: 0 })
}

fn tensor(input: &AllReduce, hosts: usize) -> Tensor {
    match broadcast(input) {
        Some(broadcast) => JointAllReduce::from(broadcast).tensor(),
        None => Tensor { collective: collective(input, hosts), ..input.tensor() },
    }
}

/// Makes an operation. Each worker calls it with its own contribution.
pub(crate) fn operation(name: &str, data: GradientData, weight: u32) -> AllReduce {
    AllReduce { name: name.to_owned(), data, weight }
}
