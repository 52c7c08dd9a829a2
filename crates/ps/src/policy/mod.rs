//! Decides when a gradient is used, and when its worker may continue.
//!
//! A worker computes a gradient, pushes it, and waits until the server releases it with new parameters. So a worker
//! never has more than one gradient at the server. A [`Policy`] gets an event for each worker that joins or leaves and
//! for each gradient that arrives. It answers with [`Action`]s, which the server does in order. It sees neither
//! gradients nor parameters, and gets the time as an argument.
//!
//! | policy | a gradient is applied | its worker continues |
//! |---|---|---|
//! | [`Bsp`] | with the gradients of all workers, once all have come | then |
//! | [`Asp`] | at once | at once |
//! | [`Ssp`] | at once | unless it is too far ahead of the slowest |
//! | [`Dssp`] | at once | unless it is too far ahead of the slowest, and waiting now is shorter than waiting later |
//! | [`SyncSwitch`] | as under BSP, after some epochs as under ASP | likewise |
//! | [`A2s`] | at once, or with the gradients of the synchronous group | when it is applied |

mod a2s;
mod asp;
mod bsp;
mod dssp;
mod progress;
mod ssp;
mod sync_switch;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

pub use a2s::{A2s, Spread};
pub use asp::Asp;
pub use bsp::Bsp;
pub use dssp::Dssp;
pub use progress::{Progress, Worker};
pub use ssp::Ssp;
pub use sync_switch::SyncSwitch;

/// A gradient of an update, with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightedGradient {
    /// The worker that computed the gradient.
    pub worker: Worker,
    /// The weight. The update's direction is the sum of weight · gradient, divided by the sum of the
    /// weights. Weights are integers, as in the fabric's packets.
    pub weight: u64,
}

/// An action of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Update the parameters once, by the weighted mean of these workers' gradients. The list has at least
    /// one entry.
    Apply(Vec<WeightedGradient>),
    /// Send this worker the present parameters; it computes its next gradient from them.
    Release(Worker),
}

/// Decides about a job's gradients.
///
/// Every gradient that arrives is applied once, unless its worker leaves before that. In this case the
/// policy either applies the gradient at once or never.
pub trait Policy: fmt::Debug + Send {
    /// Returns the name by which users choose the policy.
    fn name(&self) -> &'static str;

    /// Adds a worker. `iterations` of its gradients were used before; 0 for a new worker. The worker's
    /// count is raised to that of the slowest present worker if it is lower. The policy releases the worker
    /// at once if it may start.
    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action>;

    /// Handles the arrival of a gradient of a worker that was released. Ignored if the worker has not
    /// joined.
    fn arrive(&mut self, worker: Worker, now: Instant) -> Vec<Action>;

    /// Removes a worker. The policy does not release it any more.
    fn leave(&mut self, worker: Worker) -> Vec<Action>;

    /// Handles the notification that another server of the job has released a worker that waits here.
    /// Gradients may have arrived at the other server in another order. A policy whose releases depend on
    /// that order must release the worker now, because two servers could otherwise wait for each other.
    fn urge(&mut self, _worker: Worker) -> Vec<Action> {
        Vec::new()
    }

    /// Returns the factor of the learning rate for the updates of the last answer.
    fn rate(&self) -> f32 {
        1.0
    }

    /// Returns the present workers and the progress of each.
    fn progress(&self) -> &Progress;

    /// Returns the workers whose gradients are at present aggregated before they are applied.
    fn group(&self) -> BTreeSet<Worker>;
}

/// Returns the action that applies one gradient as a separate update.
fn apply_alone(worker: Worker) -> Action {
    Action::Apply(vec![WeightedGradient { worker, weight: 1 }])
}
