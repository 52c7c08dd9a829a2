//! Sums that the fabric makes for a job.

use super::Job;
use crate::policy::Worker;
use crate::server::group_fabric::{GroupEvent, Sum};
use crate::server::output::Outputs;
use crate::server::stats::JobStats;

impl Job {
    /// Handles an event of a reduction.
    pub(in crate::server) fn fabric(
        &mut self,
        group: u64,
        event: GroupEvent,
        stats: &mut JobStats,
    ) -> Outputs {
        let mut out = Outputs::new();
        match event {
            GroupEvent::Opened { job, token } => self.groups.opened(group, &job, &token, &mut out),
            GroupEvent::Live => self.groups.live(group),
            GroupEvent::Failed { reason } => self.give_up(group, &reason, &mut out, stats),
            GroupEvent::Sum(sum) => self.sum(group, &sum, &mut out, stats),
        }
        out
    }

    /// Handles a worker's report that its host cannot take part in a reduction.
    pub(in crate::server) fn fabric_failed(
        &mut self,
        worker: Worker,
        group: u64,
        reason: &str,
        stats: &mut JobStats,
    ) -> Outputs {
        let mut out = Outputs::new();
        if self.groups.is_member(worker, group) {
            self.give_up(group, &format!("worker {worker}: {reason}"), &mut out, stats);
        }
        out
    }

    fn sum(&mut self, group: u64, sum: &Sum, out: &mut Outputs, stats: &mut JobStats) {
        match self.groups.sum(group, sum, self.parameters.len(), out) {
            None => {}
            Some(Err(reason)) => self.give_up(group, &reason, out, stats),
            Some(Ok(())) => {
                if let Some(update) = self.pending.take_sum(group, sum.round) {
                    stats.fabric_rounds += 1;
                    self.update(update.parts, update.rate, Some(&sum.values), stats);
                    update.released.into_iter().for_each(|(worker, cause)| self.release(worker, cause, out));
                }
            }
        }
    }

    /// Ends a reduction; its group continues without it.
    pub(super) fn give_up(&mut self, group: u64, reason: &str, out: &mut Outputs, stats: &mut JobStats) {
        if self.groups.fail(group, self.policy.progress().slowest_epoch(), out) {
            tracing::warn!(job = self.spec.name, group, reason, "the group goes on without the fabric");
            self.fall_back(group, out, stats);
        }
    }

    /// Requests the single gradients that the reduction should have summed.
    pub(super) fn fall_back(&mut self, group: u64, out: &mut Outputs, stats: &mut JobStats) {
        let (rounds, workers) = self.pending.fall_back(group);
        stats.fabric_fallbacks += rounds;
        out.extend(workers.into_iter().map(|worker| self.push_plain(worker)));
    }
}
