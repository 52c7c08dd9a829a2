//! Estimates the time that embedded switches need for a job's frames.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_planner::Plan;

/// The processor time of an embedded switch for each frame; [`VALUE`] is added for each value. Derived
/// from the machine of `docs/results/switch`: with 3 frames a slice, it processes 150,000 slices of 256
/// values a second, or 60,000 slices of 2,048 values.
const FRAME: Duration = Duration::from_nanos(1_700);
const VALUE: Duration = Duration::from_nanos(2);

/// Returns the processor time, in seconds, that one all-reduce needs at the busiest switch of the tree
/// if the switch is an embedded one.
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
