//! One switch between three veth interfaces, under the load of the [`generator`](crate::generator).
//!
//! The embedded switch and BMv2 take turns, with the same program, tables and load.
//!
//! - [`aggregation`]: sums of two children's slices, also compared with a bare loop;
//! - [`forwarding`]: packets through programs of the kind that people run on BMv2.
//!
//! Each run starts a new switch process, in a [`Lab`](tributary_lab::Lab) that is removed after the
//! measurement.

pub mod aggregation;
mod bed;
mod error;
pub mod forwarding;
mod report;
mod switch;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

pub use error::SwitchLabError;
pub use report::{Candidate, Comparison, Run, SettingResults, SwitchLabReport};
pub use switch::SwitchUnderTest;

/// Options of a measurement, for any load.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchLabOptions {
    /// The lab's name, unique on this machine.
    pub name: String,
    /// The `tributary` binary.
    pub program: PathBuf,
    /// The switches, in the order in which they take turns.
    pub switches: Vec<SwitchUnderTest>,
    /// Number of runs of each switch.
    pub runs: usize,
    /// Numbers of slices or packets in flight at once, which are powers of two.
    pub windows: Vec<u32>,
    /// The measured time of a run.
    pub seconds: Duration,
}
