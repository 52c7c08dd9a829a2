//! Brings the book and the switches together: what calls do, and what happens without one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::Stream;
use tributary_api::v1;
use tributary_planner::JobRequest;
use tributary_topology::{NodeKey, Topology};

use crate::book::{Book, CreateError};
use crate::error::SwitchError;
use crate::jobs::{Attendance, JobError, JobKey};
use crate::loads;
use crate::switch::{Counters, Desired, PacketIn, Pending, Reading, Switch, SwitchHealth};

/// The controller's book and its switches.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) topology: Arc<Topology>,
    book: Mutex<Book>,
    /// The managed switches, in the topology's order.
    switches: BTreeMap<NodeKey, Switch>,
    packet_ins: broadcast::Sender<PacketIn>,
    runtime: Handle,
}

/// Why a job was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error(transparent)]
    Refused(#[from] CreateError),
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

impl Manager {
    /// `packet_ins`: where the switches' packets come in. Must be called in a tokio runtime, which then does what
    /// nobody waits for.
    pub(crate) fn start(
        topology: Arc<Topology>,
        book: Book,
        switches: BTreeMap<NodeKey, Switch>,
        packet_ins: broadcast::Sender<PacketIn>,
    ) -> Arc<Self> {
        let (book, runtime) = (Mutex::new(book), Handle::current());
        let manager = Arc::new(Self { topology, book, switches, packet_ins, runtime });
        for (key, switch) in &manager.switches {
            manager.runtime.spawn(free_withdrawn(Arc::downgrade(&manager), *key, switch.held()));
        }
        manager
    }

    /// Waits until it is known of each switch whether it is there, but no longer than `patience`.
    pub(crate) async fn first_contact(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut absent = Vec::new();
        for switch in self.switches.values() {
            let mut health = switch.health();
            let decided = |health: &SwitchHealth| !matches!(health, SwitchHealth::Connecting { .. });
            // Its health says what has become of it.
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

    /// The book, for a moment.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        // Each change to the book is a call that leaves it sound, so that a panic elsewhere can't spoil it.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders that switches be brought into the state that they should be in now.
    fn order(&self, keys: impl IntoIterator<Item = NodeKey>) -> Vec<(NodeKey, Pending)> {
        // Orders are given while the book is locked, so that a switch's last one is the latest state.
        let book = self.book();
        let order = |key: NodeKey| {
            let switch = self.switches.get(&key)?;
            Some((key, switch.converge(book.want(key), book.to_withdraw(key))))
        };
        keys.into_iter().filter_map(order).collect()
    }

    /// Brings switches into the state that they should be in now; reports the first that fails, after all
    /// have been tried. Those that fail get their state as soon as they can.
    async fn converge(&self, keys: impl IntoIterator<Item = NodeKey>) -> Result<(), SwitchError> {
        let mut result = Ok(());
        for (key, order) in self.order(keys) {
            match order.outcome().await {
                Ok(held) => self.book().withdrawn(key, &held.withdraws),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Plans a job, takes what it needs, and clears its counters.
    pub(crate) async fn create(
        self: &Arc<Self>,
        name: &str,
        request: &JobRequest,
    ) -> Result<JobKey, CreateFailure> {
        let (key, orders) = {
            let mut book = self.book();
            let key = book.create(name, request)?;
            let record = book.jobs.get(key).map(|job| job.record.clone());
            let switches = record.iter().flat_map(|record| {
                let held = record.resources.switches.keys().filter_map(|key| self.switches.get(key));
                held.map(|switch| switch.clear_counters(record.job_index))
            });
            (key, switches.collect::<Vec<_>>())
        };
        for order in orders {
            if let Err(error) = order.await {
                self.fail(key, &format!("its counters cannot be cleared: {error}"));
                return Err(error.into());
            }
        }
        tracing::info!(job = name, "created");
        Ok(key)
    }

    /// Takes part in a job. The last member to join sets it going.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        host: &str,
    ) -> Result<MemberEvents, JobError> {
        let mut book = self.book();
        let key = book.jobs.authorize(name, token)?;
        let no_such_job = || JobError::NoSuchJob(name.to_owned());
        let (events, attendance) = book.jobs.get_mut(key).ok_or_else(no_such_job)?.join(host)?;
        tracing::info!(job = name, host, "joined");
        if attendance == Attendance::Complete {
            self.runtime.spawn(self.clone().install(key));
        }
        Ok(MemberEvents { events, manager: self.clone(), job: key, host: host.to_owned() })
    }

    async fn install(self: Arc<Self>, key: JobKey) {
        match self.converge(self.switches_of(key)).await {
            Ok(()) => {
                let started = self.book().start(key);
                tracing::info!(key, started, "tables installed");
            }
            Err(error) => self.fail(key, &format!("its tables cannot be installed: {error}")),
        }
    }

    /// A member says that something is wrong, or goes: the job fails.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        name: &str,
        token: &[u8],
        host: &str,
        what: &str,
    ) -> Result<(), JobError> {
        let key = {
            let book = self.book();
            let key = book.jobs.authorize(name, token)?;
            book.jobs.get(key).map_or(Ok(()), |job| job.check_member(host))?;
            key
        };
        self.fail(key, &format!("host {host:?} {what}"));
        Ok(())
    }

    fn fail(self: &Arc<Self>, key: JobKey, reason: &str) {
        if self.book().jobs.get_mut(key).is_some_and(|job| job.fail(reason)) {
            tracing::warn!(key, reason, "job failed");
            // Nobody waits for it.
            drop(self.order(self.switches_of(key)));
            self.book().settle(key);
        }
    }

    /// Ends a job and withdraws its tables. Those that can't be withdrawn now go as soon as they can; until then
    /// the job's slots there are nobody's to have.
    pub(crate) async fn end(self: &Arc<Self>, key: JobKey) -> Result<(), SwitchError> {
        if let Some(job) = self.book().jobs.get_mut(key)
            && job.end()
        {
            tracing::info!(job = job.record.name, "ended");
        }
        let withdrawn = self.converge(self.switches_of(key)).await;
        self.book().settle(key);
        withdrawn
    }

    fn switches_of(&self, key: JobKey) -> Vec<NodeKey> {
        let book = self.book();
        let switches = book.jobs.get(key).map(|job| job.record.resources.switches.keys().copied().collect());
        switches.unwrap_or_default()
    }

    /// The managed switches, in the topology's order.
    pub(crate) fn switches(&self) -> &BTreeMap<NodeKey, Switch> {
        &self.switches
    }

    /// The packets that switches send to the controller from now on. Who reads too slowly loses the oldest.
    #[allow(dead_code, reason = "for the probes of links, which are about to come")]
    pub(crate) fn packet_ins(&self) -> broadcast::Receiver<PacketIn> {
        self.packet_ins.subscribe()
    }

    /// All counters of the switches that are `wanted`, in the topology's order: as they are now, or as they were
    /// read last where a switch does not answer at once.
    pub(crate) async fn counters(&self, wanted: impl Fn(&str) -> bool) -> Vec<(NodeKey, Counters)> {
        let wanted = self.switches.iter().filter(|(_, switch)| wanted(switch.name()));
        let asked: Vec<_> = wanted.map(|(key, switch)| (*key, switch.read_counters())).collect();
        let mut counters = Vec::new();
        for (key, asked) in asked {
            counters.push((key, asked.latest().await));
        }
        counters
    }

    /// Reads all counters, for the loads of the links, and so that the last reading of a switch that goes is not
    /// an old one. A switch that does not answer keeps the loads that it had.
    async fn measure_loads(&self) {
        for (key, counters) in self.counters(|_| true).await {
            if let Some(Reading { at, cells }) = counters.fresh() {
                self.book().loads.update(&self.topology, key, *at, cells);
            }
        }
    }

    /// Whether `name` is a switch that the controller manages.
    pub(crate) fn manages(&self, name: &str) -> bool {
        self.switches.values().any(|switch| switch.name() == name)
    }

    /// Fails every job that is alive and withdraws all tables of jobs.
    pub(crate) async fn stop(&self) -> Result<(), SwitchError> {
        self.fail_all();
        self.converge(self.switches.keys().copied()).await
    }

    /// Fails every job that is alive, and leaves the switches alone.
    pub(crate) fn fail_all(&self) {
        self.book().jobs.fail_all("the controller was shut down");
    }
}

/// Measures what the links carry, again and again. Ends with the controller.
pub(crate) async fn watch_loads(manager: Weak<Manager>) {
    let mut ticks = tokio::time::interval(loads::INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        manager.measure_loads().await;
    }
}

/// Frees what jobs that are over had in a switch, whenever their tables have gone from it. Ends with the controller.
async fn free_withdrawn(
    manager: Weak<Manager>,
    key: NodeKey,
    mut held: watch::Receiver<Option<Arc<Desired>>>,
) {
    while held.changed().await.is_ok() {
        let newest = held.borrow_and_update().clone();
        let (Some(manager), Some(newest)) = (manager.upgrade(), newest) else { return };
        manager.book().withdrawn(key, &newest.withdraws);
    }
}

/// The events of one member. Dropping it says that the member is gone.
#[derive(Debug)]
pub(crate) struct MemberEvents {
    events: mpsc::Receiver<v1::JobEvent>,
    manager: Arc<Manager>,
    job: JobKey,
    host: String,
}

impl Stream for MemberEvents {
    type Item = Result<v1::JobEvent, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context).map(|event| event.map(Ok))
    }
}

impl Drop for MemberEvents {
    fn drop(&mut self) {
        // Nothing happens to a job that is over, which is when a stream ends by itself.
        self.manager.fail(self.job, &format!("host {:?} is gone: its connection broke", self.host));
    }
}
