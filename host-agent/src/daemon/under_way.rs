//! The all-reduces of one session that the agent has not answered yet.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Status;

use super::budget::LimitError;
use super::segment::Stretch;

/// The all-reduces under way, and the bytes of their elements.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    state: Mutex<ByteRanges>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct ByteRanges {
    /// The byte ranges of the all-reduces under way, in the order in which they were started.
    stretches: BTreeMap<u64, Stretch>,
    entered: u64,
}

/// An all-reduce that is under way until this value is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    under_way: Arc<UnderWay>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.under_way.state.lock().stretches.remove(&self.number);
        self.under_way.ended.notify_waiters();
    }
}

impl UnderWay {
    /// Adds an all-reduce, unless its bytes overlap the bytes of another all-reduce.
    pub(super) fn enter(self: &Arc<Self>, stretch: Stretch) -> Result<Entry, Status> {
        let mut state = self.state.lock();
        if state.stretches.values().any(|other| other.overlaps(&stretch)) {
            return Err(Status::invalid_argument(
                "its elements overlap those of an all-reduce under way: wait for that one's end, or use other memory",
            ));
        }
        let number = state.entered;
        state.entered += 1;
        state.stretches.insert(number, stretch);
        Ok(Entry { under_way: Arc::clone(self), number })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.state.lock().stretches.len()
    }

    /// Takes memory for the all-reduce that was entered last. While other all-reduces are under way, it
    /// waits for their memory. They end without this all-reduce, because all members started them before it.
    pub(super) async fn room<T>(&self, take: impl Fn() -> Result<T, LimitError>) -> Result<T, LimitError> {
        loop {
            let mut ended = pin!(self.ended.notified());
            // From now on, the notification of every ended all-reduce arrives.
            ended.as_mut().enable();
            match take() {
                Err(_) if self.len() > 1 => ended.await,
                taken => return taken,
            }
        }
    }
}
