//! Connects the controller's state with the switches: executes calls and runs the background tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::Stream;
use tributary_api::v1;
use tributary_api::v1::EventKind;
use tributary_planner::JobRequest;
use tributary_topology::{NodeKey, Topology};
use tributary_wire::Rank;

use crate::error::SwitchError;
use crate::events::Events;
use crate::jobs::{Answered, Job, JobError, JobKey, Joined, Joining, ParticipantId, SessionId, State, Terms};
use crate::journal::{Journal, JournalError};
use crate::loads;
use crate::orphans::Orphans;
use crate::quotas::Asking;
use crate::state::{ControllerState, CreateError, Reload};
use crate::switch::{Counters, Desired, PacketIn, Pending, Reading, Switch, SwitchHealth};
use crate::wrong_sum::{Diagnoses, WrongSumReport};

/// The controller's state and its switches.
#[derive(Debug)]
pub(crate) struct Manager {
    /// The topology of `state`, readable without the lock of `state`.
    topology: RwLock<Arc<Topology>>,
    /// The journal of jobs.
    pub(crate) journal: Journal,
    state: Mutex<ControllerState>,
    /// The managed switches, in the order of the topology.
    switches: BTreeMap<NodeKey, Switch>,
    packet_ins: broadcast::Sender<PacketIn>,
    /// Jobs that members tried to rejoin but that this controller does not know.
    orphans: Orphans,
    /// Reports of wrong sums that are being collected.
    diagnoses: Diagnoses,
    /// The time of the controller's start.
    pub(crate) since: Instant,
    /// Recent events.
    pub(crate) events: Events,
    runtime: Handle,
}

/// Reasons why a job was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error(transparent)]
    Refused(#[from] CreateError),
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Error: a job has ended, but the journal still has it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the job has ended, but that is not on disk, and a controller that starts before it is takes the job up again: {0}"
)]
pub(crate) struct EndFailure(JournalError);

impl Manager {
    /// Creates a manager and starts its background tasks. Packets from switches arrive on `packet_ins`.
    /// Must be called in a tokio runtime.
    pub(crate) fn start(
        topology: Arc<Topology>,
        journal: Journal,
        state: ControllerState,
        switches: BTreeMap<NodeKey, Switch>,
        packet_ins: broadcast::Sender<PacketIn>,
    ) -> Arc<Self> {
        let (state, runtime) = (Mutex::new(state), Handle::current());
        let topology = RwLock::new(topology);
        let manager = Arc::new(Self {
            topology,
            journal,
            state,
            switches,
            packet_ins,
            orphans: Orphans::default(),
            diagnoses: Diagnoses::default(),
            since: Instant::now(),
            events: Events::default(),
            runtime,
        });
        for (key, switch) in &manager.switches {
            manager.runtime.spawn(free_withdrawn(Arc::downgrade(&manager), *key, switch.held()));
        }
        manager
    }

    /// Waits until the first attempt to connect to each switch has succeeded or failed, for at most
    /// `patience`.
    pub(crate) async fn first_contact(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut absent = Vec::new();
        for switch in self.switches.values() {
            let mut health = switch.health();
            let decided = |health: &SwitchHealth| !matches!(health, SwitchHealth::Connecting { .. });
            // The outcome is ignored here, because the health shows it.
            let _ = tokio::time::timeout_at(deadline, health.wait_for(decided)).await;
            if !switch.health().borrow().is_up() {
                absent.push(switch.name());
            }
        }
        if !absent.is_empty() {
            tracing::warn!(
                switches = absent.join(", "),
                "working without these switches until they are there"
            );
        }
    }

    /// Returns the present topology.
    /// Keys from the controller's state may be used with it only if the caller has the state locked. Otherwise a reload
    /// may have replaced the topology by one with more nodes.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        // A panic of another thread cannot damage it, because it is only replaced as a whole.
        self.topology.read().clone()
    }

    /// Applies another version of the topology as far as possible, and orders the switches to converge.
    pub(crate) fn reload_topology(&self, newer: &Topology) -> Reload {
        let reload = {
            let mut state = self.state();
            let reload = state.evolve(newer);
            *self.topology.write() = state.topology().clone();
            state.health.touch(Instant::now());
            state.look_at_all();
            reload
        };
        // The reload does not wait for the switches. Each switch gets its state as soon as possible.
        drop(self.order(self.switches.keys().copied()));
        reload
    }

    /// Locks the controller's state. The caller must release the lock quickly.
    pub(crate) fn state(&self) -> MutexGuard<'_, ControllerState> {
        // A panic of another thread cannot damage the state, because each call leaves it consistent.
        self.state.lock()
    }

    /// Orders each of the switches `keys` to converge to its desired state.
    fn order(&self, keys: impl IntoIterator<Item = NodeKey>) -> Vec<(NodeKey, Pending)> {
        // The state stays locked until all orders are issued, so that the last order of a switch has the newest state.
        let state = self.state();
        let order = |key: NodeKey| {
            let switch = self.switches.get(&key)?;
            Some((key, switch.converge(state.want(key), state.to_withdraw(key))))
        };
        keys.into_iter().filter_map(order).collect()
    }

    /// Brings switches into their desired states. Reports the first failure after all have been tried.
    /// A switch that fails gets its state as soon as possible.
    pub(crate) async fn converge(&self, keys: impl IntoIterator<Item = NodeKey>) -> Result<(), SwitchError> {
        let mut result = Ok(());
        for (key, order) in self.order(keys) {
            match order.outcome().await {
                Ok(held) => self.state().withdrawn(key, &held.withdraws),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Plans a job, reserves its resources, and clears its counters. If resources are missing, queues the
    /// job.
    /// The caller must start the reconciler of the job.
    pub(crate) async fn create(
        self: &Arc<Self>,
        asking: &Asking,
        name: &str,
        request: &JobRequest,
        terms: Terms,
    ) -> Result<JobKey, CreateFailure> {
        let key = self.state().create_for(asking, name, request, terms)?;
        self.prepare(key).await?;
        tracing::info!(job = name, creator = asking.creator, "created");
        self.note_creation(key, name, &asking.creator);
        Ok(key)
    }

    /// Creates the next run of a job, as [`create`](Self::create) does.
    ///
    /// Returns `None` if the last run is not over, or if the job was ended permanently.
    pub(crate) async fn create_again(self: &Arc<Self>, key: JobKey) -> Result<Option<JobKey>, CreateFailure> {
        let next = self.state().create_again(key)?;
        if let Some(next) = next {
            self.prepare(next).await?;
        }
        Ok(next)
    }

    /// Returns true if [`create_again`](Self::create_again) would create the next run of this job.
    pub(crate) fn may_run_again(&self, key: JobKey) -> bool {
        self.state().jobs.get(key).is_some_and(Job::may_run_again)
    }

    /// Clears a new job's counters, and writes the job to the journal.
    async fn prepare(self: &Arc<Self>, key: JobKey) -> Result<(), CreateFailure> {
        if let Err(error) = self.clear_counters(key).await {
            self.fail(key, &format!("its counters cannot be cleared: {error}"));
            return Err(error.into());
        }
        if let Err(error) = self.keep(key).await {
            self.fail(key, &error.to_string());
            return Err(error.into());
        }
        Ok(())
    }

    fn note_creation(&self, key: JobKey, name: &str, creator: &str) {
        let waits = {
            let state = self.state();
            let queued = state.jobs.get(key).filter(|job| *job.state() == State::Queued);
            queued.map(|job| job.waits.clone())
        };
        match waits {
            Some(waits) => {
                self.events.of_job(
                    EventKind::JobQueued,
                    name,
                    &format!("created by {creator}; waits for {waits}"),
                );
            }
            None => self.events.of_job(EventKind::JobCreated, name, &format!("created by {creator}")),
        }
    }

    /// Returns a job's name, as text for users.
    fn name_of(&self, key: JobKey) -> String {
        self.state().jobs.get(key).map(|job| job.record.name.clone()).unwrap_or_default()
    }

    /// Sets a job's counters to zero in all switches that it uses.
    async fn clear_counters(&self, key: JobKey) -> Result<(), SwitchError> {
        let orders: Vec<_> = {
            let state = self.state();
            let index = state.jobs.get(key).map(|job| job.record.job_index).unwrap_or_default();
            let held = state.switches_of(key);
            let switches = held.iter().filter_map(|key| self.switches.get(key));
            switches.map(|switch| switch.clear_counters(index)).collect()
        };
        for order in orders {
            order.await?;
        }
        Ok(())
    }

    /// Gives free slots to the jobs in the queue.
    async fn serve_queue(&self) {
        let served = self.state().advance_queue();
        for key in served {
            match self.start_queued(key).await {
                Ok(()) => {
                    tracing::info!(key, "has got the slots that it waited for");
                    let words = "has got the slots that it waited for";
                    self.events.of_job(EventKind::JobPlaced, &self.name_of(key), words);
                }
                Err(reason) => {
                    tracing::warn!(key, %reason, "has got slots, and waits on");
                    self.state().put_back(key);
                }
            }
        }
    }

    /// Admits a job from the queue after it got its slots.
    async fn start_queued(&self, key: JobKey) -> Result<(), SwitchError> {
        self.clear_counters(key).await?;
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return Ok(()) };
        job.admit(Instant::now());
        // The result can be ignored: no member learns of the job before its first generation is on disk, which happens
        // later.
        drop(self.journal.keep(&self.topology(), key, job));
        Ok(())
    }

    /// Writes the present state of a job to the journal, and waits for the outcome.
    async fn keep(&self, key: JobKey) -> Result<(), JournalError> {
        let kept = self.state().jobs.get(key).map(|job| self.journal.keep(&self.topology(), key, job));
        match kept {
            Some(written) => written.outcome_soon().await,
            None => Ok(()),
        }
    }

    /// Lets a host's process join a job, or reconnect to it.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        joining: &Joining<'_>,
    ) -> Result<MemberEvents, JobError> {
        let mut state = self.state();
        let key = state.jobs.authorize(name, token).inspect_err(|error| {
            if joining.resume > 0 && matches!(error, JobError::NoSuchJob(_)) {
                self.orphans.note(name, joining.host);
            }
        })?;
        let no_such_job = || JobError::NoSuchJob(name.to_owned());
        let job = state.jobs.get_mut(key).ok_or_else(no_such_job)?;
        let Joined { participant: id, session, events } = job.join(&self.topology(), joining)?;
        tracing::info!(job = name, host = joining.host, place = %id, resumes = joining.resume, "joined");
        let words = if joining.resume > 0 { format!("came back as {id}") } else { format!("joined as {id}") };
        self.events.of_member(EventKind::MemberJoined, name, joining.host, &words);
        Ok(MemberEvents { events, manager: self.clone(), job: key, participant: id, session })
    }

    /// Passes a member's answer to the task that changes the job's generation.
    pub(crate) fn answer(
        &self,
        name: &str,
        token: &[u8],
        host: &str,
        id: impl Fn(&ParticipantId) -> bool,
        answer: (u32, v1::answer_request::Answer),
    ) -> Result<(), JobError> {
        let mut state = self.state();
        let key = state.jobs.authorize(name, token)?;
        let job = state.jobs.get_mut(key).ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
        let ids = job.participants_of(host)?;
        let Some(id) = ids.into_iter().find(|one| id(one)) else {
            return Err(JobError::NotAsked(name.to_owned()));
        };
        let (generation, answer) = answer;
        let taken = job.answer(Answered { participant: id, generation, answer });
        if taken { Ok(()) } else { Err(JobError::NotAsked(name.to_owned())) }
    }

    /// Removes a member that leaves. The job continues without it, unless the job is rigid.
    pub(crate) fn leave(
        &self,
        request: &v1::LeaveRequest,
        is_meant: impl Fn(&ParticipantId) -> bool,
    ) -> Result<(), JobError> {
        let v1::LeaveRequest { job: name, token, host, reason, at_end, .. } = request;
        let mut state = self.state();
        let key = state.jobs.authorize(name, token)?;
        let job = state.jobs.get_mut(key).ok_or_else(|| JobError::NoSuchJob(name.clone()))?;
        // If the host gives no role, its training process leaves, because workers order before servers.
        let id = job.participants_of(host)?.into_iter().find(|id| is_meant(id));
        if let Some(id) = id {
            tracing::info!(job = name, host, place = %id, reason, "left");
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            self.events.of_member(EventKind::MemberLeft, name, host, &format!("{id} left{why}"));
            if *at_end {
                job.come_to_end(&id);
            }
            job.leave(&id, reason, Instant::now());
        }
        Ok(())
    }

    /// Fails the job because a member has reported an error.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        host: &str,
        what: &str,
    ) -> Result<(), JobError> {
        let key = {
            let state = self.state();
            let key = state.jobs.authorize(name, token)?;
            state.jobs.get(key).map_or(Ok(()), |job| job.participants_of(host).map(drop))?;
            key
        };
        self.fail(key, &format!("host {host:?} {what}"));
        Ok(())
    }

    /// Accepts a worker's report of its contribution to an all-reduce with a wrong sum.
    /// The job fails when all of its workers have reported, or some time after the first report. The returned channel
    /// delivers the verdict.
    pub(crate) fn report_wrong_sum(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        host: &str,
        report: WrongSumReport,
    ) -> Result<watch::Receiver<Option<String>>, JobError> {
        let (key, rank, members) = {
            let state = self.state();
            let key = state.jobs.authorize(name, token)?;
            let job = state.jobs.get(key).ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
            if let State::Failed(reason) = job.state() {
                // A failed job has no members, so the host is not checked. Every caller with the token may read the
                // reason.
                return Ok(watch::Sender::new(Some(reason.clone())).subscribe());
            }
            let rank = job.rank_of(host)?;
            let workers = job.record.generation().plan.workers.iter();
            (key, rank, workers.map(|worker| (Rank::new(worker.rank), worker.name.clone())).collect())
        };
        let (is_first, verdict) = self.diagnoses.note(key, members, rank, report);
        if is_first {
            self.runtime.spawn(Arc::clone(self).conclude(key));
        }
        Ok(verdict)
    }

    /// Waits for the members' reports, and fails the job with the verdict.
    async fn conclude(self: Arc<Self>, key: JobKey) {
        let verdict = self.diagnoses.verdict(key).await;
        self.finish(key, v1::JobFailed { reason: verdict.clone(), wrong_sum: true });
        self.diagnoses.close(key, verdict);
    }

    /// Notes that a member's stream has broken.
    fn lose(&self, key: JobKey, id: &ParticipantId, session: SessionId) {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return };
        if let Some(host) = job.lose(id, session, Instant::now()) {
            let words = format!("the connection of {id} has broken");
            self.events.of_member(EventKind::MemberLost, &job.record.name, &host, &words);
        }
    }

    /// Invites a host to join a job as its server.
    pub(crate) fn invite(&self, key: JobKey, host: &str) {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return };
        let now = Instant::now();
        job.invite(host, now);
        let (name, token) = (job.record.name.clone(), job.record.token.to_bytes());
        let told = state.hosts.order_to_serve(host, &name, token, now);
        tracing::info!(job = name, host, told, "asked to serve");
    }

    /// Notes that a job has completed a change of its generation.
    pub(crate) fn note_success(&self, key: JobKey) {
        self.note_setback(key, String::new());
        if let Some(job) = self.state().jobs.get(key) {
            job.record.warn_of_fallbacks();
            let record = &job.record;
            let words = match record.last_change.as_str() {
                "" => format!("runs in generation {}", record.current),
                reason => format!("changed over to generation {}: {reason}", record.current),
            };
            self.events.of_job(EventKind::JobChanged, &record.name, &words);
        }
    }

    /// Notes why a job has not changed its generation; empty if no problem exists. Returns true if the
    /// reason is new.
    pub(crate) fn note_setback(&self, key: JobKey, setback: String) -> bool {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return false };
        let words = format!("cannot change over yet: {setback}");
        let (is_setback, is_news) = (!setback.is_empty(), job.note_setback(setback));
        if is_setback && is_news {
            self.events.of_job(EventKind::JobHeldUp, &job.record.name, &words);
        }
        is_news
    }

    /// Returns the channel that wakes a job's reconciler.
    pub(crate) fn look_of(&self, key: JobKey) -> Option<watch::Receiver<()>> {
        self.state().jobs.get(key).map(|job| job.look.subscribe())
    }

    pub(crate) fn fail(self: &Arc<Self>, key: JobKey, reason: &str) {
        self.finish(key, v1::JobFailed { reason: reason.to_owned(), wrong_sum: false });
    }

    /// Fails the job, unless it is already over.
    fn finish(self: &Arc<Self>, key: JobKey, failure: v1::JobFailed) {
        let reason = failure.reason.clone();
        if self.state().jobs.get_mut(key).is_some_and(|job| job.fail(failure)) {
            tracing::warn!(key, reason, "job failed");
            self.events.of_job(EventKind::JobFailed, &self.name_of(key), &format!("failed: {reason}"));
            self.withdraw(key);
        }
    }

    /// Ends a job as [`end`](Self::end) does, and prevents further runs of it.
    pub(crate) async fn end_permanently(self: &Arc<Self>, key: JobKey) -> Result<(), EndFailure> {
        if let Some(job) = self.state().jobs.get_mut(key) {
            job.forbid_runs();
        }
        self.end(key).await
    }

    /// Ends a job and withdraws its tables.
    ///
    /// The call succeeds even if some tables cannot be withdrawn at once. They are withdrawn as soon as possible. Until
    /// then, no other job gets the job's slots on those switches.
    pub(crate) async fn end(self: &Arc<Self>, key: JobKey) -> Result<(), EndFailure> {
        if let Some(job) = self.state().jobs.get_mut(key)
            && job.end()
        {
            tracing::info!(job = job.record.name, "ended");
            self.events.of_job(EventKind::JobEnded, &job.record.name, "ended");
        }
        let switches = self.state().switches_of(key);
        if let Err(error) = self.converge(switches).await {
            tracing::warn!(key, %error, "tables of a job that has ended stay for now, and go as soon as they can");
        }
        self.state().settle(key);
        let kept = self.keep(key).await;
        if let Err(error) = &kept {
            tracing::error!(key, %error, "a job that has ended is still on disk");
        }
        kept.map_err(EndFailure)
    }

    /// Withdraws the tables of earlier generations after all members have changed their generation.
    pub(crate) fn retire_others(&self, key: JobKey) {
        if let Some(job) = self.state().jobs.get_mut(key) {
            job.retire_others();
        }
        self.withdraw(key);
    }

    /// Cancels a change: withdraws its tables, and lets members that had stopped continue.
    pub(crate) fn call_off(&self, key: JobKey, number: u32) {
        if let Some(job) = self.state().jobs.get_mut(key) {
            job.call_off(&self.topology(), number);
        }
        self.withdraw(key);
    }

    /// Orders the switches to withdraw the tables of the job's retired generations, and updates the
    /// journal.
    ///
    /// The call does not wait for the switches. The job's slots on a switch become free when the switch has finished.
    fn withdraw(&self, key: JobKey) {
        let switches = self.state().switches_of(key);
        drop(self.order(switches));
        let mut state = self.state();
        state.settle(key);
        if let Some(job) = state.jobs.get(key) {
            // The outcome is ignored, because the call cannot act on it.
            drop(self.journal.keep(&self.topology(), key, job));
        }
    }

    /// Returns the managed switches, in the order of the topology.
    pub(crate) fn switches(&self) -> &BTreeMap<NodeKey, Switch> {
        &self.switches
    }

    /// Returns a channel of the packets that switches send to the controller from now on.
    /// A reader that is too slow loses the oldest packets.
    pub(crate) fn packet_ins(&self) -> broadcast::Receiver<PacketIn> {
        self.packet_ins.subscribe()
    }

    /// Returns all counters of the `wanted` switches, in the order of the topology.
    /// If a switch does not answer at once, the last reading is returned.
    pub(crate) async fn counters(&self, wanted: impl Fn(&str) -> bool) -> Vec<(NodeKey, Counters)> {
        let wanted = self.switches.iter().filter(|(_, switch)| wanted(switch.name()));
        let asked: Vec<_> = wanted.map(|(key, switch)| (*key, switch.read_counters())).collect();
        let mut counters = Vec::new();
        for (key, asked) in asked {
            counters.push((key, asked.latest().await));
        }
        counters
    }

    /// Reads all counters, and updates the loads of links.
    /// The readings also serve as recent values for switches that become unreachable. A switch that does not answer
    /// keeps its loads.
    async fn measure_loads(&self) {
        for (key, counters) in self.counters(|_| true).await {
            if let Some(Reading { at, cells }) = counters.fresh() {
                self.state().loads.update(&self.topology(), key, *at, cells);
            }
        }
    }

    /// Returns true if the controller manages a switch called `name`.
    pub(crate) fn manages(&self, name: &str) -> bool {
        self.switches.values().any(|switch| switch.name() == name)
    }

    /// Fails every job that is alive, and withdraws all tables of jobs.
    pub(crate) async fn stop(&self) -> Result<(), SwitchError> {
        self.fail_all();
        // Only switches with state of jobs are ordered to converge, because other switches may be unreachable.
        let holding: BTreeSet<NodeKey> = {
            let state = self.state();
            state.jobs.iter().flat_map(|(key, _)| state.switches_of(key)).collect()
        };
        self.converge(holding).await
    }

    /// Fails every job that is alive, without changing the switches.
    pub(crate) fn fail_all(&self) {
        self.state().jobs.fail_all("the controller was shut down");
    }

    /// Leaves every job that is alive to the next controller.
    pub(crate) fn hang_up(&self) {
        self.state().hang_up();
    }
}

/// Measures the load of links periodically, until the controller ends.
pub(crate) async fn watch_loads(manager: Weak<Manager>) {
    let mut ticks = tokio::time::interval(loads::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        manager.measure_loads().await;
    }
}

/// Serves the queue each time that resources become free, until the controller ends.
pub(crate) async fn watch_queue(manager: Weak<Manager>) {
    let Some(mut news) = manager.upgrade().map(|manager| manager.state().queue_news.subscribe()) else {
        return;
    };
    loop {
        let Some(manager) = manager.upgrade() else { return };
        news.mark_unchanged();
        manager.serve_queue().await;
        drop(manager);
        if news.changed().await.is_err() {
            return;
        }
    }
}

/// Frees the resources of retired generations each time that a switch has withdrawn their tables.
/// Ends with the controller.
async fn free_withdrawn(
    manager: Weak<Manager>,
    key: NodeKey,
    mut held: watch::Receiver<Option<Arc<Desired>>>,
) {
    while held.changed().await.is_ok() {
        let newest = held.borrow_and_update().clone();
        let (Some(manager), Some(newest)) = (manager.upgrade(), newest) else { return };
        manager.state().withdrawn(key, &newest.withdraws);
    }
}

/// The stream of events for one member. Dropping it reports that the member's stream has broken.
#[derive(Debug)]
pub(crate) struct MemberEvents {
    events: mpsc::Receiver<v1::JobEvent>,
    manager: Arc<Manager>,
    job: JobKey,
    participant: ParticipantId,
    session: SessionId,
}

impl Stream for MemberEvents {
    type Item = Result<v1::JobEvent, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context).map(|event| event.map(Ok))
    }
}

impl Drop for MemberEvents {
    fn drop(&mut self) {
        // If the stream ended normally, the job is over and this call has no effect.
        self.manager.lose(self.job, &self.participant, self.session);
    }
}
