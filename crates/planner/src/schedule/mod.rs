//! Time-point gradient scheduling:
//! the times at which gradients are sent, and the sets that are sent together.
//!
//! In a backward pass, gradients become ready in bursts. Each worker measures the time at which each of its gradients
//! is ready ([`Profile`]). For each gradient, the latest worker counts ([`Profile::slowest`]). Gradients that are ready
//! close together are a [`Cluster`]. Clusters are separated by gaps longer than the start-up time of an all-reduce,
//! because sending at such a gap costs less than waiting. Each cluster is a [`Set`] that is sent together, at its time
//! point. All workers send the same sets in the same order, independent of the jitter of a pass, so they need not
//! communicate about it. [`decide`] makes the [`Schedule`], unless the profile contains a stall ([`Stall`]).

mod cluster;
mod decide;
mod profile;
mod stall;

pub use cluster::{Cluster, clusters};
pub use decide::{Decision, MAX_RETRIES, Schedule, Set, decide};
pub use profile::{Gradient, Profile, ProfileError};
pub use stall::{MAX_GAP, Stall};
