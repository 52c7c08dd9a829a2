//! When gradients leave, without a controller: for predictions.

use std::time::Duration;

use pyo3::prelude::*;
use tributary_schedule::{Gradient, Profile, Schedule};

/// Places in the model, and when they leave and are late, in nanoseconds.
pub(crate) type SetOfGradients = (Vec<usize>, u64, u64);

/// The sets in which gradients of these bytes leave that are ready after so many nanoseconds, where a small all-reduce takes
/// `start_up` of them.
#[pyfunction]
pub(crate) fn time_points(sizes: Vec<u64>, ready: Vec<u64>, start_up: u64) -> Vec<SetOfGradients> {
    let gradients = sizes.into_iter().zip(ready);
    let gradient = |(bytes, ready)| Gradient { bytes, ready: Duration::from_nanos(ready) };
    let profile =
        Profile { gradients: gradients.map(gradient).collect(), start_up: Duration::from_nanos(start_up) };
    let sets = Schedule::of(&profile).sets.into_iter();
    sets.map(|set| (set.gradients, nanoseconds(set.at), nanoseconds(set.late))).collect()
}

/// The longest time stands for one that does not come.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
