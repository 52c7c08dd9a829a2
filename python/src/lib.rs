//! What the Python package `tributary` is built on: a process's part in a job, and memory that it shares with its host's agent.
//!
//! Values stay on the Python side, which maps the shared memory itself; here they are offsets and counts. Nothing here waits
//! with the interpreter's lock held.

mod deliver;
mod error;
mod job;
mod runtime;
mod schedule;
mod segment;

use pyo3::prelude::*;

/// The module `tributary._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::job::Job;
    #[pymodule_export]
    use crate::schedule::time_points;
    #[pymodule_export]
    use crate::segment::Segment;
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
