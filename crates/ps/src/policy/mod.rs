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
    /// Its weight: the update's direction is the sum of weight · gradient, divided by the sum of the
    /// weights. An integer, as in the fabric's packets.
    pub weight: u64,
}

/// An action of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Update the parameters once, by the weighted mean of these workers' gradients.
    /// There is at least one part.
    Apply(Vec<WeightedGradient>),
    /// Send this worker the present parameters; it computes its next gradient from them.
    Release(Worker),
}

/// Decides about a job's gradients.
///
/// Every gradient that arrives is applied once, unless its worker leaves before that: then a policy either applies it
/// at once or never.
pub trait Policy: fmt::Debug + Send {
    /// The name that users choose it by.
    fn name(&self) -> &'static str;

    /// A worker joins.
    /// `iterations` of its gradients were used before, 0 when it is new; it counts as no further behind than the
    /// slowest of the present workers. It is released at once if it may start.
    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action>;

    /// The gradient of a worker that was released has arrived. It is ignored if the worker has not joined.
    fn arrive(&mut self, worker: Worker, now: Instant) -> Vec<Action>;

    /// A worker has left. It is not released any more.
    fn leave(&mut self, worker: Worker) -> Vec<Action>;

    /// Another server of the same job, which has seen gradients arrive in another order, has released a
    /// worker that waits here. A policy whose releases depend on that order must not hold the worker any longer, or two
    /// servers could wait for each other.
    fn urge(&mut self, _worker: Worker) -> Vec<Action> {
        Vec::new()
    }

    /// The factor of the learning rate for the updates of the last answer.
    fn rate(&self) -> f32 {
        1.0
    }

    /// The workers and the progress of each.
    fn progress(&self) -> &Progress;

    /// The workers whose gradients are at present aggregated before they are applied.
    fn group(&self) -> BTreeSet<Worker>;
}

/// Applies one gradient by itself.
fn apply_alone(worker: Worker) -> Action {
    Action::Apply(vec![WeightedGradient { worker, weight: 1 }])
}
