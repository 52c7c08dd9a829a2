//! The agent's tests in one program, because each separate program would take half a minute to
//! compile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod agents;
mod collective;
mod controller_session;
mod daemon;
mod directory;
mod fabric;
mod generations;
mod group;
mod hosts;
mod interface;
mod job;
mod join;
mod limits;
mod line;
mod overlap;
mod pair;
mod patience;
mod process;
mod processes;
mod promise;
mod raw;
mod star;
mod sums;
mod training;
