//! Turns gradients into updates, at once or when all their gradients have arrived.

use std::collections::{BTreeMap, BTreeSet};

use tributary_api::ps::PushPlain;
use tributary_api::ps::server_message::Message;

use super::Job;
use crate::policy::{WeightedGradient, Worker};
use crate::server::output::{Output, Outputs};
use crate::server::pending::{PendingGradient, Update, Wait};
use crate::server::stats::JobStats;
use crate::server::weights;

impl Job {
    /// Makes an update, or delays it until the gradients that are still with their workers have arrived.
    /// They arrive as one sum if their workers can take part in a reduction, otherwise one by one.
    pub(super) fn apply(
        &mut self,
        mut parts: Vec<WeightedGradient>,
        out: &mut Outputs,
        stats: &mut JobStats,
    ) {
        let kept =
            |part: &&WeightedGradient| self.held.get(&part.worker).is_some_and(|held| held.values.is_none());
        let kept: BTreeSet<Worker> = parts.iter().filter(kept).map(|part| part.worker).collect();
        let rate = self.policy.rate() * self.spec.rate(self.policy.progress().slowest_epoch());
        let mut wait = Wait::Pushes;
        if !kept.is_empty() {
            let scaled = weights::scale(&parts);
            let own = |part: &&WeightedGradient| kept.contains(&part.worker);
            let granted: BTreeMap<_, _> = scaled.iter().filter(own).filter_map(weights::grant).collect();
            let all = granted.len() == kept.len();
            if all && let Some((group, round, zeros)) = self.groups.begin(&granted, out) {
                (parts, wait) = (scaled, Wait::Sum { group, round });
                stats.fabric_zeros += zeros as u64;
            } else {
                out.extend(kept.iter().map(|&worker| self.push_plain(worker)));
            }
        }
        let held = |part: WeightedGradient| Some((part, self.held.remove(&part.worker)?));
        let parts = parts.into_iter().filter_map(held).collect();
        let update = Update { parts, rate, wait, released: Vec::new(), until: None };
        if kept.is_empty() {
            self.update(update.parts, rate, None, stats);
        } else {
            self.pending.add(update);
        }
    }

    pub(super) fn push_plain(&self, worker: Worker) -> Output {
        Output::Send(worker, Message::PushPlain(PushPlain { iteration: self.used(worker) }))
    }

    /// Makes the updates that have become complete.
    pub(super) fn complete(&mut self, out: &mut Outputs, stats: &mut JobStats) {
        for update in self.pending.take_complete() {
            self.update(update.parts, update.rate, None, stats);
            update.released.into_iter().for_each(|(worker, cause)| self.release(worker, cause, out));
        }
    }

    /// Makes one update by the weighted mean of gradients. `sum` is the sum of the gradients that are not
    /// at the server.
    pub(super) fn update(
        &mut self,
        parts: Vec<(WeightedGradient, PendingGradient)>,
        rate: f32,
        sum: Option<&[f32]>,
        stats: &mut JobStats,
    ) {
        let total: f64 = parts.iter().map(|(part, _)| part.weight as f64).sum();
        match (&parts[..], sum) {
            ([], _) => return,
            ([(_, PendingGradient { values: Some(values), .. })], None) => {
                self.optimizer.update(&mut self.parameters, values, rate);
            }
            (parts, sum) => {
                match sum {
                    Some(sum) => {
                        let share = |(mean, sum): (&mut f32, &f32)| *mean = sum / total as f32;
                        self.mean.iter_mut().zip(sum).for_each(share);
                    }
                    None => self.mean.fill(0.0),
                }
                for (part, held) in parts {
                    let share = (part.weight as f64 / total) as f32;
                    let values = held.values.iter().flatten();
                    self.mean.iter_mut().zip(values).for_each(|(mean, value)| *mean += share * value);
                }
                self.optimizer.update(&mut self.parameters, &self.mean, rate);
            }
        }
        for (part, held) in parts {
            *self.used.entry(part.worker).or_default() += 1;
            // Saturating: after a restart from a checkpoint, workers may have seen more updates than the
            // server has.
            stats.used(part.worker, self.updates.saturating_sub(held.pulled));
        }
        self.updates += 1;
        self.look_for_divergence(stats);
    }

    fn look_for_divergence(&mut self, stats: &mut JobStats) {
        // The fold checks every value, because it is faster than a loop that stops early.
        if self.diverged || self.parameters.iter().fold(true, |all, value| all & value.is_finite()) {
            return;
        }
        (self.diverged, stats.diverged) = (true, true);
        tracing::warn!(
            job = self.spec.name,
            updates = self.updates,
            "the model has diverged: some parameters are not finite any more. Start anew with a lower learning-rate"
        );
    }
}
