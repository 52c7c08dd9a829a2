//! Time that embedded switches take for a job's frames.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_planner::Plan;

/// A frame's processor time in an embedded switch, on the machine of `docs/results/switch`: 3 frames a
/// slice, 150,000 slices of 256 values a second, 60,000 of 2,048.
const FRAME: Duration = Duration::from_nanos(1_700);
const VALUE: Duration = Duration::from_nanos(2);

/// Returns the time for which the busiest switch of the tree would be at work for one all-reduce if it
/// were an embedded one, in seconds.
pub(crate) fn busiest_switch(plan: &Plan) -> f64 {
    let switches: BTreeSet<_> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    let mut frames: BTreeMap<&str, u64> = BTreeMap::new();
    for link in &plan.traffic.links {
        for end in [link.from.as_str(), link.to.as_str()].into_iter().filter(|end| switches.contains(end)) {
            let count = frames.entry(end).or_default();
            *count = count.saturating_add(link.frames);
        }
    }
    let frame = FRAME.as_secs_f64() + VALUE.as_secs_f64() * plan.width.values() as f64;
    frames.into_values().max().unwrap_or(0) as f64 * frame
}
