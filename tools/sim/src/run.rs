//! The simulation: events on a virtual clock.

use std::rc::Rc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use thiserror::Error;
use tributary_protocol::{
    AllReduce, CollectiveError, ConfigError, GradientData, OperationEvent, Recipient, Reduced, Server,
    ServerConfig, StartError, Stripe, Sums, Time, Timers, Worker, WorkerConfig, vouching_key,
};
use tributary_wire::{Hop, JobId, JobSecret, Kind, Rank};

use crate::agenda::Agenda;
use crate::link::LinkDirection;
use crate::outcome::ScenarioOutcome;
use crate::packet::{Packet, encode, view};
use crate::scenario::Scenario;
use crate::switch::Switch;
use crate::tree::Child;

/// Virtual time after which a simulation counts as stuck.
const TOO_LONG: Duration = Duration::from_secs(3600);

/// An error of a simulation. All variants except the first would be errors of the protocol.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SimError {
    /// The scenario cannot be set up.
    #[error("the scenario cannot be simulated: {0}")]
    Config(ConfigError),
    /// A worker refused to start.
    #[error("a simulated worker refused its operation: {0}")]
    Start(StartError),
    /// A worker's operation failed.
    #[error("a simulated operation failed: {0}")]
    Collective(CollectiveError),
    /// A worker got a wrong sum.
    #[error("a simulated worker has a wrong sum in element {element}: {got} instead of {expected}")]
    WrongSum {
        /// The index of the element.
        element: usize,
        /// The expected value.
        expected: f64,
        /// The actual value.
        got: f64,
    },
    /// The workers' results differ.
    #[error("simulated workers have different results of the same operation")]
    Differ,
    /// No further event is scheduled, or the simulation takes too long.
    #[error(
        "the simulation is stuck: {unfinished} workers have not finished after {seconds} virtual seconds"
    )]
    Stuck {
        /// Number of workers that have not finished.
        unfinished: usize,
        /// The time at which the simulation was stopped, in virtual seconds.
        seconds: u64,
    },
}

/// A node of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Worker(usize),
    Switch(usize),
    Server,
}

enum ScenarioEvent {
    /// A packet has arrived, and the node is free to handle it.
    Packet(Node, Packet),
    /// A worker starts an operation.
    Start(usize),
    /// The timer of a worker may have expired.
    Timer(usize),
    /// A switch loses its memory.
    Reboot(usize),
}

struct SimWorker {
    worker: Worker,
    stack: Rc<[Hop]>,
    up: LinkDirection,
    down: LinkDirection,
    free_at: Time,
    /// The time of the earliest scheduled timer event.
    timer: Option<Time>,
    to_start: u32,
    finished_at: Option<Time>,
}

struct SimSwitch {
    slots: Switch,
    children: Vec<Child>,
    /// The link to the node above, and the link from the node above.
    up: LinkDirection,
    down: LinkDirection,
}

struct PacketSimulation<'a> {
    scenario: &'a Scenario,
    rng: ChaCha8Rng,
    now: Time,
    events: Agenda<Time, ScenarioEvent>,
    workers: Vec<SimWorker>,
    switches: Vec<SimSwitch>,
    server: Server,
    server_free_at: Time,
    /// Results of each operation, from the worker that finished it first.
    results: Vec<Reduced>,
}

/// Simulates a scenario to its end.
///
/// # Errors
/// [`SimError`]: the scenario is not valid, or the protocol has an error.
pub fn run(scenario: &Scenario) -> Result<ScenarioOutcome, SimError> {
    let mut simulation = PacketSimulation::new(scenario)?;
    simulation.run()?;
    Ok(simulation.outcome())
}

impl<'a> PacketSimulation<'a> {
    fn new(scenario: &'a Scenario) -> Result<Self, SimError> {
        let Some(job) = JobId::new(1) else { return Err(SimError::Config(ConfigError::NoMembers)) };
        let (tree, window, members) = (&scenario.tree, scenario.window, scenario.tree.ranks());
        let (width, start, downlink) = (scenario.width, scenario.start, scenario.downlink);
        let line = || LinkDirection::new(scenario.link);
        let secret = JobSecret::new([0; JobSecret::BYTES]);
        let server = ServerConfig {
            stripe: Stripe::WHOLE,
            job,
            members: members.clone(),
            width,
            window,
            start,
            fan_in: 1,
            downlink,
            vouching_key: vouching_key(&secret),
            reads: None,
            confidential: false,
        };
        let worker = |&rank: &Rank| {
            let members = members.clone();
            let timers = Timers { slice_time: scenario.slice_time(), ..scenario.timers };
            let config = WorkerConfig {
                stripe: Stripe::WHOLE,
                job,
                rank,
                members,
                secret: secret.clone(),
                confidential: false,
                width,
                window,
                start,
                begun: 0,
                timers,
            };
            Ok(SimWorker {
                worker: Worker::new(config).map_err(SimError::Config)?,
                stack: tree.stack(rank.get().into()).into(),
                up: line(),
                down: line(),
                free_at: Time::ZERO,
                timer: None,
                to_start: scenario.operations,
                finished_at: None,
            })
        };
        let switch = |at| SimSwitch {
            slots: Switch::new(width, window),
            children: tree.children(at),
            up: line(),
            down: line(),
        };
        Ok(Self {
            scenario,
            rng: ChaCha8Rng::seed_from_u64(scenario.seed),
            now: Time::ZERO,
            events: Agenda::new(),
            server: Server::new(server).map_err(SimError::Config)?,
            workers: members.iter().map(worker).collect::<Result<_, SimError>>()?,
            switches: (0..tree.switches()).map(switch).collect(),
            server_free_at: Time::ZERO,
            results: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), SimError> {
        for at in 0..self.workers.len() {
            let late =
                self.scenario.stragglers.iter().filter(|&&(rank, _)| rank == at).map(|&(_, by)| by).sum();
            self.schedule(Time::ZERO + late, ScenarioEvent::Start(at));
        }
        for &(switch, at) in &self.scenario.faults.reboots {
            self.schedule(Time::ZERO + at, ScenarioEvent::Reboot(switch));
        }
        while let Some((at, event)) = self.events.pop() {
            self.now = at;
            if self.now - Time::ZERO > TOO_LONG {
                break;
            }
            match event {
                ScenarioEvent::Packet(Node::Worker(at), packet) => self.at_worker(at, &packet)?,
                ScenarioEvent::Packet(Node::Switch(at), packet) => self.at_switch(at, packet),
                ScenarioEvent::Packet(Node::Server, packet) => self.at_server(&packet),
                ScenarioEvent::Start(at) => self.start(at)?,
                ScenarioEvent::Timer(at) => self.timer(at)?,
                ScenarioEvent::Reboot(at) => {
                    if let Some(switch) = self.switches.get_mut(at) {
                        switch.slots.reboot();
                    }
                }
            }
        }
        let unfinished = self.workers.iter().filter(|worker| worker.finished_at.is_none()).count();
        let seconds = (self.now - Time::ZERO).as_secs();
        if unfinished > 0 { Err(SimError::Stuck { unfinished, seconds }) } else { Ok(()) }
    }

    fn schedule(&mut self, at: Time, event: ScenarioEvent) {
        self.events.schedule(at, event);
    }

    /// Sends a packet on the link between the node `below` and the node above it, up or down.
    fn send(&mut self, below: Node, up: bool, packet: Packet) {
        let (lines, above) = match below {
            Node::Worker(at) => {
                let Some(worker) = self.workers.get_mut(at) else { return };
                ((&mut worker.up, &mut worker.down), Node::Switch(self.scenario.tree.home(at)))
            }
            Node::Switch(at) => {
                let Some(switch) = self.switches.get_mut(at) else { return };
                let above = self.scenario.tree.parent(at).map_or(Node::Server, Node::Switch);
                ((&mut switch.up, &mut switch.down), above)
            }
            Node::Server => return,
        };
        let (line, to) = if up { (lines.0, above) } else { (lines.1, below) };
        let Some(arrival) = line.send(self.now, packet.bytes(), &mut self.rng) else { return };
        let faults = &self.scenario.faults;
        if faults.duplicates > 0.0 && self.rng.random_bool(faults.duplicates) {
            let later = arrival + faults.lateness.mul_f64(self.rng.random());
            let handled = self.handled(to, later);
            self.schedule(handled, ScenarioEvent::Packet(to, packet.clone()));
        }
        let late = faults.late > 0.0 && self.rng.random_bool(faults.late);
        let arrival = if late { arrival + faults.lateness.mul_f64(self.rng.random()) } else { arrival };
        let handled = self.handled(to, arrival);
        self.schedule(handled, ScenarioEvent::Packet(to, packet));
    }

    /// Returns the time at which a node has handled a packet that arrives at `arrival`.
    fn handled(&mut self, node: Node, arrival: Time) -> Time {
        let host = self.scenario.host;
        let free_at = match node {
            Node::Switch(_) => return arrival + self.scenario.switch_delay,
            Node::Server => &mut self.server_free_at,
            Node::Worker(at) => match self.workers.get_mut(at) {
                Some(worker) => &mut worker.free_at,
                None => return arrival,
            },
        };
        let mut begin = arrival.max(*free_at);
        if host.pauses > 0.0 && self.rng.random_bool(host.pauses) {
            begin = begin + host.pause.mul_f64(self.rng.random());
        }
        *free_at = begin + host.turn_around;
        *free_at
    }

    fn at_switch(&mut self, at: usize, packet: Packet) {
        let Some(switch) = self.switches.get_mut(at) else { return };
        if packet.header.kind == Kind::Gradient {
            if let Some(packet) = switch.slots.gradient(packet) {
                self.send(Node::Switch(at), true, packet);
            }
            return;
        }
        switch.slots.release(&packet);
        let hops = packet.hops.saturating_sub(1);
        let to = packet.header.rank;
        for child in switch.children.clone() {
            let wanted = to == Rank::ALL || self.leads_to(child, to.get().into());
            if wanted {
                let below = match child {
                    Child::Switch(below) => Node::Switch(below),
                    Child::Worker(below) => Node::Worker(below),
                };
                self.send(below, false, Packet { hops, ..packet.clone() });
            }
        }
    }

    fn leads_to(&self, child: Child, worker: usize) -> bool {
        match child {
            Child::Worker(at) => at == worker,
            Child::Switch(at) => self.scenario.tree.path(worker).contains(&at),
        }
    }

    fn at_server(&mut self, packet: &Packet) {
        let Some(hop) = packet.hop() else { return };
        self.server.handle_gradient(self.now, &packet.header, &hop, packet.values.as_ref().map(view));
        while let Some(out) = self.server.poll_transmit() {
            let hops = match out.to {
                Recipient::All => 0,
                Recipient::Rank(rank) => self.scenario.tree.path(rank.get().into()).len(),
            };
            let (header, values) = (out.header, out.values.map(encode));
            self.send(Node::Switch(0), false, Packet { header, stack: Rc::new([]), hops, values });
        }
    }

    fn at_worker(&mut self, at: usize, packet: &Packet) -> Result<(), SimError> {
        if let (Some(sim), Some(values)) = (self.workers.get_mut(at), &packet.values) {
            sim.worker.handle_result(self.now, &packet.header, Some(view(values)));
        }
        self.after(at)
    }

    fn start(&mut self, at: usize) -> Result<(), SimError> {
        let Some(sim) = self.workers.get_mut(at) else { return Ok(()) };
        sim.to_start -= 1;
        let elements = 0..self.scenario.elements;
        let data = if self.scenario.integers {
            GradientData::I32(elements.map(|element| integer(at, element)).collect())
        } else {
            GradientData::F32(elements.map(|element| gradient(at, element)).collect())
        };
        let operation = AllReduce { name: "gradient".to_owned(), data, weight: 1 };
        sim.worker.start_all_reduce(operation).map_err(SimError::Start)?;
        self.after(at)
    }

    fn timer(&mut self, at: usize) -> Result<(), SimError> {
        if let Some(sim) = self.workers.get_mut(at) {
            sim.timer = None;
            sim.worker.handle_timeout(self.now);
        }
        self.after(at)
    }

    /// Sends a worker's packets, handles its events and sets its timer.
    ///
    /// This must follow each call of the worker.
    fn after(&mut self, at: usize) -> Result<(), SimError> {
        loop {
            let Some(sim) = self.workers.get_mut(at) else { return Ok(()) };
            let Some(out) = sim.worker.poll_transmit(self.now) else { break };
            let (header, values) = (out.header, out.values.map(encode));
            let packet = Packet { header, stack: sim.stack.clone(), hops: sim.stack.len(), values };
            self.send(Node::Worker(at), true, packet);
        }
        let Some(sim) = self.workers.get_mut(at) else { return Ok(()) };
        while let Some(event) = sim.worker.poll_event() {
            let (operation, reduced) = match event {
                OperationEvent::Completed { operation, reduced } => (operation.0 as usize, reduced),
                OperationEvent::Failed { error, .. } => return Err(SimError::Collective(error)),
            };
            match self.results.get(operation) {
                Some(first) if *first != reduced => return Err(SimError::Differ),
                Some(_) => {}
                None => {
                    assert_right(&reduced, self.scenario.tree.workers())?;
                    self.results.push(reduced);
                }
            }
            if sim.to_start == 0 {
                sim.finished_at = Some(self.now);
            } else {
                let now = self.now;
                self.schedule(now, ScenarioEvent::Start(at));
                break;
            }
        }
        self.set_timer(at);
        Ok(())
    }

    fn set_timer(&mut self, at: usize) {
        let Some(sim) = self.workers.get_mut(at) else { return };
        let Some(deadline) = sim.worker.poll_timeout() else { return };
        if sim.timer.is_none_or(|timer| deadline < timer) {
            sim.timer = Some(deadline);
            self.schedule(deadline, ScenarioEvent::Timer(at));
        }
    }

    fn outcome(&self) -> ScenarioOutcome {
        let up =
            self.switches.iter().map(|switch| &switch.up).chain(self.workers.iter().map(|worker| &worker.up));
        let down = self
            .switches
            .iter()
            .map(|switch| &switch.down)
            .chain(self.workers.iter().map(|worker| &worker.down));
        let finished =
            self.workers.iter().filter_map(|worker| worker.finished_at).max().unwrap_or(Time::ZERO);
        ScenarioOutcome {
            duration: finished - Time::ZERO,
            up: up.map(|line| line.carried).collect(),
            down: down.map(|line| line.carried).collect(),
            workers: self.workers.iter().map(|worker| worker.worker.stats()).collect(),
            server: self.server.stats(),
        }
    }
}

/// Returns a worker's contribution to an element.
///
/// Magnitudes differ between slices, and values differ between elements and workers.
fn gradient(worker: usize, element: usize) -> f32 {
    let magnitude = 1.0 / (1 + element / 5000 % 7) as f32;
    let wave = (element.wrapping_mul(2_654_435_761) >> 8) as u16;
    (f32::from(wave) / 65536.0 - 0.5) * magnitude * (worker + 1) as f32
}

/// Returns a worker's contribution to an element of an integer tensor.
fn integer(worker: usize, element: usize) -> i32 {
    let mixed = (element as u32 ^ (worker as u32) << 20).wrapping_mul(2_654_435_761);
    (mixed >> 12).cast_signed() - (1 << 19)
}

fn assert_exact(sums: &[i32], workers: usize) -> Result<(), SimError> {
    for (element, &sum) in sums.iter().enumerate() {
        let expected: i64 = (0..workers).map(|worker| i64::from(integer(worker, element))).sum();
        if i64::from(sum) != expected {
            return Err(SimError::WrongSum { element, expected: expected as f64, got: sum.into() });
        }
    }
    Ok(())
}

fn assert_right(reduced: &Reduced, workers: usize) -> Result<(), SimError> {
    let sums = match &reduced.sums {
        Sums::F32(sums) => sums,
        Sums::I32(sums) => return assert_exact(sums, workers),
        // No simulated worker uses these types.
        Sums::F64(_) | Sums::I64(_) => return Ok(()),
    };
    for (element, &sum) in sums.iter().enumerate() {
        let expected: f64 = (0..workers).map(|worker| f64::from(gradient(worker, element))).sum();
        let got = f64::from(sum);
        if (got - expected).abs() > 1e-6 * workers as f64 {
            return Err(SimError::WrongSum { element, expected, got });
        }
    }
    Ok(())
}
