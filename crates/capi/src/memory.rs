//! Memory that this process shares with the agent: of the caller, and for copies of other memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tributary_client::{Job, Segment};

use crate::error::{Error, Kind};
use crate::runtime::runtime;

/// The largest number of idle segments that are kept for copies.
const MAX_IDLE: usize = 16;
/// The smallest size of a segment for copies, in bytes.
const MIN_BYTES: usize = 4096;

/// A segment that the caller has allocated.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) segment: Mutex<Segment>,
    address: usize,
    bytes: usize,
}

/// All segments of a job.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The caller's allocations, by their addresses.
    allocations: Mutex<BTreeMap<usize, Arc<Allocation>>>,
    /// Segments for copies that no operation uses, by their sizes.
    idle: Mutex<BTreeMap<usize, Vec<Segment>>>,
}

impl Memory {
    /// Allocates memory for the caller, and returns its address.
    pub(crate) fn allocate(&self, job: &Job, bytes: usize) -> Result<*mut u8, Error> {
        let mut segment =
            runtime()?.block_on(job.segment(bytes.max(1))).map_err(|error| Error::calling(&error))?;
        let pointer = segment.bytes_mut().map_err(|error| Error::calling(&error))?.as_mut_ptr();
        let address = pointer.addr();
        let allocation = Allocation { segment: Mutex::new(segment), address, bytes: bytes.max(1) };
        self.allocations.lock().insert(address, Arc::new(allocation));
        Ok(pointer)
    }

    /// Frees the caller's memory at an address.
    pub(crate) fn free(&self, address: usize) -> Result<(), Error> {
        let mut allocations = self.allocations.lock();
        let Some(allocation) = allocations.get(&address) else {
            let text = "tributary_alloc of this job has not returned this memory, or it is already freed";
            return Err(Error::argument(text));
        };
        if allocation.segment.lock().is_in_use() {
            let text = "an operation still uses this memory: wait for its request before you free it";
            return Err(Error::argument(text));
        }
        allocations.remove(&address);
        Ok(())
    }

    /// Returns the caller's allocation that contains a range of bytes, with the range's offset in it.
    pub(crate) fn find(&self, address: usize, bytes: usize) -> Option<(Arc<Allocation>, usize)> {
        let allocations = self.allocations.lock();
        let (_, allocation) = allocations.range(..=address).next_back()?;
        let offset = address - allocation.address;
        (bytes <= allocation.bytes.saturating_sub(offset)).then(|| (Arc::clone(allocation), offset))
    }

    /// Returns a segment of at least `bytes` bytes for a copy.
    pub(crate) fn borrow(
        &self,
        job: &Job,
        bytes: usize,
        deadline: Option<Duration>,
    ) -> Result<Segment, Error> {
        let size = bytes.max(MIN_BYTES).checked_next_power_of_two();
        let size = size.ok_or_else(|| Error::new(Kind::Other, "no memory has this size"))?;
        if let Some(segment) = self.idle.lock().get_mut(&size).and_then(Vec::pop) {
            return Ok(segment);
        }
        let made = runtime()?.block_on(job.segment_within(size, deadline));
        made.map_err(|error| Error::calling(&error))
    }

    /// Keeps a segment for the next copy.
    ///
    /// Frees it if the agent may still write to it, or if too many are kept.
    pub(crate) fn give_back(&self, segment: Segment) {
        let mut idle = self.idle.lock();
        if !segment.is_in_use() && idle.values().map(Vec::len).sum::<usize>() < MAX_IDLE {
            idle.entry(segment.len()).or_default().push(segment);
        }
    }
}
