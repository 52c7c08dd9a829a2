//! Code that all studies share: settings, and the comparison of methods.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tributary_topology::{FatTree, NodeKey, Topology, format_rate};

use crate::flow::assumptions::Assumptions;
use crate::flow::engine::simulate;
use crate::flow::error::FlowError;
use crate::flow::job::{Compute, Job, Method};
use crate::flow::outcome::{FlowOutcome, JobOutcome};
use crate::flow::setup::Setup;
use crate::parallel::on_all_cores;

/// The settings that all studies share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// Rate of the hosts' links, in bit/s.
    pub rate: u64,
    /// Ratio of the rate of hosts' links to the rate of links between switches.
    ///
    /// [`Study::Scaling`](super::Study::Scaling) does not use it.
    pub oversubscription: u32,
    /// Bytes of one worker's gradient.
    pub gradient_bytes: u64,
    /// The computing between two synchronisations.
    ///
    /// [`Study::Scaling`](super::Study::Scaling) does not use it.
    pub compute: Compute,
    /// The fabric's windows that are compared, in slices.
    pub windows: Vec<u32>,
    /// Number of hosts of a sharded parameter server, which is compared in addition to a single one.
    pub servers: usize,
    /// Number of workers of a job. [`Study::Scaling`](super::Study::Scaling) does not use it.
    pub workers: usize,
    /// Iterations of a job.
    pub iterations: u32,
    /// Number of seeds. Each seed draws all random choices again, and results are means over the seeds.
    pub seeds: u64,
    /// The assumptions about machines and protocols.
    pub assumptions: Assumptions,
}

/// One point on a study's axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The label of the point on the axis.
    pub place: String,
    /// Each method's result, in the order of [`Settings::methods`].
    ///
    /// [`Study::Slots`](super::Study::Slots) has only the methods that need slots.
    pub results: Vec<Measured>,
}

/// One method's result at one point. The figures are means over the seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The method.
    #[serde(flatten)]
    pub method: Method,
    /// The study's figure, in seconds; `None` if the planner refuses the job.
    pub seconds: Option<f64>,
    /// Mean time of a synchronisation, in seconds.
    pub synchronisation: Option<f64>,
    /// Utilisation of the busiest link direction, from 0 to 1.
    pub busiest: Option<f64>,
    /// Number of switches that aggregated for a job.
    pub aggregating: f64,
    /// Number of switches at which a job's streams met without being summed.
    pub passing: f64,
    /// The share of jobs whose window limited them more than the links did.
    pub window_bound: f64,
    /// The reason why the planner refuses the job; `None` if it accepts the job.
    pub refused: Option<String>,
}

impl Settings {
    /// Returns the methods that are compared.
    ///
    /// They are the fabric with each window, aggregation on leaves only with the last window, a parameter
    /// server on one host and on several hosts, and both all-reduces of hosts.
    pub fn methods(&self) -> Vec<Method> {
        let fabric = self.windows.iter().map(|&window| Method::Fabric { window });
        let leaf = self.windows.last().map(|&window| Method::Leaf { window });
        let servers = [1, self.servers].map(|servers| Method::ParameterServer { servers });
        let servers = servers.into_iter().take(if self.servers > 1 { 2 } else { 1 });
        fabric.chain(leaf).chain(servers).chain([Method::Ring, Method::DoubleTree]).collect()
    }

    /// Makes the fat tree with the fewest ports that has this many hosts.
    ///
    /// Links between switches are slower than hosts' links by the factor `oversubscription`.
    pub(super) fn network(
        &self,
        hosts: usize,
        oversubscription: u32,
        workers: usize,
    ) -> Result<Topology, FlowError> {
        let network = |error: &dyn std::fmt::Display| FlowError::Network(error.to_string());
        let mut ports = (2..).step_by(2).skip_while(|ports: &usize| ports.pow(3) / 4 < hosts);
        let tree = FatTree::new(ports.next().unwrap_or(0), workers).map_err(|error| network(&error))?;
        let slow = self.rate / u64::from(oversubscription.max(1));
        let text = tree.to_toml_with(&format_rate(self.rate), &format_rate(slow));
        Topology::parse(&text, "fat-tree.toml").map_err(|error| network(&error))
    }

    /// Runs each method with each seed, on all cores, and returns the means.
    ///
    /// `counts` extracts the study's figure in seconds from an outcome.
    pub(super) fn compare<'a>(
        &self,
        place: String,
        methods: &[Method],
        setup: impl Fn(Method, u64) -> Setup<'a> + Sync,
        counts: impl Fn(&Setup<'a>, &FlowOutcome) -> Result<f64, FlowError> + Sync,
    ) -> Result<Point, FlowError> {
        let seeds = self.seeds.max(1);
        let runs: Vec<_> =
            methods.iter().flat_map(|&method| (1..=seeds).map(move |seed| (method, seed))).collect();
        let found = on_all_cores(&runs, |&(method, seed)| {
            let setup = setup(method, seed);
            let outcome = simulate(&setup)?;
            Ok((counts(&setup, &outcome)?, outcome))
        });
        let of_method = found.chunks(runs.len() / methods.len().max(1));
        let results = methods.iter().zip(of_method).map(|(&method, found)| Measured::of(method, found));
        Ok(Point { place, results: results.collect::<Result<_, _>>()? })
    }

    /// Places jobs and their servers on random hosts.
    ///
    /// Workers are in the topology's order, so that neighbours in a ring are near one another. Each job
    /// begins at a random time within its first computation.
    pub(super) fn jobs(&self, topology: &Topology, count: usize, method: Method, seed: u64) -> Vec<Job> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut hosts: Vec<NodeKey> = topology.hosts().map(|(key, ..)| key).collect();
        hosts.shuffle(&mut rng);
        let of_job = hosts.chunks_exact(self.hosts_of_job()).take(count);
        let jobs = of_job.map(|hosts| {
            let (servers, workers) = hosts.split_at(self.servers.max(1));
            let mut workers = workers.to_vec();
            workers.sort_unstable();
            Job {
                workers,
                servers: servers.to_vec(),
                gradient_bytes: self.gradient_bytes,
                compute: self.compute,
                method,
                begins: self.compute.seconds * rand::RngExt::random::<f64>(&mut rng),
            }
        });
        jobs.collect()
    }

    pub(super) fn hosts_of_job(&self) -> usize {
        self.workers + self.servers.max(1)
    }

    pub(super) fn setup<'a>(&self, topology: &'a Topology, jobs: Vec<Job>, seed: u64) -> Setup<'a> {
        Setup {
            topology,
            assumptions: self.assumptions,
            jobs,
            iterations: self.iterations,
            background: None,
            outages: Vec::new(),
            seed,
        }
    }
}

impl Measured {
    fn of(method: Method, found: &[Result<(f64, FlowOutcome), FlowError>]) -> Result<Self, FlowError> {
        let outcomes: Result<Vec<_>, _> = found.iter().map(Result::as_ref).collect();
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(FlowError::Plan { reason, .. }) => return Ok(Self::refused(method, reason.to_string())),
            Err(other) => return Err(other.clone()),
        };
        let mean = |of: &dyn Fn(&(f64, FlowOutcome)) -> f64| {
            outcomes.iter().map(|one| of(one)).sum::<f64>() / outcomes.len().max(1) as f64
        };
        let of_jobs = |of: fn(&JobOutcome) -> f64| {
            mean(&|(_, outcome)| outcome.jobs.iter().map(of).sum::<f64>() / outcome.jobs.len().max(1) as f64)
        };
        Ok(Self {
            method,
            seconds: Some(mean(&|(seconds, _)| *seconds)),
            synchronisation: Some(of_jobs(JobOutcome::mean_synchronisation)),
            busiest: Some(mean(&|(_, outcome)| outcome.busiest())),
            aggregating: of_jobs(|job| job.aggregating as f64),
            passing: of_jobs(|job| job.passing as f64),
            window_bound: of_jobs(|job| f64::from(u8::from(job.is_window_bound))),
            refused: None,
        })
    }

    fn refused(method: Method, reason: String) -> Self {
        let none = None;
        Self {
            method,
            seconds: none,
            synchronisation: none,
            busiest: none,
            aggregating: 0.0,
            passing: 0.0,
            window_bound: 0.0,
            refused: Some(reason),
        }
    }
}
