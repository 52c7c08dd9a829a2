//! Schedules of gradients without a controller, for predictions and for a worker of a parameter server.

use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use tributary_planner::schedule::{Decision, Gradient, Profile, Schedule, Stall, decide};

/// A set: indices in the model, time point, and time from which the set is late.
///
/// Times are in nanoseconds.
pub(crate) type SetOfGradients = (Vec<usize>, u64, u64);

/// Returns the sets in which gradients are sent.
///
/// `sizes` are in bytes. `ready`, and the time `start_up` of a small all-reduce, are in nanoseconds.
#[pyfunction]
pub(crate) fn time_points(sizes: Vec<u64>, ready: Vec<u64>, start_up: u64) -> Vec<SetOfGradients> {
    sets_of(Schedule::of(&profile(sizes, ready, start_up)))
}

/// Makes the schedules of one worker, as the controller does for a job.
#[pyclass(frozen, module = "tributary._native")]
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// The stalls because of which the last consecutive profiles were rejected.
    thrown_out: Mutex<Vec<Stall>>,
}

#[pymethods]
impl Scheduler {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Decides on a profile.
    ///
    /// Returns the sets that follow from it, as from `time_points`, and `""`. If the profile is rejected,
    /// returns no sets, and the reason.
    fn decide(&self, sizes: Vec<u64>, ready: Vec<u64>, start_up: u64) -> (Vec<SetOfGradients>, String) {
        let mut thrown_out = self.thrown_out.lock();
        match decide(&profile(sizes, ready, start_up), &thrown_out) {
            Decision::ThrownOut(stall) => {
                thrown_out.push(stall);
                (Vec::new(), stall.to_string())
            }
            Decision::Schedule(schedule) => {
                thrown_out.clear();
                (sets_of(schedule), String::new())
            }
        }
    }
}

fn profile(sizes: Vec<u64>, ready: Vec<u64>, start_up: u64) -> Profile {
    let gradients = sizes.into_iter().zip(ready);
    let gradient = |(bytes, ready)| Gradient { bytes, ready: Duration::from_nanos(ready) };
    Profile { gradients: gradients.map(gradient).collect(), start_up: Duration::from_nanos(start_up) }
}

fn sets_of(schedule: Schedule) -> Vec<SetOfGradients> {
    let sets = schedule.sets.into_iter();
    sets.map(|set| (set.gradients, nanoseconds(set.at), nanoseconds(set.late))).collect()
}

/// Converts a time to nanoseconds. A time that is too long becomes the maximum, which means never.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
