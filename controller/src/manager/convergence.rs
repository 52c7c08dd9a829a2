//! Brings switches into their desired states, and reads and clears their counters.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_topology::NodeKey;

use super::Manager;
use crate::error::SwitchError;
use crate::jobs::JobKey;
use crate::switch::{Counters, Desired, Pending, SwitchHealth};

impl Manager {
    /// Orders each of the switches `keys` to converge to its desired state.
    pub(super) fn order(&self, keys: impl IntoIterator<Item = NodeKey>) -> Vec<(NodeKey, Pending)> {
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

    /// Orders the switches to withdraw the tables of the job's retired generations, and updates the
    /// journal.
    ///
    /// The call does not wait for the switches. The job's slots on a switch become free when the switch has finished.
    pub(super) fn withdraw(&self, key: JobKey) {
        let switches = self.state().switches_of(key);
        drop(self.order(switches));
        let mut state = self.state();
        state.settle(key);
        if let Some(job) = state.jobs.get(key) {
            // The outcome is ignored, because the call cannot act on it.
            drop(self.journal.keep(&self.topology(), key, job));
        }
    }

    /// Sets a job's counters to zero in all switches that it uses.
    pub(super) async fn clear_counters(&self, key: JobKey) -> Result<(), SwitchError> {
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
}

/// Frees the resources of retired generations each time that a switch has withdrawn their tables.
/// Ends with the controller.
pub(super) async fn free_withdrawn(
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
