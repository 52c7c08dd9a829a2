//! The shared memory that one training process has opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tonic::Status;
use tributary_api::agent::SegmentName;
use tributary_protocol::ElementType;

use super::account::Account;
use super::budget::LimitError;
use super::segment::{ElementRange, Segment};

/// The segments of one session.
#[derive(Debug)]
pub(crate) struct Segments {
    account: Arc<Account>,
    state: Mutex<OpenSegments>,
}

#[derive(Debug, Default)]
struct OpenSegments {
    open: BTreeMap<u32, Arc<Segment>>,
    opened: u32,
}

impl Segments {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { account, state: Mutex::default() }
    }

    pub(crate) fn open(&self, name: &str, bytes: u64) -> Result<u32, Status> {
        let name: SegmentName = name.parse().map_err(|error| Status::invalid_argument(format!("{error}")))?;
        let limits = self.account.limits();
        if bytes > limits.segment_bytes {
            return Err(LimitError::SegmentBytes { bytes, limit: limits.segment_bytes }.into());
        }
        let mut state = self.state.lock();
        if state.open.len() >= limits.segments as usize {
            return Err(LimitError::Segments { limit: limits.segments }.into());
        }
        let segment = Segment::open(&name, &self.account, bytes)?;
        let id = state.opened;
        state.opened = id.checked_add(1).ok_or_else(|| Status::resource_exhausted("no numbers are left"))?;
        state.open.insert(id, Arc::new(segment));
        Ok(id)
    }

    pub(crate) fn close(&self, id: u32) -> Result<(), Status> {
        let mut state = self.state.lock();
        state.open.remove(&id).map(release).ok_or_else(|| no_segment(id))
    }

    /// Returns the segment with this id, and the range of `count` elements in it.
    pub(crate) fn place(
        &self,
        id: u32,
        offset: u64,
        element_type: ElementType,
        count: u64,
    ) -> Result<(Arc<Segment>, ElementRange), Status> {
        let state = self.state.lock();
        let segment = state.open.get(&id).ok_or_else(|| no_segment(id))?;
        let place = segment.place(offset, element_type, count)?;
        Ok((Arc::clone(segment), place))
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if !state.open.is_empty() {
            release(std::mem::take(&mut state.open));
        }
    }
}

/// Drops segments on a blocking thread, because large segments take long to unmap. The threads that
/// all sessions share must not wait for that.
fn release<T: Send + 'static>(segments: T) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(|| drop(segments))),
        Err(_) => drop(segments),
    }
}

fn no_segment(id: u32) -> Status {
    Status::invalid_argument(format!("segment {id} is not open in this session"))
}

/// Returns the status for a segment that its process has shortened, or for a lack of memory.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn unusable(error: std::io::Error) -> Status {
    if error.kind() == std::io::ErrorKind::OutOfMemory {
        return Status::resource_exhausted(format!("the system gives the agent no memory: {error}"));
    }
    Status::failed_precondition(format!("the segment cannot be used any more: {error}"))
}
