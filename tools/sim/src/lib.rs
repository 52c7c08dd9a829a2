//! A discrete-event simulation of the protocol on a virtual clock.
//!
//! The [`Worker`](tributary_protocol::Worker)s and the [`Server`](tributary_protocol::Server) are the code
//! that the daemons run. Switches are a model of their slots, and links have a rate, a delay, a bounded queue
//! and losses. The simulation does not depend on the machine's speed: the same [`Scenario`] gives the same
//! [`ScenarioOutcome`] every time.
//!
//! For larger clusters, [`flow`] models rates instead of packets.

mod agenda;
pub mod flow;
mod link;
mod matrix;
mod outcome;
mod packet;
mod parallel;
mod run;
mod scenario;
mod sweep;
mod switch;
mod table;
mod tree;

pub use link::Carried;
pub use matrix::{FailedScenario, Total, case, search};
pub use outcome::ScenarioOutcome;
pub use run::{SimError, run};
pub use scenario::{Faults, Host, Link, Scenario};
pub use sweep::{Row, Sweep, sweep};
pub use table::table;
pub use tree::Tree;
