//! Time-point gradient scheduling: when gradients leave for the fabric, and which ones leave together.
//!
//! In a backward pass gradients come in bursts. Each worker measures when each of its gradients is ready ([`Profile`]);
//! the latest worker counts for each gradient ([`Profile::slowest`]). Gradients that come close together are a
//! [`Cluster`]: the pass is cut where nothing comes for longer than the start-up of an all-reduce, since sending there
//! costs less than waiting. Each cluster is a [`Set`] that leaves in one piece, at its time point, in the same order
//! and with the same gradients on every worker, whatever the jitter of a pass, so that workers need not ask one
//! another. [`decide`] makes the [`Schedule`], unless something has stalled the profile ([`Stall`]).

mod cluster;
mod decide;
mod profile;
mod stall;

pub use cluster::{Cluster, clusters};
pub use decide::{Decision, MAX_RETRIES, Schedule, Set, decide};
pub use profile::{Gradient, Profile, ProfileError};
pub use stall::{MAX_GAP, Stall};
