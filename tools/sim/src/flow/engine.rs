//! The simulation: a loop over events until every job is done.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::background::Source;
use super::error::FlowError;
use super::hosts::Connections;
use super::job::Job;
use super::network::Network;
use super::ordered::Ordered;
use super::outage::Outage;
use super::outcome::{FlowOutcome, Iteration, JobOutcome};
use super::planned::{PlannedFabric, PlannedTree};
use super::route::Routes;
use super::setup::Setup;
use super::share::{Sharing, Stream};
use crate::agenda::Agenda;

/// The number of remaining bytes up to which a stream counts as done.
///
/// Rounding errors of times can leave such a remainder.
const DONE: f64 = 1e-3;
/// The relative difference up to which a rate equals its limit.
const CLOSE: f64 = 1e-9;

/// The numbers of the streams of random numbers for the background, the paths and the computations.
///
/// The streams are separate, so that all methods are compared with the same computations and background.
const OF_BACKGROUND: u64 = 0;
const fn of_ways(job: usize) -> u64 {
    1 + 2 * job as u64
}
const fn of_computing(job: usize) -> u64 {
    2 + 2 * job as u64
}

/// An event whose time is known beforehand.
#[derive(Debug, Clone, Copy)]
enum FlowEvent {
    /// The slowest worker of a job has finished its computation.
    Computed(usize),
    /// All workers of a job have the sum.
    Synchronised(usize),
    /// A source starts its next volume.
    Volume(usize),
    /// An outage begins (`true`) or ends.
    Outage(Outage, bool),
    /// The paths of hosts' connections, or trees, change around dead parts.
    Reroute,
    Replan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// A job, and the index of its stream.
    Job(usize, usize),
    Source(usize),
}

/// A stream that is being transferred.
#[derive(Debug)]
struct Transfer {
    owner: Owner,
    stream: Stream,
    /// The bytes that are left, and the rate in bytes/s.
    left: f64,
    rate: f64,
    /// Bytes that have moved, but that no link's count contains yet.
    moved: f64,
}

/// The method by which a job synchronises.
#[derive(Debug)]
enum Synchronisation {
    Tree(Box<PlannedTree>),
    Hosts(Connections),
}

#[derive(Debug)]
struct Running {
    job: Job,
    synchronisation: Synchronisation,
    ways: ChaCha8Rng,
    computing: ChaCha8Rng,
    /// The time at which the iteration began, and the time at which its slowest worker had computed.
    began: f64,
    computed: f64,
    /// Number of the synchronisation's streams that still run.
    streams: usize,
    iterations: Vec<Iteration>,
    is_window_bound: bool,
}

struct FlowSimulation<'a> {
    setup: &'a Setup<'a>,
    network: Network<'a>,
    fabric: PlannedFabric,
    jobs: Vec<Running>,
    sources: Vec<Source>,
    transfers: Vec<Transfer>,
    sharing: Sharing,
    /// True if streams have started or ended since the rates were computed.
    is_stale: bool,
    events: Agenda<Ordered, FlowEvent>,
    now: f64,
    carried: Vec<f64>,
}

/// Simulates a setup until every job has done its iterations.
///
/// # Errors
/// [`FlowError`]: the setup is not valid, or the planner refuses a job.
pub fn simulate(setup: &Setup<'_>) -> Result<FlowOutcome, FlowError> {
    check(setup)?;
    let mut simulation = FlowSimulation::new(setup)?;
    simulation.run()?;
    Ok(simulation.outcome())
}

fn check(setup: &Setup<'_>) -> Result<(), FlowError> {
    let Setup { assumptions: a, background, outages, jobs, .. } = setup;
    let of_background = background
        .iter()
        .flat_map(|b| [("the background's load", b.load), ("the background's volume", b.mean_bytes)]);
    let of_outages = outages
        .iter()
        .flat_map(|outage| [("an outage's begin", outage.from), ("an outage's end", outage.until)]);
    let of_jobs = jobs.iter().flat_map(|job| {
        let compute = job.compute;
        [("a job's begin", job.begins), ("computing", compute.seconds), ("its spread", compute.spread)]
    });
    let numbers = [
        ("a hop's time", a.hop_seconds),
        ("a host's time", a.host_seconds),
        ("the time until another tree", a.replan_seconds),
        ("the time until other ways", a.reroute_seconds),
    ];
    let mut numbers = numbers.into_iter().chain(of_background).chain(of_outages).chain(of_jobs);
    match numbers.find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
        Some((what, value)) => Err(FlowError::Number { what, value }),
        None => Ok(()),
    }
}

fn random(seed: u64, part: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(part);
    rng
}

impl<'a> FlowSimulation<'a> {
    fn new(setup: &'a Setup<'a>) -> Result<Self, FlowError> {
        let network = Network::new(setup.topology, setup.assumptions);
        let mut rng = random(setup.seed, OF_BACKGROUND);
        let none = || Ok((Vec::new(), Vec::new()));
        let (sources, mean) = setup
            .background
            .as_ref()
            .map_or_else(none, |background| background.sources(&network, &mut rng))?;
        let mut simulation = Self {
            setup,
            fabric: PlannedFabric::new(&network, &mean),
            jobs: Vec::new(),
            sources,
            transfers: Vec::new(),
            sharing: Sharing::default(),
            is_stale: true,
            events: Agenda::new(),
            now: 0.0,
            carried: vec![0.0; network.capacity.len()],
            network,
        };
        for (place, job) in setup.jobs.iter().enumerate() {
            simulation.admit(place, job)?;
        }
        for source in 0..simulation.sources.len() {
            simulation.pause(source);
        }
        for outage in &setup.outages {
            simulation.schedule(outage.from, FlowEvent::Outage(*outage, true));
            simulation.schedule(outage.until, FlowEvent::Outage(*outage, false));
        }
        Ok(simulation)
    }

    fn admit(&mut self, place: usize, job: &Job) -> Result<(), FlowError> {
        if job.workers.len() < 2 || job.gradient_bytes == 0 || job.servers.len() < job.method.servers() {
            return Err(FlowError::Job { job: place });
        }
        let mut ways = random(self.setup.seed, of_ways(place));
        let synchronisation = match job.method.is_in_network() {
            true => Synchronisation::Tree(Box::new(self.fabric.admit(place, job, &self.network)?)),
            false => Synchronisation::Hosts(Connections::of(job, &self.network, &mut ways)?),
        };
        self.jobs.push(Running {
            job: job.clone(),
            synchronisation,
            ways,
            computing: random(self.setup.seed, of_computing(place)),
            began: job.begins,
            computed: 0.0,
            streams: 0,
            iterations: Vec::new(),
            is_window_bound: false,
        });
        self.compute(place);
        Ok(())
    }

    fn schedule(&mut self, at: f64, event: FlowEvent) {
        self.events.schedule(Ordered(at), event);
    }

    fn run(&mut self) -> Result<(), FlowError> {
        loop {
            let unfinished = self.jobs.iter().filter(|job| !self.is_done(job)).count();
            if unfinished == 0 {
                return Ok(());
            }
            if std::mem::take(&mut self.is_stale) {
                self.share();
            }
            let ends = self.transfers.iter().filter(|one| one.rate > 0.0).map(|one| one.left / one.rate);
            let end = self.now + ends.fold(f64::INFINITY, f64::min);
            let event = self.events.next_at().map_or(f64::INFINITY, |at| at.0);
            let next = end.min(event);
            if !next.is_finite() {
                return Err(FlowError::Stuck { unfinished, seconds: self.now as u64 });
            }
            self.advance(next);
            self.finish();
            while self.events.next_at().is_some_and(|at| at.0 <= self.now) {
                if let Some((_, event)) = self.events.pop() {
                    self.happen(event);
                }
            }
        }
    }

    fn is_done(&self, job: &Running) -> bool {
        job.iterations.len() >= self.setup.iterations as usize
    }

    /// Computes the rates of all streams.
    fn share(&mut self) {
        let streams: Vec<&Stream> = self.transfers.iter().map(|transfer| &transfer.stream).collect();
        self.sharing.share(&self.network.capacity, &streams);
        for (transfer, &rate) in self.transfers.iter_mut().zip(&self.sharing.rates) {
            transfer.rate = rate;
            if let Owner::Job(job, _) = transfer.owner
                && let Some(job) = self.jobs.get_mut(job).filter(|job| job.iterations.is_empty())
            {
                job.is_window_bound |= rate >= transfer.stream.limit * (1.0 - CLOSE);
            }
        }
    }

    fn advance(&mut self, to: f64) {
        let step = (to - self.now).max(0.0);
        for transfer in &mut self.transfers {
            let moved = (transfer.rate * step).min(transfer.left);
            transfer.left -= moved;
            transfer.moved += moved;
        }
        self.now = to.max(self.now);
    }

    /// Removes the streams that are done.
    fn finish(&mut self) {
        let mut place = 0;
        while let Some(transfer) = self.transfers.get(place) {
            if transfer.left > DONE {
                place += 1;
                continue;
            }
            let mut done = self.transfers.swap_remove(place);
            count(&mut done, &mut self.carried);
            self.is_stale = true;
            match done.owner {
                Owner::Source(source) => self.pause(source),
                Owner::Job(job, _) => self.stream_done(job),
            }
        }
    }

    fn stream_done(&mut self, place: usize) {
        let job = &mut self.jobs[place];
        job.streams = job.streams.saturating_sub(1);
        if job.streams == 0 {
            let latency = match &job.synchronisation {
                Synchronisation::Tree(tree) => tree.latency(&self.network),
                Synchronisation::Hosts(connections) => connections.latency(&self.network),
            };
            self.schedule(self.now + latency, FlowEvent::Synchronised(place));
        }
    }

    fn happen(&mut self, event: FlowEvent) {
        match event {
            FlowEvent::Computed(job) => self.synchronise(job),
            FlowEvent::Synchronised(job) => self.synchronised(job),
            FlowEvent::Volume(source) => {
                let stream = self.sources[source].volume();
                self.start(Owner::Source(source), stream);
            }
            FlowEvent::Outage(outage, begins) => {
                self.network.set(outage.what, begins);
                self.is_stale = true;
                // Connections that had no path around the dead part may have one now.
                let assumptions = self.setup.assumptions;
                self.schedule(self.now + assumptions.reroute_seconds, FlowEvent::Reroute);
                self.schedule(self.now + assumptions.replan_seconds, FlowEvent::Replan);
            }
            FlowEvent::Reroute => self.reroute(),
            FlowEvent::Replan => self.replan(),
        }
    }

    fn pause(&mut self, source: usize) {
        let pause = self.sources[source].pause();
        self.schedule(self.now + pause, FlowEvent::Volume(source));
    }

    /// Begins an iteration of a job.
    fn compute(&mut self, place: usize) {
        let job = &mut self.jobs[place];
        let (compute, workers) = (job.job.compute, job.job.workers.len());
        // The maximum of `workers` uniformly distributed times.
        let slowest = job.computing.random::<f64>().powf(1.0 / workers as f64);
        let at = job.began + compute.seconds * (1.0 + compute.spread * slowest);
        self.schedule(at, FlowEvent::Computed(place));
    }

    fn synchronise(&mut self, place: usize) {
        let now = self.now;
        let job = &mut self.jobs[place];
        job.computed = now;
        let streams = match &job.synchronisation {
            Synchronisation::Tree(tree) => vec![tree.stream(&self.network)],
            Synchronisation::Hosts(connections) => connections.streams(),
        };
        job.streams = streams.len();
        for (which, stream) in streams.into_iter().enumerate() {
            self.start(Owner::Job(place, which), stream);
        }
    }

    fn synchronised(&mut self, place: usize) {
        let (now, is_done) = (self.now, self.is_done(&self.jobs[place]));
        let job = &mut self.jobs[place];
        if !is_done {
            let (compute, synchronisation) = (job.computed - job.began, now - job.computed);
            job.iterations.push(Iteration { compute, synchronisation });
        }
        job.began = now;
        self.compute(place);
    }

    fn start(&mut self, owner: Owner, stream: Stream) {
        self.is_stale = true;
        self.transfers.push(Transfer { owner, left: stream.bytes, stream, rate: 0.0, moved: 0.0 });
    }

    fn reroute(&mut self) {
        for place in 0..self.jobs.len() {
            let job = &mut self.jobs[place];
            if let Synchronisation::Hosts(connections) = &mut job.synchronisation
                && connections.reroute(&self.network, &mut job.ways)
            {
                let streams = connections.streams();
                self.lead(place, &streams);
            }
        }
        let mut routes = Routes::new(self.network.topology, &self.network.dead);
        for (place, source) in self.sources.iter_mut().enumerate() {
            if !source.reroute(&self.network, &mut routes) {
                continue;
            }
            let of_it = self.transfers.iter_mut().filter(|transfer| transfer.owner == Owner::Source(place));
            for transfer in of_it {
                replace(transfer, &source.stream(), &mut self.carried);
            }
            self.is_stale = true;
        }
    }

    fn replan(&mut self) {
        for place in 0..self.jobs.len() {
            if let Synchronisation::Tree(tree) = &mut self.jobs[place].synchronisation
                && self.fabric.repair(tree, &self.network)
            {
                let stream = tree.stream(&self.network);
                self.lead(place, &[stream]);
            }
        }
    }

    /// Moves a job's streams to other links. Bytes that have already moved are not sent again.
    fn lead(&mut self, place: usize, streams: &[Stream]) {
        self.is_stale = true;
        for transfer in &mut self.transfers {
            if let Owner::Job(job, which) = transfer.owner
                && job == place
                && let Some(stream) = streams.get(which)
            {
                replace(transfer, stream, &mut self.carried);
            }
        }
    }

    fn outcome(mut self) -> FlowOutcome {
        for transfer in &mut self.transfers {
            count(transfer, &mut self.carried);
        }
        let jobs = self.jobs.into_iter().map(|job| {
            let (aggregating, passing) = match &job.synchronisation {
                Synchronisation::Tree(tree) => tree.switches(),
                Synchronisation::Hosts(_) => (0, 0),
            };
            let Running { iterations, is_window_bound, .. } = job;
            JobOutcome { iterations, aggregating, passing, is_window_bound }
        });
        FlowOutcome {
            jobs: jobs.collect(),
            seconds: self.now,
            carried: self.carried,
            capacity: self.network.capacity,
        }
    }
}

/// Counts the bytes that a stream has moved on its links.
fn count(transfer: &mut Transfer, carried: &mut [f64]) {
    let moved = std::mem::take(&mut transfer.moved);
    for &(at, weight) in &transfer.stream.uses {
        carried[at] += weight * moved;
    }
}

/// Continues a transfer over other links.
///
/// The number of bytes left stays the same, because a gradient has the same number of frames on any path.
fn replace(transfer: &mut Transfer, stream: &Stream, carried: &mut [f64]) {
    count(transfer, carried);
    transfer.stream.uses.clone_from(&stream.uses);
    transfer.stream.limit = stream.limit;
}
