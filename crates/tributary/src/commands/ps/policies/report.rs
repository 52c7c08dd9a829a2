//! The results of the comparison, for programs and for users.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::commands::ps::experiment::ExperimentResult;
use crate::commands::ps::gates::{self, Gate};
use crate::commands::ps::options::Policy;
use tributary_cli::output::number_table;

/// The greatest staleness of the adaptive policy, divided by the asynchronous policy's staleness.
const MOST_STALENESS: f64 = 0.65;
/// The least number of iterations of the adaptive policy, divided by the synchronous policy's number.
const LEAST_ITERATIONS: f64 = 1.7;
/// The least gain in accuracy of the adaptive policy over the asynchronous one, in percentage points.
const LEAST_OVER_ASP: f64 = 2.0;
/// The least difference between the accuracies of the adaptive and the synchronous policy, in
/// percentage points.
const LEAST_OVER_BSP: f64 = -2.0;

/// The results of one policy, as means over the seeds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PolicyRow {
    policy: Policy,
    /// Accuracy on held-out images, from 0 to 1.
    accuracy: f64,
    /// The accuracy with each seed.
    accuracies: Vec<f64>,
    /// Mean number of updates between a worker's pull and the use of its gradient.
    staleness: f64,
    /// Share of the time that workers wait, from 0 to 1.
    idle: f64,
    /// The number of gradients that one training used.
    iterations: f64,
    /// The number of updates of the parameters in one training.
    updates: f64,
}

impl PolicyRow {
    pub(super) fn new(policy: Policy, outcomes: &[ExperimentResult]) -> Self {
        let mean = |figure: fn(&ExperimentResult) -> f64| {
            outcomes.iter().map(figure).sum::<f64>() / outcomes.len().max(1) as f64
        };
        Self {
            policy,
            accuracy: mean(|outcome| outcome.accuracy),
            accuracies: outcomes.iter().map(|outcome| outcome.accuracy).collect(),
            staleness: mean(|outcome| outcome.staleness),
            idle: mean(|outcome| outcome.record.mean_idle()),
            iterations: mean(|outcome| outcome.iterations as f64),
            updates: mean(|outcome| outcome.updates as f64),
        }
    }
}

/// The comparison's JSON object.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PolicyReport {
    policies: Vec<PolicyRow>,
    pub(super) gates: Vec<Gate>,
}

impl PolicyReport {
    /// Checks the rows against the gates.
    pub(super) fn new(policies: Vec<PolicyRow>) -> Result<Self> {
        let row = |policy: Policy| {
            let found = policies.iter().find(|row| row.policy == policy);
            found.with_context(|| format!("no row of {}", policy.name()))
        };
        let (bsp, asp, a2s) = (row(Policy::Bsp)?, row(Policy::Asp)?, row(Policy::A2s)?);
        let points = |other: &PolicyRow| 100.0 * (a2s.accuracy - other.accuracy);
        let gates = vec![
            Gate::at_most(
                "staleness of a2s / staleness of asp",
                a2s.staleness / asp.staleness,
                MOST_STALENESS,
            ),
            Gate::at_least(
                "iterations of a2s / iterations of bsp",
                a2s.iterations / bsp.iterations,
                LEAST_ITERATIONS,
            ),
            Gate::at_least("accuracy of a2s - accuracy of asp, in points", points(asp), LEAST_OVER_ASP),
            Gate::at_least("accuracy of a2s - accuracy of bsp, in points", points(bsp), LEAST_OVER_BSP),
        ];
        Ok(Self { policies, gates })
    }

    /// Returns the results as text for users.
    pub(super) fn text(&self) -> String {
        let mut table = number_table(&[
            "policy",
            "accuracy",
            "of each seed",
            "staleness",
            "idle",
            "iterations",
            "updates",
        ]);
        for row in &self.policies {
            let each: Vec<_> = row.accuracies.iter().map(|value| format!("{:.1}", 100.0 * value)).collect();
            table.add_row([
                row.policy.name().to_owned(),
                format!("{:.2} %", 100.0 * row.accuracy),
                each.join(" "),
                format!("{:.2}", row.staleness),
                format!("{:.1} %", 100.0 * row.idle),
                format!("{:.0}", row.iterations),
                format!("{:.0}", row.updates),
            ]);
        }
        format!("{table}\n{}", gates::table(&self.gates))
    }
}
