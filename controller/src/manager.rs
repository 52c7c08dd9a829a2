//! Brings the book and the switches together: what calls do, and what happens without one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::Stream;
use tributary_api::v1;
use tributary_p4runtime::entry::CounterCell;
use tributary_planner::JobRequest;
use tributary_topology::{NodeKey, Topology};

use crate::book::{Book, CreateError};
use crate::error::SwitchError;
use crate::jobs::{Attendance, JobError, JobKey};
use crate::loads;
use crate::switch::Switch;

/// Between two attempts to withdraw tables from a switch that does not answer.
const WITHDRAW_PAUSE: Duration = Duration::from_secs(1);

/// The controller's book and its switches.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) topology: Arc<Topology>,
    book: Mutex<Book>,
    /// The managed switches, in the topology's order.
    switches: BTreeMap<NodeKey, Switch>,
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
    /// Must be called in a tokio runtime, which then does what nobody waits for.
    pub(crate) fn new(topology: Arc<Topology>, book: Book, switches: BTreeMap<NodeKey, Switch>) -> Self {
        Self { topology, book: Mutex::new(book), switches, runtime: Handle::current() }
    }

    /// The book, for a moment.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        // Each change to the book is a call that leaves it sound, so that a panic elsewhere can't spoil it.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings all switches into the state that they should be in.
    pub(crate) async fn converge_all(&self) -> Result<(), SwitchError> {
        self.converge(self.switches.keys().copied()).await
    }

    /// Brings switches into the state that they should be in now; reports the first that fails, after all
    /// have been tried.
    async fn converge(&self, keys: impl IntoIterator<Item = NodeKey>) -> Result<(), SwitchError> {
        // Orders are given while the book is locked, so that a switch's last one is the latest state.
        let orders: Vec<_> = {
            let book = self.book();
            let order = |key: NodeKey| {
                let switch = self.switches.get(&key)?;
                Some((key, book.to_withdraw(key), switch.converge(book.want(key))))
            };
            keys.into_iter().filter_map(order).collect()
        };
        let mut result = Ok(());
        for (key, over, order) in orders {
            match order.outcome().await {
                Ok(_) => self.book().withdrawn(key, &over),
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
            if let Err(error) = order.outcome().await {
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
            self.runtime.spawn(withdraw_in_the_end(Arc::downgrade(self), key));
        }
    }

    /// Ends a job and withdraws its tables; once more, if that failed before.
    pub(crate) async fn end(self: &Arc<Self>, key: JobKey) -> Result<(), SwitchError> {
        if let Some(job) = self.book().jobs.get_mut(key)
            && job.end()
        {
            tracing::info!(job = job.record.name, "ended");
        }
        let withdrawn = self.withdraw(key).await;
        if withdrawn.is_err() {
            self.runtime.spawn(withdraw_in_the_end(Arc::downgrade(self), key));
        }
        withdrawn
    }

    async fn withdraw(&self, key: JobKey) -> Result<(), SwitchError> {
        let result = self.converge(self.switches_of(key)).await;
        self.book().settle(key);
        result
    }

    fn switches_of(&self, key: JobKey) -> Vec<NodeKey> {
        let book = self.book();
        let switches = book.jobs.get(key).map(|job| job.record.resources.switches.keys().copied().collect());
        switches.unwrap_or_default()
    }

    /// All counters of the switches that are `wanted`, in the topology's order.
    pub(crate) async fn counters(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(NodeKey, Vec<CounterCell>)>, SwitchError> {
        let wanted = self.switches.iter().filter(|(_, switch)| wanted(switch.name()));
        let orders: Vec<_> = wanted.map(|(key, switch)| (*key, switch.read_counters())).collect();
        let mut counters = Vec::new();
        for (key, order) in orders {
            counters.push((key, order.outcome().await?));
        }
        Ok(counters)
    }

    /// Reads the counters of all ports, for the loads of the links. A switch that does not answer keeps the
    /// loads that it had.
    async fn measure_loads(&self) {
        let orders: Vec<_> =
            self.switches.iter().map(|(key, switch)| (*key, switch.read_port_counters())).collect();
        for (key, order) in orders {
            match order.outcome().await {
                Ok(cells) => self.book().loads.update(&self.topology, key, Instant::now(), &cells),
                Err(error) => tracing::debug!(%error, "cannot measure what a switch's links carry"),
            }
        }
    }

    /// The switches that the controller manages, in the topology's order.
    pub(crate) fn switch_names(&self) -> Vec<String> {
        self.switches.values().map(|switch| switch.name().to_owned()).collect()
    }

    /// Whether `name` is a switch that the controller manages.
    pub(crate) fn manages(&self, name: &str) -> bool {
        self.switches.values().any(|switch| switch.name() == name)
    }

    /// Fails every job that is alive and withdraws all tables of jobs.
    pub(crate) async fn stop(&self) -> Result<(), SwitchError> {
        self.fail_all();
        self.converge_all().await
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

/// Withdraws the tables of a job that is over, however long a switch does not answer: until then the job's
/// slots there are nobody's to have. Ends with the controller.
async fn withdraw_in_the_end(manager: Weak<Manager>, key: JobKey) {
    while let Some(manager) = manager.upgrade() {
        match manager.withdraw(key).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(key, %error, "cannot withdraw a job's tables yet"),
        }
        drop(manager);
        tokio::time::sleep(WITHDRAW_PAUSE).await;
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
