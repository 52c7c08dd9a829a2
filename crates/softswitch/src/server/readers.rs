//! The limits on the time that all readers together take from the switch.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tonic::Status;

/// The maximum number of reads at once.
const READS: usize = 8;

/// The switch's readers, and the limits on the time they take from it.
#[derive(Debug)]
pub(super) struct Readers {
    places: Arc<Semaphore>,
    /// The pause that is due before the next lookup, so that the switch can process packets.
    pub(super) owed: Mutex<Duration>,
}

impl Default for Readers {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(READS)), owed: Mutex::default() }
    }
}

impl Readers {
    /// Takes a place for one more reader.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("{READS} reads are under way: ask again when one has ended"))
        })
    }
}
