//! The native part of the Python package `tributary`.
//!
//! It has a process's membership in a job or in a parameter server's training, memory that the process shares
//! with its host's agent, and codecs. Python maps the shared memory itself, and passes the addresses of other
//! memory, which this module copies. No function blocks while it holds the interpreter's lock.

mod call;
mod codec;
mod deliver;
mod error;
mod job;
mod memory;
mod runtime;
mod schedule;
mod segment;
mod training;
mod within;

use pyo3::prelude::*;

/// The module `tributary._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::codec::{Codec, decode};
    #[pymodule_export]
    use crate::deliver::end_deliveries;
    #[pymodule_export]
    use crate::job::Job;
    #[pymodule_export]
    use crate::schedule::{Scheduler, time_points};
    #[pymodule_export]
    use crate::segment::Segment;
    #[pymodule_export]
    use crate::training::Training;
    #[pymodule_export]
    use crate::within::call_within;
    #[pymodule_export]
    const MAX_PROCESSES: u16 = tributary_client::MAX_PROCESSES;
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
