//! Operations that were started, and their ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tributary_client::{ClientError, Operation, Reduced, Reduction, Segment};

use crate::error::Error;
use crate::job::{Job, element_type};

/// The caller's arguments of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: *const u8,
    pub(crate) sums: *mut u8,
    /// The number of elements; for each rank in a reduce-scatter, and of bytes in a broadcast.
    pub(crate) count: usize,
    /// The element type's number in the header.
    pub(crate) element_type: u32,
}

/// Elements of the operation whose sums the caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All elements.
    All,
    /// This rank's part.
    Part,
    /// All bytes of one rank.
    Of(u32),
    /// Only the end of the operation, as for a barrier.
    End,
}

/// An operation that was started. Its `Drop` does not wait for it.
#[derive(Debug)]
pub(crate) struct Request {
    job: Arc<Job>,
    name: String,
    /// `None` for an operation without elements that is not a barrier.
    reduction: Option<Reduction>,
    wanted: Wanted,
    copy: Option<Copy>,
}

/// The copy of a result to the caller's memory.
#[derive(Debug)]
struct Copy {
    segment: Segment,
    offset: usize,
    bytes: usize,
    to: *mut u8,
}

// SAFETY: the pointer belongs to the caller, who may wait for the request in another thread. The library only uses it in
// the call that waits.
#[allow(unsafe_code)]
unsafe impl Send for Copy {}

impl Request {
    /// Starts an operation after all earlier operations.
    ///
    /// # Safety
    /// `values` must be valid for reads of all elements, and `sums` for writes of all wanted elements until the request
    /// has ended.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn start(
        job: &Arc<Job>,
        arguments: Arguments<'_>,
        wanted: Wanted,
    ) -> Result<Self, Error> {
        let Arguments { name, values, sums, count, element_type: number } = arguments;
        let (element_type, size) = element_type(number)?;
        let too_many = || Error::argument(format!("{name}: {count} elements are more than any memory has"));
        let part_bytes = match wanted {
            Wanted::Of(_) => count,
            Wanted::All | Wanted::Part | Wanted::End => count.checked_mul(size).ok_or_else(too_many)?,
        };
        let parts = if wanted == Wanted::Part { job.ranks.len() } else { 1 };
        let bytes = part_bytes.checked_mul(parts).filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes.ok_or_else(too_many)?;
        let root = match wanted {
            Wanted::Of(root) if !job.ranks.contains(&root) => {
                let ranks = job.ranks.len();
                let problem = format!("{name}: the root is rank {root}, and the job has {ranks} ranks");
                return Err(Error::argument(problem));
            }
            Wanted::Of(root) => Some(root),
            Wanted::All | Wanted::Part | Wanted::End => None,
        };
        let request =
            |reduction, copy| Self { job: Arc::clone(job), name: name.to_owned(), reduction, wanted, copy };
        if bytes == 0 && wanted != Wanted::End {
            return Ok(request(None, None));
        }
        if values.is_null() || sums.is_null() {
            return Err(Error::argument(format!("{name}: the values or the sums are NULL")));
        }
        let owned = |rank: &u32| (count as u64, *rank);
        let owned: Vec<_> = job.ranks.iter().filter(|_| wanted == Wanted::Part).map(owned).collect();
        let operation = |first: usize| Operation {
            name,
            element_type,
            elements: Some(first..first + bytes.div_ceil(size)),
            weight: 1,
            deadline: None,
            root,
            parts: &owned,
            step_goes_on: false,
        };
        // A reduce-scatter has more sums than this rank wants, the bytes of a broadcast may end within an element, and a
        // barrier has no values.
        let fits = !matches!(wanted, Wanted::Part | Wanted::End) && bytes % size == 0;
        let own = fits.then(|| job.memory.find(sums.addr(), bytes)).flatten();
        if let Some((allocation, offset)) = own.filter(|(_, offset)| offset % size == 0) {
            let mut segment = allocation.segment.lock();
            // Another operation on other elements of the allocation may be under way. Then this one is copied.
            if !segment.is_in_use() {
                if !std::ptr::eq(values, sums) {
                    // SAFETY: the caller guarantees both; they do not overlap, as the header demands.
                    unsafe { sums.copy_from_nonoverlapping(values, bytes) };
                }
                let started = job.client.start(&mut segment, &operation(offset / size));
                return Ok(request(Some(started.map_err(|error| Error::reducing(&error))?), None));
            }
        }
        let mut segment = job.memory.borrow(&job.client, bytes, job.deadline)?;
        let room = segment.bytes_mut().map_err(|error| Error::reducing(&error))?.as_mut_ptr();
        // SAFETY: the caller guarantees that the values can be read, the segment has at least as many bytes, and it is
        // not the caller's memory. Its size is a multiple of all elements' sizes, so that it also has the last element's
        // other bytes.
        unsafe {
            room.copy_from_nonoverlapping(values, bytes);
            room.add(bytes).write_bytes(0, bytes.next_multiple_of(size) - bytes);
        }
        let started = job.client.start(&mut segment, &operation(0));
        let reduction = started.map_err(|error| Error::reducing(&error))?;
        let position = || job.ranks.iter().position(|rank| *rank == job.client.rank()).unwrap_or_default();
        let (offset, bytes) = match wanted {
            Wanted::All | Wanted::Of(_) => (0, part_bytes),
            Wanted::Part => (position() * part_bytes, part_bytes),
            Wanted::End => (0, 0),
        };
        Ok(request(Some(reduction), Some(Copy { segment, offset, bytes, to: sums })))
    }

    /// Returns the result if the operation has ended.
    pub(crate) fn poll(&mut self) -> Option<Result<Reduced, ClientError>> {
        let Some(reduction) = &mut self.reduction else { return Some(Ok(nothing())) };
        match Pin::new(reduction).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// Waits for the result.
    pub(crate) fn wait(&mut self) -> Result<Reduced, ClientError> {
        self.reduction.take().map_or_else(|| Ok(nothing()), Reduction::wait)
    }

    /// Writes the result to the caller's memory, and returns the number of contributors.
    ///
    /// Without `accepts_missing`, a sum that lacks a rank is an error.
    ///
    /// # Safety
    /// The caller's memory must still be valid.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn end(
        self,
        result: Result<Reduced, ClientError>,
        accepts_missing: bool,
    ) -> Result<u32, Error> {
        let Self { job, name, wanted, copy, .. } = self;
        let checked = result.map_err(|error| Error::reducing(&error)).and_then(|reduced| {
            let all = u32::try_from(job.ranks.len()).unwrap_or(u32::MAX);
            if matches!(wanted, Wanted::Of(_)) {
                return Ok(all);
            }
            let least = |of: fn(&tributary_client::Run) -> u32| reduced.runs.iter().map(of).min();
            // Each rank has the weight 1.
            let contributors = least(|run| run.contributors.min(run.weight)).unwrap_or(all);
            if !accepts_missing {
                job.check_whole(&name, contributors)?;
            }
            Ok(contributors)
        });
        if let Some(Copy { segment, offset, bytes, to }) = copy {
            if checked.is_ok() {
                let sums = segment.bytes().map_err(|error| Error::reducing(&error))?;
                let part = sums.get(offset..offset + bytes).unwrap_or_default();
                // SAFETY: the caller guarantees that its memory is valid for all wanted elements, and the segment is
                // not the caller's memory.
                unsafe { to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            }
            job.memory.give_back(segment);
        }
        checked
    }
}

/// Returns the result of an operation without elements.
fn nothing() -> Reduced {
    Reduced { runs: Vec::new(), not_finite: None, in_agent: std::time::Duration::ZERO }
}
