//! The memory of a call's values: shared with the agent, or copied to a borrowed segment.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use tributary_client as client;

use crate::error::exception;
use crate::runtime::{Owned, SIGNALS, detached};
use crate::segment::Segment;

/// The largest number of segments for copies. An agent supports some hundreds of segments in total.
const MAX_SEGMENTS: usize = 64;
/// The size of the smallest segment for copies, in bytes.
const MIN_BYTES: usize = 4096;
/// The most bytes that a thread copies while other threads wait for it.
pub(crate) const COPIED_AT_ONCE: usize = 64 << 10;

/// The memory of a call's values, as Python gives it.
#[derive(FromPyObject)]
pub(crate) enum Memory<'py> {
    /// Memory that Python shares with the agent: its segment, and the index of the first value in it.
    Shared(Bound<'py, Segment>, usize),
    /// Other memory, which is copied.
    ///
    /// The fields are the address and the bytes of the values; the bytes of the result to skip, and the address and
    /// the bytes of the memory for the rest of it; and an object that keeps all of this memory.
    Other(usize, usize, usize, usize, usize, Py<PyAny>),
}

/// The memory of a call's values, which the agent can read.
pub(crate) enum Readable<'py> {
    Shared(Bound<'py, Segment>, usize),
    Copied(Box<Copied>),
}

/// A copy of values in a borrowed segment, for one call.
pub(crate) struct Copied {
    borrowed: Borrowed,
    skipped: usize,
    /// The address and the bytes of the memory for the result.
    result: (usize, usize),
    /// Keeps the memory for the result.
    _owner: Py<PyAny>,
}

impl<'py> Memory<'py> {
    /// Copies the values to a borrowed segment, unless Python shares them with the agent.
    ///
    /// `make` makes a segment of a number of bytes.
    pub(crate) fn readable(
        self,
        py: Python<'py>,
        pool: &Owned<Pool>,
        make: impl FnOnce(usize) -> PyResult<client::Segment>,
    ) -> PyResult<Readable<'py>> {
        let (address, bytes, skipped, result, owner) = match self {
            Self::Shared(segment, first) => return Ok(Readable::Shared(segment, first)),
            Self::Other(address, bytes, skipped, result, result_bytes, owner) => {
                (address, bytes, skipped, (result, result_bytes), owner)
            }
        };
        if skipped.checked_add(result.1).is_none_or(|end| end > bytes) {
            return Err(PyValueError::new_err("the result has fewer bytes than its memory"));
        }
        let mut borrowed = pool.borrow(py, bytes, make)?;
        let target = borrowed.segment()?.bytes_mut().map_err(|error| exception(py, &error))?;
        let target =
            target.get_mut(..bytes).ok_or_else(|| PyMemoryError::new_err("a segment is too small"))?;
        let mut copy = || {
            #[allow(unsafe_code)]
            // SAFETY: Python passes the address of memory with `bytes` bytes that `owner` keeps. The target is a slice
            // of that length in another mapping, so the two do not overlap.
            unsafe {
                ptr::copy_nonoverlapping(address as *const u8, target.as_mut_ptr(), bytes);
            }
        };
        if bytes <= COPIED_AT_ONCE {
            copy();
        } else {
            detached(py, copy);
        }
        Ok(Readable::Copied(Copied { borrowed, skipped, result, _owner: owner }.into()))
    }
}

impl Readable<'_> {
    /// Calls `start` with the segment of the values, and with the range of `count` values in it.
    ///
    /// `start` must not call Python, because the segment is locked.
    pub(crate) fn with<T>(
        &mut self,
        count: usize,
        start: impl FnOnce(&mut client::Segment, Range<usize>) -> T,
    ) -> PyResult<T> {
        match self {
            Self::Shared(segment, first) => {
                let end = first.checked_add(count);
                let end = end.ok_or_else(|| PyValueError::new_err("values beyond all memory"))?;
                Ok(start(&mut segment.get().lock(), *first..end))
            }
            Self::Copied(copied) => Ok(start(copied.borrowed.segment()?, 0..count)),
        }
    }

    /// Returns the copy, if the values were copied.
    pub(crate) fn copied(self) -> Option<Copied> {
        match self {
            Self::Shared(..) => None,
            Self::Copied(copied) => Some(*copied),
        }
    }
}

impl Copied {
    /// Returns the number of bytes of the memory for the result.
    pub(crate) fn result_bytes(&self) -> usize {
        self.result.1
    }

    /// Copies the result of the call to the caller's memory.
    pub(crate) fn take_result(&mut self) {
        let (address, bytes) = self.result;
        // The segment is no longer in use after a successful call, and `readable` has checked the range.
        let Ok(Ok(result)) = self.borrowed.segment().map(|segment| segment.bytes()) else { return };
        let Some(result) = result.get(self.skipped..self.skipped + bytes) else { return };
        #[allow(unsafe_code)]
        // SAFETY: Python passes the address of memory with `bytes` bytes that `_owner` keeps, and that the caller does
        // not access during the call. The source is a slice of that length in another mapping.
        unsafe {
            ptr::copy_nonoverlapping(result.as_ptr(), address as *mut u8, bytes);
        }
    }
}

/// The segments of a session for copies of values.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    state: Mutex<Segments>,
    /// Notified when a segment is given back.
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Segments {
    borrowed: usize,
    /// The segments that are not borrowed, by their size.
    idle: BTreeMap<usize, Vec<client::Segment>>,
}

impl Segments {
    /// Counts another borrowed segment.
    ///
    /// Returns an idle segment of this size, if there is one. If there are too many segments, it also returns an idle
    /// segment of another size to free.
    fn borrow(&mut self, bytes: usize) -> (Option<client::Segment>, Option<client::Segment>) {
        self.borrowed += 1;
        let found = self.idle.get_mut(&bytes).and_then(Vec::pop);
        let total = self.borrowed + self.idle.values().map(Vec::len).sum::<usize>();
        let is_over = found.is_none() && total > MAX_SEGMENTS;
        let freed = if is_over { self.idle.values_mut().find_map(Vec::pop) } else { None };
        (found, freed)
    }
}

/// A borrowed segment. Dropping it gives it back, unless the agent may still write to it.
#[derive(Debug)]
struct Borrowed {
    segment: Option<client::Segment>,
    pool: Arc<Pool>,
}

impl Owned<Pool> {
    /// Borrows a segment of at least this number of bytes.
    ///
    /// While `MAX_SEGMENTS` segments are borrowed, it waits for one. `make` makes a segment of a number of bytes.
    fn borrow(
        &self,
        py: Python<'_>,
        bytes: usize,
        make: impl FnOnce(usize) -> PyResult<client::Segment>,
    ) -> PyResult<Borrowed> {
        let too_large = || PyMemoryError::new_err(format!("{bytes} bytes to copy"));
        let bytes = bytes.max(MIN_BYTES).checked_next_power_of_two().ok_or_else(too_large)?;
        let (found, freed) = loop {
            {
                let mut state = self.state.lock();
                if state.borrowed < MAX_SEGMENTS {
                    break state.borrow(bytes);
                }
            }
            detached(py, || {
                let mut state = self.state.lock();
                if state.borrowed >= MAX_SEGMENTS {
                    self.returned.wait_for(&mut state, SIGNALS);
                }
            });
            py.check_signals()?;
        };
        drop(freed);
        let mut borrowed = Borrowed { segment: found, pool: self.share() };
        if borrowed.segment.is_none() {
            borrowed.segment = Some(make(bytes)?);
        }
        Ok(borrowed)
    }
}

impl Borrowed {
    fn segment(&mut self) -> PyResult<&mut client::Segment> {
        self.segment.as_mut().ok_or_else(|| PyMemoryError::new_err("no segment was made"))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let segment = self.segment.take().filter(|segment| !segment.is_in_use());
        let mut state = self.pool.state.lock();
        state.borrowed -= 1;
        if let Some(segment) = segment {
            state.idle.entry(segment.len()).or_default().push(segment);
        }
        self.pool.returned.notify_one();
    }
}
