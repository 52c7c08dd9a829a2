//! When a gradient is used, and when its worker may go on.
//!
//! A worker computes a gradient, pushes it, and waits until it is released with new parameters: so it has
//! never more than one gradient at the server. A [`Policy`] is told who joins, whose gradient arrives when, and
//! who leaves, and answers with [`Action`]s, to be done in their order. It sees neither gradients nor
//! parameters, and of the clock only what it is told.
//!
//! | policy | a gradient is applied | its worker goes on |
//! |---|---|---|
//! | [`Bsp`] | with everyone else's, once all are there | then |
//! | [`Asp`] | at once | at once |
//! | [`Ssp`] | at once | unless it is too far ahead of the slowest |
//! | [`Dssp`] | at once | unless it is too far ahead of the slowest, and waiting now is shorter than waiting later |
//! | [`SyncSwitch`] | as under BSP, after some epochs as under ASP | the same |
//! | [`A2s`] | at once, or with those of the synchronous group | when it is applied |

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
pub use progress::Progress;
pub use ssp::Ssp;
pub use sync_switch::SyncSwitch;

/// The rank of a worker in its job.
pub type Worker = u16;

/// One gradient's part in an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Whose gradient.
    pub worker: Worker,
    /// How much it counts: the update's direction is the sum of weight · gradient, divided by the sum of the
    /// weights. An integer, as the fabric's packets carry it.
    pub weight: u64,
}

/// What the server is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Update the parameters once, by the weighted mean of these workers' gradients. There is at least one.
    Apply(Vec<Part>),
    /// Send this worker the parameters as they are now; it computes its next gradient from them.
    Release(Worker),
}

/// Decides about a job's gradients.
///
/// Every gradient that arrived is applied once, but for that of a worker that leaves before: a policy either
/// applies it then, or never will.
pub trait Policy: fmt::Debug + Send {
    /// The name that users choose it by.
    fn name(&self) -> &'static str;

    /// A worker takes part from now on. It has had `iterations` gradients used before, 0 when it is new;
    /// it counts as being no further behind than the slowest of those who are there. Released at once, if
    /// it may start.
    fn join(&mut self, worker: Worker, iterations: u64) -> Vec<Action>;

    /// The gradient of a worker has arrived, whom the policy had released. That of a worker that has not
    /// joined is ignored.
    fn arrive(&mut self, worker: Worker, now: Instant) -> Vec<Action>;

    /// A worker has gone. It is not released any more.
    fn leave(&mut self, worker: Worker) -> Vec<Action>;

    /// A worker that waits here was released by another server of the same job, which has seen gradients
    /// arrive in another order. A policy whose releases depend on that order must not let it wait longer, or
    /// two servers could wait for each other.
    fn urge(&mut self, _worker: Worker) -> Vec<Action> {
        Vec::new()
    }

    /// What the learning rate is multiplied by for the updates of the last answer.
    fn rate(&self) -> f32 {
        1.0
    }

    /// Who takes part, and how far everyone is.
    fn progress(&self) -> &Progress;

    /// Those whose gradients are at present aggregated before they are applied.
    fn group(&self) -> BTreeSet<Worker>;
}

/// One gradient, applied by itself.
fn apply_alone(worker: Worker) -> Action {
    Action::Apply(vec![Part { worker, weight: 1 }])
}
