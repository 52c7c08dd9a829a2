//! One switch: a task that owns the P4Runtime session with the switch, and a handle on the task.
//!
//! The task retries the connection indefinitely. Before any other work, it installs our program and writes the newest
//! desired state (`connect`). Desired states and requests for readings are not queued. A newer desired state replaces
//! an older one (`desired_state`), and one reading of the counters answers all waiting callers (`counters`). An order
//! to an unreachable switch therefore costs only a short wait of its caller. Callers can watch the health of the switch
//! (`health`).

mod compare;
mod connect;
mod counters;
mod desired_state;
mod election;
mod health;
mod operations;
mod packets;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tributary_p4runtime::Target;
use tributary_topology::NodeKey;

pub(crate) use compare::Comparison;
pub(crate) use connect::Program;
pub(crate) use counters::{Asked, Counters};
pub(crate) use desired_state::{Desired, Pending};
pub(crate) use election::Elections;
pub(crate) use health::{SwitchHealth, UnreachableCause};
pub(crate) use packets::PacketIn;

use crate::error::SwitchError;
use crate::jobs::GenerationKey;
use crate::pipeline::Pipeline;
use crate::switch_state::SwitchState;
use compare::Compare;
use connect::Connector;
use counters::Readings;
use desired_state::{Patience, Tried};
use health::Reporter;
use packets::{PacketOut, Packets};
use task::{Clear, Driver, Worker};

/// The channel for the outcome of an order.
type Reply<T> = oneshot::Sender<Result<T, SwitchError>>;

/// Capacity of each queue of orders for a switch. Desired states and requests for readings are not
/// queued.
const QUEUE: usize = 64;
/// Capacity of the queue of packets for a switch; further packets are dropped.
/// One tick may produce two packets for each port.
const PACKETS: usize = 512;

/// The settings and handles that all switches of a controller share.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) elections: Elections,
    /// The time that a switch may take for one order before it counts as unreachable.
    pub(crate) patience: Duration,
    /// The channel for packets that switches send to the controller.
    pub(crate) packet_ins: broadcast::Sender<PacketIn>,
    /// True if this controller created its journal.
    ///
    /// If switches have tables of jobs in that case, those jobs have been lost.
    pub(crate) journal_is_new: bool,
}

/// The handle on one switch. Dropping it ends the switch's task.
#[derive(Debug)]
pub(crate) struct Switch {
    target: Target,
    patience: Duration,
    desired: watch::Sender<Arc<Desired>>,
    tried: watch::Receiver<Option<Tried>>,
    held: watch::Receiver<Option<Arc<Desired>>>,
    program: watch::Receiver<Program>,
    health: watch::Receiver<SwitchHealth>,
    clears: mpsc::Sender<Clear>,
    compares: mpsc::Sender<Compare>,
    asked: watch::Sender<u64>,
    readings: watch::Receiver<Readings>,
    packets: mpsc::Sender<PacketOut>,
    task: JoinHandle<()>,
}

impl Switch {
    /// Starts the task of a switch, which connects at once.
    /// `state` is the switch's desired state until the first call of [`converge`](Self::converge). Must be called in a
    /// tokio runtime.
    pub(crate) fn start(key: NodeKey, target: Target, state: SwitchState, common: &Common) -> Self {
        let (desired, newest) =
            watch::channel(Arc::new(Desired { version: 1, state, withdraws: Vec::new() }));
        let (clears, clears_in) = mpsc::channel(QUEUE);
        let (compares, compares_in) = mpsc::channel(QUEUE);
        let (asked, asked_in) = watch::channel(0);
        let (packets, outgoing) = mpsc::channel(PACKETS);
        let connector = Connector {
            target: target.clone(),
            pipeline: common.pipeline.clone(),
            elections: common.elections,
            desired: newest,
            tried: watch::Sender::new(None),
            held: watch::Sender::new(None),
            program: watch::Sender::default(),
            health: Reporter::new(&target.name),
            expects_no_jobs: common.journal_is_new,
        };
        let worker = Worker {
            clears: clears_in,
            compares: compares_in,
            asked: asked_in,
            readings: watch::Sender::default(),
            patience: common.patience,
            retry: None,
        };
        Self {
            target,
            patience: common.patience,
            desired,
            tried: connector.tried.subscribe(),
            held: connector.held.subscribe(),
            program: connector.program.subscribe(),
            health: connector.health.watch(),
            clears,
            compares,
            asked,
            readings: worker.readings.subscribe(),
            packets,
            task: tokio::spawn({
                let packets = Packets { switch: key, outgoing, incoming: common.packet_ins.clone() };
                Driver { connector, worker, packets }.run()
            }),
        }
    }

    /// Returns the switch's name in the topology.
    pub(crate) fn name(&self) -> &str {
        &self.target.name
    }

    /// Returns the switch's P4Runtime address: `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.target.address
    }

    /// Returns the health of the switch, now and after each change.
    pub(crate) fn health(&self) -> watch::Receiver<SwitchHealth> {
        self.health.clone()
    }

    /// Returns the result of the last check of the switch's program.
    pub(crate) fn program(&self) -> Program {
        *self.program.borrow()
    }

    /// Returns the reason why the switch refused its newest desired state; `None` if it did not.
    pub(crate) fn refusal(&self) -> Option<String> {
        let tried = self.tried.borrow();
        let error = tried.as_ref()?.outcome.as_ref().err()?;
        Some(health::without_name(self.name(), error))
    }

    /// Returns the number of table entries and multicast groups in the desired state.
    pub(crate) fn wanted_entries(&self) -> usize {
        let desired = self.desired.borrow();
        desired.state.entries.len() + desired.state.groups.len()
    }

    /// Returns the newest desired state that the switch holds, or held when the controller last reached it.
    ///
    /// The value is updated after each write, even if no caller waits for the write.
    pub(crate) fn held(&self) -> watch::Receiver<Option<Arc<Desired>>> {
        self.held.clone()
    }

    /// Sets the desired state of the switch.
    /// `withdraws` lists the generations whose tables are gone when the switch holds the state.
    pub(crate) fn converge(&self, state: SwitchState, withdraws: Vec<GenerationKey>) -> Pending {
        let mut version = 0;
        self.desired.send_modify(|newest| {
            version = newest.version + 1;
            *newest = Arc::new(Desired { version, state, withdraws });
        });
        Pending { version, tried: self.tried.clone(), patience: self.patience() }
    }

    /// Sets the counters of the job with index `job_index` to zero.
    ///
    /// # Errors
    /// The switch refuses, is unreachable, or takes too long. The counters may then be unchanged.
    pub(crate) fn clear_counters(
        &self,
        job_index: u16,
    ) -> impl Future<Output = Result<(), SwitchError>> + use<> {
        self.order(&self.clears, move |deadline, reply| Clear { job_index, deadline, reply })
    }

    /// Compares the switch's state with its desired state.
    ///
    /// # Errors
    /// The switch refuses, is unreachable, or takes too long.
    pub(crate) fn compare(&self) -> impl Future<Output = Result<Comparison, SwitchError>> + use<> {
        self.order(&self.compares, |deadline, reply| Compare { deadline, reply })
    }

    /// Queues an order for the task, and waits for its outcome.
    fn order<O, T, F: FnOnce(Instant, Reply<T>) -> O>(
        &self,
        queue: &mpsc::Sender<O>,
        order: F,
    ) -> impl Future<Output = Result<T, SwitchError>> + use<O, T, F> {
        let mut patience = self.patience();
        let (reply, outcome) = oneshot::channel();
        let switch = self.target.name.clone();
        let queued = queue.try_send(order(patience.deadline(), reply)).is_ok();
        let up = self.health.borrow().is_up();
        async move {
            if !queued && up {
                return Err(SwitchError::Busy { switch });
            }
            tokio::select! {
                biased;
                outcome = outcome, if queued => match outcome {
                    Ok(outcome) => outcome,
                    // The session broke while the switch carried out the order.
                    Err(_) => Err(patience.lost().await),
                },
                error = patience.lost() => Err(error),
            }
        }
    }

    /// Requests a new reading of the switch's counters.
    pub(crate) fn read_counters(&self) -> Asked {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        Asked::new(number, self.readings.clone(), self.health.clone())
    }

    /// Orders the switch to send `payload` as a frame out of `port`.
    /// The frame is silently dropped if the switch is unreachable or too many frames wait.
    pub(crate) fn packet_out(&self, port: u16, payload: Vec<u8>) {
        if self.health.borrow().is_up() && self.packets.try_send(PacketOut { port, payload }).is_err() {
            tracing::trace!(switch = self.name(), port, "a packet was dropped: too many wait");
        }
    }

    fn patience(&self) -> Patience {
        Patience::new(&self.target.name, self.health.clone(), self.patience)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
