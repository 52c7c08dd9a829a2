//! The parameter server: workers push gradients; the server updates the parameters and returns them.
//!
//! A [`policy`] decides when a gradient is used, and when its worker may continue. Policies are state
//! machines without I/O; they get the time as an argument.

mod changes;
pub mod client;
pub mod optimizer;
mod parts;
pub mod policy;
pub mod server;
mod values;
