//! Memory that is shared with the agent.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;

use crate::runtime::Owned;

/// Memory that is shared with the agent, as a file that Python maps.
#[pyclass(frozen, module = "tributary._native")]
#[derive(Debug)]
pub(crate) struct Segment(Owned<Mutex<tributary_client::Segment>>);

impl Segment {
    pub(crate) fn new(segment: tributary_client::Segment) -> Self {
        Self(Owned::new(Mutex::new(segment)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, tributary_client::Segment> {
        // If a call panics, the segment stays valid, because every change is a single call.
        self.0.lock()
    }
}

#[pymethods]
impl Segment {
    /// Returns the file descriptor, which is closed with this object.
    fn fileno(&self) -> RawFd {
        self.lock().as_fd().as_raw_fd()
    }

    /// Returns the segment's size in bytes.
    fn __len__(&self) -> usize {
        self.lock().len()
    }

    /// True while an operation uses the segment, because the agent may write to it.
    #[getter]
    fn in_use(&self) -> bool {
        self.lock().is_in_use()
    }
}
