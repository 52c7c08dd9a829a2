//! Workers, a server and a faulty fabric between them, driven by one random number generator.

use std::collections::{HashMap, HashSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{
    AllReduce, CollectiveError, Downlink, GradientData, OperationEvent, OperationId, Reduced, Server,
    ServerConfig, Tensor, Time, Timers, Worker, WorkerConfig,
};
use tributary_wire::{Operator, Rank, Seq};

use crate::fabric::{Fabric, Packet, collect, job, with_view};

/// How bad the network is, per packet and step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicates: f64,
    pub(crate) reboots: f64,
    /// A value of a result is damaged on its last way, though not twice for one slice and worker.
    pub(crate) damage: f64,
    pub(crate) damaged: Operator,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { loss: 0.0, duplicates: 0.0, reboots: 0.0, damage: 0.0, damaged: Operator::Sum };
}

/// What a run is made of.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) parents: Vec<Option<usize>>,
    pub(crate) aggregates: Vec<bool>,
    pub(crate) homes: Vec<usize>,
    pub(crate) window: u32,
    pub(crate) start: Seq,
    pub(crate) downlink: Downlink,
    pub(crate) faults: Faults,
    /// Whether the server reads the sums.
    pub(crate) reads: bool,
}

/// How one operation ended on one worker, or on a server that reads.
pub(crate) type Outcome = Result<Reduced, CollectiveError>;

pub(crate) struct World {
    pub(crate) rng: ChaCha8Rng,
    pub(crate) fabric: Fabric,
    faults: Faults,
    now: Time,
    server: Server,
    pub(crate) workers: Vec<Worker>,
    /// Operations that each worker has yet to start.
    to_start: Vec<Vec<AllReduce>>,
    network: Vec<Packet>,
    damaged: HashSet<(Rank, Seq)>,
    pub(crate) outcomes: Vec<HashMap<OperationId, Outcome>>,
    pub(crate) reads: bool,
    /// Operations that the server has yet to be told of.
    to_expect: Vec<Tensor>,
    /// What it has read.
    pub(crate) read: HashMap<OperationId, Outcome>,
    members: Vec<Rank>,
    /// The generation that each worker has yet to change over to.
    pending_change: Vec<bool>,
    generation: u16,
}

const FIRST_JOB: u16 = 7;

impl World {
    /// `inputs[rank]` are the operations of that worker.
    pub(crate) fn new(setup: &Setup, inputs: &[Vec<AllReduce>]) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(setup.seed);
        let mut fabric = Fabric::new(&setup.parents, &setup.aggregates, setup.homes.clone(), setup.window);
        fabric.litter(&mut rng, setup.start);
        let members: Vec<Rank> = (0..inputs.len() as u16).map(Rank::new).collect();
        fabric.plan(&members);
        let server = ServerConfig {
            job: job(FIRST_JOB),
            members: members.clone(),
            window: setup.window,
            start: setup.start,
            fan_in: fabric.server_fan_in,
            downlink: setup.downlink,
            reads: setup.reads,
        };
        let to_read = inputs.first().filter(|_| setup.reads).into_iter().flatten().rev();
        let worker = |&rank: &Rank| {
            let config = WorkerConfig {
                job: job(FIRST_JOB),
                rank,
                members: members.clone(),
                window: setup.window,
                start: setup.start,
                begun: 0,
                timers: Timers { gap: 3, ..Timers::default() },
            };
            Worker::new(config).unwrap()
        };
        Self {
            rng,
            fabric,
            faults: setup.faults,
            now: Time::ZERO,
            server: Server::new(server).unwrap(),
            workers: members.iter().map(worker).collect(),
            to_start: inputs.iter().map(|operations| operations.iter().rev().cloned().collect()).collect(),
            network: Vec::new(),
            damaged: HashSet::new(),
            reads: setup.reads,
            to_expect: to_read.map(AllReduce::tensor).collect(),
            read: HashMap::new(),
            outcomes: vec![HashMap::new(); inputs.len()],
            pending_change: vec![false; members.len()],
            members,
            generation: FIRST_JOB,
        }
    }

    /// A new generation of the job, without `leaver` if there is one. The server changes over at once, the
    /// workers each in its time.
    pub(crate) fn change_generation(&mut self, leaver: Option<Rank>) {
        self.members.retain(|&rank| Some(rank) != leaver);
        self.fabric.plan(&self.members);
        self.generation += 1;
        self.server
            .change_generation(job(self.generation), &self.members, self.fabric.server_fan_in)
            .unwrap();
        self.pending_change.fill(true);
    }

    /// Runs until every member has an outcome for all of its operations; false when it gets stuck. Faults
    /// stop half-way, after which everything must finish. `meanwhile` is called before every step.
    pub(crate) fn run(&mut self, steps: usize, mut meanwhile: impl FnMut(&mut Self, usize)) -> bool {
        for step in 0..steps {
            if self.is_done() {
                return true;
            }
            meanwhile(self, step);
            let faulty = step < steps / 2;
            self.step(faulty);
        }
        false
    }

    fn is_done(&self) -> bool {
        let all_expected = self.to_expect.is_empty();
        all_expected
            && self.members.iter().all(|rank| {
                let at = usize::from(rank.get());
                self.to_start[at].is_empty() && self.workers[at].is_idle()
            })
    }

    fn step(&mut self, faulty: bool) {
        self.now = self.now + std::time::Duration::from_micros(10);
        if self.network.is_empty() || self.rng.random_bool(0.02) {
            self.stir();
            return;
        }
        if faulty && self.rng.random_bool(self.faults.reboots) {
            self.fabric.reboot(&mut self.rng);
        }
        let in_order = self.rng.random_bool(0.5);
        let at = if in_order { 0 } else { self.rng.random_range(0..self.network.len()) };
        let packet = self.network.remove(at);
        if faulty && self.rng.random_bool(self.faults.loss) {
            return;
        }
        if faulty && self.rng.random_bool(self.faults.duplicates) {
            self.network.push(packet.clone());
        }
        while self.network.len() > 300 {
            let at = self.rng.random_range(0..self.network.len());
            self.network.remove(at);
        }
        self.deliver(packet, faulty);
    }

    /// The server is told of an operation, or a worker starts one, changes over to the new generation, or runs into its timeout.
    fn stir(&mut self) {
        if !self.to_expect.is_empty() && self.rng.random_bool(0.1) {
            self.server.expect(self.to_expect.pop().unwrap()).unwrap();
            self.take_read();
            return;
        }
        let at = usize::from(self.members[self.rng.random_range(0..self.members.len())].get());
        if self.pending_change[at] {
            self.pending_change[at] = false;
            self.workers[at].change_generation(self.now, job(self.generation), &self.members).unwrap();
        } else if !self.to_start[at].is_empty() && self.rng.random_bool(0.5) {
            let operation = self.to_start[at].pop().unwrap();
            self.workers[at].start_all_reduce(operation).unwrap();
        } else if let Some(deadline) = self.workers[at].poll_timeout() {
            self.now = self.now.max(deadline);
            self.workers[at].handle_timeout(self.now);
        }
        self.drain(at);
    }

    fn drain(&mut self, at: usize) {
        let stack = self.fabric.stacks.get(&Rank::new(at as u16)).cloned().unwrap_or_default();
        let mut out = Vec::new();
        // A worker that has not heard of the new generation still uses its old way.
        collect(&mut self.workers[at], self.now, &stack, &mut out);
        self.network.extend(
            out.into_iter().filter(|packet| !matches!(packet, Packet::Up { stack, .. } if stack.is_empty())),
        );
        while let Some(event) = self.workers[at].poll_event() {
            take(event, &mut self.outcomes[at]);
        }
    }

    fn take_read(&mut self) {
        while let Some(event) = self.server.poll_event() {
            take(event, &mut self.read);
        }
    }

    fn deliver(&mut self, packet: Packet, faulty: bool) {
        match packet {
            Packet::Up { header, stack, values } if stack.len() == 1 => {
                match values {
                    Some(values) => with_view(&values, |view| {
                        self.server.handle_gradient(self.now, &header, &stack[0], Some(view));
                    }),
                    None => self.server.handle_gradient(self.now, &header, &stack[0], None),
                }
                self.take_read();
                while let Some(out) = self.server.poll_transmit() {
                    let values = std::rc::Rc::new(*out.values);
                    self.network.extend(self.fabric.downwards(out.header, out.to, &values));
                }
            }
            Packet::Down { header, worker, path, values } if path.is_empty() => {
                let mut values = *values;
                let damaged = header.operator == self.faults.damaged
                    && faulty
                    && self.rng.random_bool(self.faults.damage);
                if damaged && self.damaged.insert((worker, header.seq)) {
                    values[self.rng.random_range(0..values.len())] ^= 1 << self.rng.random_range(0..32);
                }
                let at = usize::from(worker.get());
                with_view(&values, |view| self.workers[at].handle_result(self.now, &header, view));
                self.drain(at);
            }
            packet => self.network.extend(self.fabric.forward(packet)),
        }
    }
}

fn take(event: OperationEvent, outcomes: &mut HashMap<OperationId, Outcome>) {
    let (operation, outcome) = match event {
        OperationEvent::Completed { operation, reduced } => (operation, Ok(reduced)),
        OperationEvent::Failed { operation, error } => (operation, Err(error)),
    };
    assert!(outcomes.insert(operation, outcome).is_none(), "two outcomes of one operation");
}

/// The same operation for every worker, from what each contributes.
pub(crate) fn operation(name: &str, data: GradientData, weight: u32) -> AllReduce {
    AllReduce { name: name.to_owned(), data, weight }
}
