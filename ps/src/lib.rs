//! The parameter server: workers push gradients, the server updates the parameters and hands them back.
//!
//! When a gradient is used, and when its worker may go on, is decided by a [`policy`]: a state machine without I/O, which
//! of the clock is only told.

mod changes;
pub mod client;
pub mod optimizer;
mod parts;
pub mod policy;
pub mod server;
mod values;
