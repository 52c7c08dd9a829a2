//! The program `tributary`: daemons, the commands that operate them, and labs.
//!
//! It is a library, so that `tributary-bench`, which measures and disturbs fabrics, can bring up its
//! [labs](lab) with the same code. Only the items that `tributary-bench` uses are public.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic where output cannot be written: `tributary_cli::output` does not"
)]

mod allocator;
mod command_line;
mod commands;
mod daemons;
mod files;
pub mod lab;
mod options;
pub mod present;
pub mod process;
mod program;
mod version;

pub use daemons::service::{Stop, WrongUse};
pub use options::part::PartArgs;
pub use options::topology::with_mtu;
pub use program::main;
pub use version::VERSION;

/// Runs the examples of a documentation page as doc tests. This crate depends on all crates that they
/// use.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
struct Extending;
