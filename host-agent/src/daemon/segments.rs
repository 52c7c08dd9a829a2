//! The shared memory that one training process has opened.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tonic::Status;
use tributary_api::agent::SegmentName;

use super::segment::{ElementType, Place, Segment};

/// Segments that one process may have open: each holds a file descriptor of the agent.
const MAX_SEGMENTS: usize = 256;

/// The segments of one session.
#[derive(Debug)]
pub(crate) struct Segments {
    /// The user that the process belongs to.
    owner: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<u32, Arc<Segment>>,
    opened: u32,
}

impl Segments {
    pub(crate) fn new(owner: u32) -> Self {
        Self { owner, state: Mutex::default() }
    }

    pub(crate) fn open(&self, name: &str, bytes: u64) -> Result<u32, Status> {
        let name: SegmentName = name.parse().map_err(|error| Status::invalid_argument(format!("{error}")))?;
        // Each change is one call that leaves it sound.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.open.len() >= MAX_SEGMENTS {
            let problem =
                format!("a process may have {MAX_SEGMENTS} segments: close one, or put more into one");
            return Err(Status::resource_exhausted(problem));
        }
        let segment = Arc::new(Segment::open(&name, self.owner, bytes)?);
        let id = state.opened;
        state.opened = id.checked_add(1).ok_or_else(|| Status::resource_exhausted("no numbers are left"))?;
        state.open.insert(id, segment);
        Ok(id)
    }

    pub(crate) fn close(&self, id: u32) -> Result<(), Status> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open.remove(&id).map(drop).ok_or_else(|| no_segment(id))
    }

    /// Elements inside an open segment.
    pub(crate) fn place(
        &self,
        id: u32,
        offset: u64,
        element_type: ElementType,
        count: u64,
    ) -> Result<(Arc<Segment>, Place), Status> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let segment = state.open.get(&id).cloned().ok_or_else(|| no_segment(id))?;
        let place = segment.place(offset, element_type, count)?;
        Ok((segment, place))
    }
}

fn no_segment(id: u32) -> Status {
    Status::invalid_argument(format!("segment {id} is not open in this session"))
}

/// A process has made its segment shorter, or there is no memory for it.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn unusable(error: std::io::Error) -> Status {
    Status::failed_precondition(format!("the segment cannot be used any more: {error}"))
}
