//! The periodic reading of the switches' counters, from which the loads of links follow.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::Manager;

/// Interval between two readings of all port counters.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reads all counters periodically, and updates the loads of links, until the controller ends.
/// The readings also serve as recent values for switches that become unreachable. A switch that does not answer
/// keeps its loads.
pub(crate) async fn watch_loads(manager: Weak<Manager>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        for (key, counters) in manager.counters(|_| true).await {
            if let Some(reading) = counters.fresh() {
                manager.state().loads.update(&manager.topology(), key, reading.at, &reading.cells);
            }
        }
    }
}
