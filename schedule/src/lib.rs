//! Time-point gradient scheduling: when gradients leave for the fabric, and which of them together.
//!
//! In a backward pass gradients come in bursts. Each worker measures when each of its gradients is ready ([`Profile`]);
//! the latest worker counts for each gradient ([`Profile::slowest`]). Gradients that come close together are a
//! [`Cluster`]: the pass is cut where nothing comes for longer than it takes to start one all-reduce, since to send what
//! there is costs less there than to wait. Each cluster is a [`Set`] that leaves in one piece, at its time point, in the same
//! order and with the same members on every worker, whatever the jitter of a pass, so that no worker has to ask another
//! one. [`decide`] makes the [`Schedule`], unless something has held up the profile ([`Stall`]).

mod cluster;
mod decide;
mod profile;
mod stall;

pub use cluster::{Cluster, clusters};
pub use decide::{Decision, MAX_RETRIES, Schedule, Set, decide};
pub use profile::{Gradient, Profile, ProfileError};
pub use stall::{MAX_GAP, Stall};
