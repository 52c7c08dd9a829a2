//! The stripes of a worker.
//!
//! The first runs in the worker's thread, and each other in a thread of its own.
//!
//! The worker's thread starts operations in all stripes, and puts their results together. It waits for another thread
//! only to stop it or to learn its position; the other threads never wait for the worker's thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;
use tributary_api::{JobConfig, Role};
use tributary_protocol::{
    CollectiveError, ConfigError, FinishedSlice, JointAllReduce, OperationEvent, OperationId, StartError,
    Stripe, StripedOutcome, StripedReduced, StripesError, Time, Timers, Worker, WorkerConfig, WorkerProgress,
    WorkerStats,
};
use tributary_wire::{FrameView, JobId, Kind, MacAddr, Seq};

use crate::AgentStats;
use crate::driver::{Driver, StateMachine};
use crate::error::AgentError;
use crate::handle::Handle;
use crate::link::{FrameLink, Route, StripePort, Verdict};

/// A worker's path to the server, and the frames that come back.
#[derive(Debug, Clone)]
pub(super) struct Path {
    job: JobId,
    up: Route,
    /// The possible destinations of a result: the worker's own address and the job's multicast address.
    addresses: [MacAddr; 2],
}

impl Path {
    /// Returns the path of the worker with this configuration.
    ///
    /// # Errors
    /// [`AgentError::OtherRole`] if the configuration is for a server; [`AgentError::Frame`] if its hop stack is invalid.
    pub(super) fn new(config: &JobConfig) -> Result<Self, AgentError> {
        let Role::Worker { up, .. } = &config.role else { return Err(other_role(config)) };
        Ok(Self {
            job: config.job,
            up: Route::new(&config.own, &config.server, up.clone())?,
            addresses: [config.own.mac, config.multicast.mac],
        })
    }

    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// Passes a frame to the worker if it is a result of the job's server.
    pub(super) fn receive(&self, worker: &mut Worker, now: Time, frame: &FrameView<'_>) -> Verdict {
        let (message, to) = (frame.message(), frame.header().destination_mac);
        let from_server = self.up.leads_to_sender_of(frame.header());
        if message.header().kind != Kind::Result || !self.addresses.contains(&to) || !from_server {
            return Verdict::NotOurs;
        }
        worker.handle_result(now, message.header(), message.values());
        Verdict::Ours
    }

    /// Sends all slices of the worker that are due.
    pub(super) fn transmit(
        &self,
        worker: &mut Worker,
        now: Time,
        link: &mut FrameLink,
    ) -> Result<(), AgentError> {
        while let Some(slice) = worker.poll_transmit(now) {
            link.send(&self.up, slice.header, slice.values)?;
        }
        Ok(())
    }
}

pub(super) fn other_role(config: &JobConfig) -> AgentError {
    AgentError::OtherRole { job: config.name.clone(), started_as: "worker" }
}

/// Creates the worker of one of the stripes of a configuration.
fn worker(config: &JobConfig, timers: Timers, stripe: Stripe) -> Result<Worker, AgentError> {
    let Role::Worker { rank, secret, confidential, .. } = &config.role else {
        return Err(other_role(config));
    };
    let first = || StripesError { stripes: config.start_seqs.len() as u32, window: config.window };
    Ok(Worker::new(WorkerConfig {
        stripe,
        job: config.job,
        rank: *rank,
        members: config.ranks.clone(),
        secret: secret.clone(),
        confidential: *confidential,
        width: config.width,
        window: config.window,
        start: *config
            .start_seqs
            .get(stripe.number() as usize)
            .ok_or_else(first)
            .map_err(ConfigError::from)?,
        begun: config.begun,
        timers: Timers { slice_time: config.slice_time, ..timers },
    })?)
}

/// All stripes of a worker.
pub(super) struct Stripes {
    /// The stripe that the worker's thread runs, and its worker.
    stripe: Stripe,
    pub(super) own: Worker,
    others: Vec<OtherStripe>,
    reports: Receiver<Report>,
    timers: Timers,
    /// The operations under way, except those with an outcome.
    outcomes: BTreeMap<OperationId, StripedOutcome>,
}

struct OtherStripe {
    handle: Handle<StripeState>,
    state: Arc<PublicState>,
}

/// An event of another stripe.
struct Report {
    stripe: usize,
    event: OperationEvent,
}

/// The part of a stripe's state that the worker's thread reads.
#[derive(Debug, Default)]
struct PublicState {
    /// The number of operations since the job's start that are done.
    done: AtomicU64,
    /// The number of results.
    results: AtomicU64,
    is_frozen: AtomicBool,
    has_given_up: AtomicBool,
    /// True if the stripe's thread has ended.
    has_ended: AtomicBool,
}

impl Stripes {
    /// Creates the stripes of a configuration. The second and each further stripe gets one of the `ports`.
    /// `waker` wakes the worker's thread.
    pub(super) fn new(
        config: &JobConfig,
        timers: Timers,
        ports: Vec<StripePort>,
        waker: &Arc<Waker>,
    ) -> Result<Self, AgentError> {
        let mut stripes =
            Stripe::all(config.start_seqs.len() as u32, config.window).map_err(ConfigError::from)?;
        let first = stripes.next().unwrap_or(Stripe::WHOLE);
        let own = worker(config, timers, first)?;
        let (sender, reports) = unbounded();
        let other = |(stripe, port): (Stripe, StripePort)| {
            let public = Arc::new(PublicState::default());
            let state = StripeState {
                stripe,
                worker: worker(config, timers, stripe)?,
                path: Some(Path::new(config)?),
                timers,
                public: Arc::clone(&public),
                reports: sender.clone(),
                owner: Arc::clone(waker),
            };
            state.publish();
            let what = format!("stripe {}", stripe.number());
            let handle = Handle::spawn(&what, (&config.name, config.width), |_| Ok(state), port)?;
            Ok(OtherStripe { handle, state: public })
        };
        let others = stripes.zip(ports).map(other).collect::<Result<_, AgentError>>()?;
        Ok(Self { stripe: first, own, others, reports, timers, outcomes: BTreeMap::new() })
    }

    /// Restarts all stripes with another configuration.
    pub(super) fn restart(&mut self, config: &JobConfig) -> Result<(), AgentError> {
        self.own = worker(config, self.timers, self.stripe)?;
        self.outcomes.clear();
        self.tell_each(config, |stripe, _, config| stripe.restart(config))?;
        // Reports of the stripes' earlier operations do not count.
        self.reports.try_iter().for_each(drop);
        Ok(())
    }

    pub(super) fn count(&self) -> u32 {
        1 + self.others.len() as u32
    }

    /// Calls `order` in each other stripe's thread with the configuration, and waits.
    fn tell_each(
        &self,
        config: &JobConfig,
        order: fn(&mut StripeState, Time, &JobConfig) -> Result<(), AgentError>,
    ) -> Result<(), AgentError> {
        self.others.iter().try_for_each(|other| {
            let config = config.clone();
            other.handle.call_blocking(move |driver| {
                let now = driver.now();
                let outcome = order(&mut driver.state, now, &config);
                driver.state.publish();
                outcome
            })?
        })
    }

    /// Calls `call` in each other stripe's thread, and waits for the answers.
    fn ask_each<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Worker, Time) -> T + Copy + Send + 'static,
    ) -> Result<Vec<T>, AgentError> {
        let ask = |other: &OtherStripe| {
            other.handle.call_blocking(move |driver| {
                let now = driver.now();
                let answer = call(&mut driver.state.worker, now);
                driver.state.publish();
                answer
            })
        };
        self.others.iter().map(ask).collect()
    }

    /// Starts an operation in all stripes, or queues it behind the operations under way.
    /// `operations` has the operation of each stripe, or only that of the first.
    ///
    /// # Errors
    /// As for [`Worker::start_joint`]. If another stripe has no memory, its thread ends, and the worker with it.
    pub(super) fn start(&mut self, operations: Vec<JointAllReduce>) -> Result<OperationId, StartError> {
        operations.iter().try_for_each(JointAllReduce::check)?;
        let outcome = StripedOutcome::new(operations.iter().map(|operation| operation.first.data.len()));
        let mut operations = operations.into_iter();
        let Some(first) = operations.next() else { return Err(StartError::NoPart) };
        let id = self.own.start_joint(first)?;
        for other in &self.others {
            let part = operations.next();
            // If the stripe's thread has ended, `check` returns the reason.
            let _ = other.handle.send(move |driver| start(driver, part));
        }
        self.outcomes.insert(id, outcome);
        Ok(id)
    }

    /// Abandons an operation in all stripes.
    pub(super) fn abandon(&mut self, operation: OperationId) {
        self.own.abandon(operation);
        for other in &self.others {
            let _ = other.handle.send(move |driver| driver.state.worker.abandon(operation));
        }
    }

    /// Freezes all stripes.
    pub(super) fn freeze(&mut self) -> Result<(), AgentError> {
        self.own.freeze();
        self.ask_each(|worker, _| worker.freeze()).map(drop)
    }

    /// Continues in all stripes until `until` operations are done.
    pub(super) fn proceed(&mut self, now: Time, until: u64) -> Result<(), AgentError> {
        self.own.proceed(now, until);
        self.ask_each(move |worker, now| worker.proceed(now, until)).map(drop)
    }

    pub(super) fn progress(&self) -> Result<WorkerProgress, AgentError> {
        let mut all = vec![self.own.progress()];
        all.extend(self.ask_each(|worker, _| worker.progress())?);
        Ok(WorkerProgress::of_stripes(&all))
    }

    /// Returns the results of the `slices` that the stripes still have.
    pub(super) fn finished(&self, slices: &[Seq]) -> Result<Vec<FinishedSlice>, AgentError> {
        let of = |worker: &Worker, slices: &[Seq]| {
            slices.iter().filter_map(|seq| worker.finished(*seq).cloned()).collect::<Vec<_>>()
        };
        let mut finished = of(&self.own, slices);
        for other in &self.others {
            let slices = slices.to_vec();
            finished.extend(other.handle.call_blocking(move |driver| of(&driver.state.worker, &slices))?);
        }
        Ok(finished)
    }

    /// Withdraws the operations that wait, and returns their ids.
    pub(super) fn withdraw_waiting(&mut self) -> Result<Vec<OperationId>, AgentError> {
        self.ask_each(|worker, _| drop(worker.withdraw_waiting()))?;
        let withdrawn = self.own.withdraw_waiting();
        withdrawn.iter().for_each(|operation| drop(self.outcomes.remove(operation)));
        Ok(withdrawn)
    }

    /// Changes all stripes to another generation.
    pub(super) fn change(&mut self, now: Time, config: &JobConfig) -> Result<(), AgentError> {
        change(&mut self.own, now, config)?;
        self.tell_each(config, StripeState::change)
    }

    /// Lets the other stripes send nothing and accept nothing until the next [`restart`](Self::restart).
    pub(super) fn detach(&self) -> Result<(), AgentError> {
        let detach = |other: &OtherStripe| other.handle.call_blocking(|driver| driver.state.path = None);
        self.others.iter().try_for_each(detach)
    }

    /// Returns true if all stripes are frozen.
    pub(super) fn is_frozen(&self) -> bool {
        self.own.is_frozen() && self.public().all(|state| state.is_frozen.load(Ordering::Acquire))
    }

    pub(super) fn has_given_up(&self) -> bool {
        self.own.has_given_up() || self.public().any(|state| state.has_given_up.load(Ordering::Acquire))
    }

    /// Returns the number of operations since the job's start that are done in all stripes.
    pub(super) fn done(&self) -> u64 {
        self.public().map(|state| state.done.load(Ordering::Acquire)).fold(self.own.done(), u64::min)
    }

    /// Returns the number of results in all stripes.
    pub(super) fn results(&self) -> u64 {
        let others: u64 = self.public().map(|state| state.results.load(Ordering::Acquire)).sum();
        self.own.stats().results + others
    }

    fn public(&self) -> impl Iterator<Item = &PublicState> {
        self.others.iter().map(|other| &*other.state)
    }

    /// Checks that the threads of all stripes run.
    ///
    /// # Errors
    /// [`AgentError::Ended`] with the reason why one has ended.
    pub(super) fn check(&self) -> Result<(), AgentError> {
        let ended = self.others.iter().find(|other| other.state.has_ended.load(Ordering::Acquire));
        ended.map_or(Ok(()), |other| Err(other.handle.end_error()))
    }

    /// Returns the next operation that has ended, with its outcome.
    /// An operation is complete if it is complete in all stripes, and fails with the first error of a stripe.
    pub(super) fn poll_ended(&mut self) -> Option<(OperationId, Result<StripedReduced, CollectiveError>)> {
        loop {
            let own = self.own.poll_event().map(|event| Report { stripe: 0, event });
            let Report { stripe, event } = own.or_else(|| self.reports.try_recv().ok())?;
            let (OperationEvent::Completed { operation, .. } | OperationEvent::Failed { operation, .. }) =
                event;
            let Some(outcome) = self.outcomes.get_mut(&operation) else { continue };
            let outcome = match event {
                OperationEvent::Completed { reduced, .. } => outcome.complete(stripe, reduced).map(Ok),
                OperationEvent::Failed { error, .. } => Some(Err(outcome.error(stripe, error))),
            };
            if let Some(outcome) = outcome {
                self.outcomes.remove(&operation);
                return Some((operation, outcome));
            }
        }
    }

    /// Adds the counters of the other stripes.
    pub(super) fn with_others(&self, own: AgentStats<WorkerStats>) -> AgentStats<WorkerStats> {
        // A stripe whose thread has ended is left out.
        let others =
            self.others.iter().filter_map(|other| other.handle.call_blocking(|one| one.stats()).ok());
        others.fold(own, |all, one| AgentStats {
            protocol: all.protocol.with(one.protocol),
            traffic: all.traffic.with(one.traffic),
        })
    }
}

fn change(worker: &mut Worker, now: Time, config: &JobConfig) -> Result<(), AgentError> {
    worker.change_generation(now, config.job, &config.ranks)?;
    worker.set_slice_time(config.slice_time);
    Ok(())
}

/// Starts the part of an operation in a further stripe; `part` is `None` if the operation is small.
fn start(driver: &mut Driver<StripeState>, part: Option<JointAllReduce>) {
    let worker = &mut driver.state.worker;
    let outcome = match part {
        Some(part) => worker.start_joint(part),
        None => Ok(worker.start_elsewhere()),
    };
    if let Err(error) = outcome {
        // The members count on this stripe's slices, and the first stripe has begun the operation.
        driver.end = Some(error.to_string());
    }
}

/// The state of the thread of a further stripe.
struct StripeState {
    stripe: Stripe,
    worker: Worker,
    /// The path to the server; `None` while the job continues without this worker.
    path: Option<Path>,
    timers: Timers,
    public: Arc<PublicState>,
    reports: Sender<Report>,
    /// Wakes the worker's thread.
    owner: Arc<Waker>,
}

impl StripeState {
    fn restart(&mut self, config: &JobConfig) -> Result<(), AgentError> {
        self.worker = worker(config, self.timers, self.stripe)?;
        self.path = Some(Path::new(config)?);
        Ok(())
    }

    fn change(&mut self, now: Time, config: &JobConfig) -> Result<(), AgentError> {
        let path = Path::new(config)?;
        change(&mut self.worker, now, config)?;
        self.path = Some(path);
        Ok(())
    }

    /// Lets the worker's thread read the present state. Returns true if the stripe has just been frozen.
    fn publish(&self) -> bool {
        let PublicState { done, results, is_frozen, has_given_up, .. } = &*self.public;
        done.store(self.worker.done(), Ordering::Release);
        results.store(self.worker.stats().results, Ordering::Release);
        has_given_up.store(self.worker.has_given_up(), Ordering::Release);
        let frozen = self.worker.is_frozen();
        let was_frozen = is_frozen.swap(frozen, Ordering::AcqRel);
        frozen && !was_frozen
    }

    fn wake_owner(&self) {
        // If the waker fails, the worker's thread has ended.
        let _ = self.owner.wake();
    }
}

impl Drop for StripeState {
    fn drop(&mut self) {
        self.public.has_ended.store(true, Ordering::Release);
        self.wake_owner();
    }
}

impl StateMachine for StripeState {
    type Stats = WorkerStats;

    fn job(&self) -> Option<JobId> {
        self.path.as_ref().map(Path::job)
    }

    fn handle_frame(&mut self, now: Time, frame: &FrameView<'_>) -> Verdict {
        match &self.path {
            Some(path) => path.receive(&mut self.worker, now, frame),
            None => Verdict::NotOurs,
        }
    }

    fn transmit(&mut self, now: Time, link: &mut FrameLink) -> Result<(), AgentError> {
        self.path.as_ref().map_or(Ok(()), |path| path.transmit(&mut self.worker, now, link))
    }

    fn next_timeout(&self) -> Option<Time> {
        self.path.as_ref().and_then(|_| self.worker.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.worker.handle_timeout(now);
    }

    fn report(&mut self, _: Time) {
        let stripe = self.stripe.number() as usize;
        let mut has_news = false;
        while let Some(event) = self.worker.poll_event() {
            // If the channel is closed, the worker's thread has ended.
            let _ = self.reports.send(Report { stripe, event });
            has_news = true;
        }
        if self.publish() || has_news {
            self.wake_owner();
        }
    }

    fn stats(&self) -> WorkerStats {
        self.worker.stats()
    }
}
