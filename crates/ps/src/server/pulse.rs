//! Detects that the server has stood still.
//!
//! A job must know this before it concludes that a worker has left.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_transport::{Standstill, StandstillDetector};

/// Between two beats.
const BEAT: Duration = Duration::from_secs(1);

/// The beats of the runtime that talks with the workers.
#[derive(Debug)]
pub(super) struct Pulse(Mutex<StandstillDetector>);

impl Pulse {
    /// The pulse of a server that starts.
    ///
    /// After `standstill` without a beat, workers may have closed their connections.
    pub(super) fn new(standstill: Duration) -> Self {
        Self(Mutex::new(StandstillDetector::new(standstill, Instant::now())))
    }

    /// Beats until this is dropped.
    pub(super) async fn beat(&self) {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.detector().beat(Instant::now());
        }
    }

    /// The last standstill, known even to who is the first to run after it.
    pub(super) fn standstill(&self) -> Option<Standstill> {
        self.detector().standstill(Instant::now())
    }

    fn detector(&self) -> MutexGuard<'_, StandstillDetector> {
        self.0.lock()
    }
}
