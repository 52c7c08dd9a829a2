//! The host of one rank: its worker, and the process for which the worker reduces.

use std::collections::{BTreeSet, HashMap, VecDeque};

use tributary_protocol::{
    AllReduce, Collective, CollectiveError, FinishedSlice, JointAllReduce, OperationEvent, OperationId, Part,
    Reduced, Time, WorkerConfig, WorkerProgress,
};
use tributary_wire::{Hop, JobId, Rank, Seq};

use super::stripes::Stripes;
use super::{Bug, broadcast, collective};

/// The outcome of one operation on one worker, or on a server that reads.
pub(crate) type OperationOutcome = Result<Reduced, CollectiveError>;

/// An order from the controller to a worker.
#[derive(Debug)]
pub(crate) enum Order {
    Prepare { attempt: u32 },
    Proceed { attempt: u32, until: u64 },
    Provide { attempt: u32, slices: Vec<Seq> },
    Change { place: Place, job: JobId, members: Vec<Rank> },
    Join { place: Place, config: WorkerConfig, starts: Vec<Seq> },
    Removed,
}

/// A message of a worker to the controller.
#[derive(Debug)]
pub(crate) enum Answer {
    Prepared { attempt: u32, rank: Rank, progress: WorkerProgress },
    Provided { attempt: u32, slices: Vec<FinishedSlice> },
}

/// A worker's place in a generation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// The generation.
    pub(crate) generation: usize,
    /// The worker's hop stack.
    pub(crate) stack: Vec<Hop>,
}

pub(crate) struct Host {
    pub(crate) rank: Rank,
    /// The worker; `None` on a host that is dead or that is not a member.
    pub(crate) worker: Option<Stripes>,
    pub(crate) place: Place,
    /// All operations of the job, each with the parts of the host's processes.
    /// `started` is the number of them that the process has started or has missed.
    inputs: Vec<Vec<AllReduce>>,
    pub(crate) started: usize,
    /// The outcomes of the present worker's operations.
    pub(crate) outcomes: HashMap<OperationId, OperationOutcome>,
    /// The generation in which the present worker has begun each operation.
    pub(crate) begun_in: HashMap<OperationId, usize>,
    /// The operations that this or an earlier worker of the host has abandoned.
    pub(crate) abandoned: BTreeSet<OperationId>,
    pub(crate) orders: VecDeque<Order>,
    /// The controller's attempt in which the worker proceeds up to a given operation; `None` otherwise.
    proceeding: Option<u32>,
    /// The number of hosts of the world.
    hosts: usize,
    /// The frozen progress that the worker has reported to the controller.
    told: Option<WorkerProgress>,
}

/// Returns the operation to which a host contributes these parts of its processes.
fn joint(parts: &[AllReduce], hosts: usize) -> JointAllReduce {
    let name = parts[0].name.clone();
    let mut parts_of_processes = parts
        .iter()
        .map(|part| Part { data: part.data.clone(), factor: part.weight })
        .collect::<VecDeque<_>>();
    let first = parts_of_processes.pop_front().unwrap();
    let weight = parts.iter().map(|part| part.weight).sum();
    JointAllReduce {
        name,
        first,
        further: parts_of_processes.into(),
        weight,
        bounds: None,
        is_withheld: false,
        collective: parts.first().map_or(Collective::AllReduce, |first| collective(first, hosts)),
    }
}

impl Host {
    /// Creates a host whose worker has the stripes that begin at `starts`.
    pub(crate) fn new(
        config: &WorkerConfig,
        starts: &[Seq],
        place: Place,
        inputs: Vec<Vec<AllReduce>>,
    ) -> Self {
        Self {
            rank: config.rank,
            hosts: config.members.len(),
            worker: Some(Stripes::new(config, starts).unwrap()),
            place,
            inputs,
            started: 0,
            outcomes: HashMap::new(),
            begun_in: HashMap::new(),
            abandoned: BTreeSet::new(),
            orders: VecDeque::new(),
            proceeding: None,
            told: None,
        }
    }

    /// Kills the worker without a notification to any other part.
    pub(crate) fn die(&mut self) {
        self.worker = None;
        self.orders.clear();
        (self.proceeding, self.told) = (None, None);
    }

    /// Returns true if the host has a worker, or will have one.
    pub(crate) fn is_alive(&self) -> bool {
        self.worker.is_some() || self.orders.iter().any(|order| matches!(order, Order::Join { .. }))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.started == self.inputs.len() && self.worker.as_ref().is_some_and(Stripes::is_idle)
    }

    pub(crate) fn has_more(&self) -> bool {
        self.worker.is_some() && self.started < self.inputs.len()
    }

    pub(crate) fn start_next(&mut self) {
        self.start(false);
    }

    /// Starts the next operation without a contribution.
    pub(crate) fn withhold_next(&mut self) {
        self.abandoned.insert(OperationId(self.started as u64));
        self.start(true);
    }

    fn start(&mut self, is_withheld: bool) {
        if let Some(worker) = &mut self.worker {
            let parts = &self.inputs[self.started];
            let operation = match broadcast(&parts[0]) {
                Some(broadcast) => broadcast.into(),
                None => joint(parts, self.hosts),
            };
            let id = worker.start_joint(JointAllReduce { is_withheld, ..operation }).unwrap();
            assert_eq!(id, OperationId(self.started as u64), "numbers are alike on all members");
            self.started += 1;
        }
    }

    /// Abandons the oldest operation that has not ended.
    pub(crate) fn abandon_oldest(&mut self) {
        let Some(worker) = &mut self.worker else { return };
        let pending = |id: &u64| !self.outcomes.contains_key(&OperationId(*id));
        if let Some(id) = (0..self.started as u64).find(pending).map(OperationId) {
            worker.abandon(id);
            self.abandoned.insert(id);
        }
    }

    /// Executes an order. Returns an error if the worker rejects it.
    pub(crate) fn obey(
        &mut self,
        now: Time,
        order: Order,
        bug: Option<Bug>,
    ) -> Result<Option<Answer>, String> {
        if let Order::Join { place, config, starts } = order {
            self.started = config.begun as usize;
            self.outcomes = (0..config.begun).map(|id| (OperationId(id), missed())).collect();
            self.begun_in.clear();
            self.worker = Some(Stripes::new(&config, &starts).map_err(|error| error.to_string())?);
            self.place = place;
            return Ok(None);
        }
        let Some(worker) = &mut self.worker else { return Ok(None) };
        match order {
            Order::Prepare { attempt } => {
                self.proceeding = None;
                if bug != Some(Bug::NoFreeze) {
                    worker.freeze();
                }
                return Ok(self.prepared(attempt));
            }
            Order::Proceed { attempt, until } => {
                self.told = None;
                worker.proceed(now, until);
                self.proceeding = (until < u64::MAX).then_some(attempt);
            }
            Order::Provide { attempt, slices } => {
                let slice = |&seq: &Seq| worker.finished(seq).cloned().ok_or(format!("{seq} is not kept"));
                let slices = slices.iter().map(slice).collect::<Result<_, _>>()?;
                return Ok(Some(Answer::Provided { attempt, slices }));
            }
            Order::Change { place, job, members } => {
                self.proceeding = None;
                if self.told.take().is_some_and(|told| told != worker.progress()) {
                    return Err(format!("rank {} is not where it said that it stands", self.rank));
                }
                worker.change_generation(now, job, &members).map_err(|error| error.to_string())?;
                self.place = place;
            }
            Order::Removed => self.die(),
            Order::Join { .. } => {}
        }
        Ok(None)
    }

    /// Returns a report once the worker has reached the operation to which it had to proceed.
    pub(crate) fn proceeded(&mut self) -> Option<Answer> {
        self.worker.as_ref().filter(|worker| worker.is_frozen())?;
        let attempt = self.proceeding.take()?;
        self.prepared(attempt)
    }

    fn prepared(&mut self, attempt: u32) -> Option<Answer> {
        let worker = self.worker.as_ref()?;
        let progress = worker.progress();
        self.told = worker.is_frozen().then(|| progress.clone());
        Some(Answer::Prepared { attempt, rank: self.rank, progress })
    }

    /// Records the operations that have begun, and the outcomes of operations that have ended.
    /// Returns an error if an operation has ended before.
    pub(crate) fn take_events(&mut self) -> Result<Vec<OperationId>, String> {
        let begun = self.worker.as_ref().map_or(0, |worker| worker.progress().begun);
        for id in (0..begun).map(OperationId).filter(|id| !self.outcomes.get(id).is_some_and(is_missed)) {
            self.begun_in.entry(id).or_insert(self.place.generation);
        }
        let mut ended = Vec::new();
        while let Some(event) = self.worker.as_mut().and_then(Stripes::poll_event) {
            ended.push(record(event, &mut self.outcomes)?);
        }
        Ok(ended)
    }
}

/// Returns the outcome of an operation that was over before the worker joined.
fn missed() -> OperationOutcome {
    Err(CollectiveError::Weight { tensor: "missed".to_owned(), weight: 0, most: 0 })
}

pub(crate) fn is_missed(outcome: &OperationOutcome) -> bool {
    *outcome == missed()
}

pub(crate) fn record(
    event: OperationEvent,
    outcomes: &mut HashMap<OperationId, OperationOutcome>,
) -> Result<OperationId, String> {
    let (operation, outcome) = match event {
        OperationEvent::Completed { operation, reduced } => (operation, Ok(reduced)),
        OperationEvent::Failed { operation, error } => (operation, Err(error)),
    };
    match outcomes.insert(operation, outcome) {
        None => Ok(operation),
        Some(_) => Err(format!("two outcomes of operation {}", operation.0)),
    }
}
