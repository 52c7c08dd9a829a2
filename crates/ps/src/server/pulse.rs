//! Detects standstills of the server process.
//!
//! A job must know about a standstill before it concludes that a worker has left.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_transport::{Standstill, StandstillDetector};

/// The interval between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);

/// The heartbeats of the runtime that communicates with the workers.
#[derive(Debug)]
pub(super) struct Pulse(Mutex<StandstillDetector>);

impl Pulse {
    /// Creates the detector of a server that starts.
    ///
    /// After `standstill` without a heartbeat, workers may have closed their connections.
    pub(super) fn new(standstill: Duration) -> Self {
        Self(Mutex::new(StandstillDetector::new(standstill, Instant::now())))
    }

    /// Records a heartbeat every second until the future is dropped.
    pub(super) async fn beat(&self) {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.0.lock().tick(Instant::now());
        }
    }

    /// Returns the last standstill. It is known at once after a standstill, even if the heartbeat task has
    /// not run yet.
    pub(super) fn standstill(&self) -> Option<Standstill> {
        self.0.lock().standstill(Instant::now())
    }
}
