//! Clusters of gradients that are ready close together.

use std::time::Duration;

use super::profile::Profile;

/// Gradients between which no gap is longer than the start-up time of an all-reduce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// The indices of the gradients in the model, in the order in which they are ready.
    pub gradients: Vec<usize>,
    /// The time at which the first gradient is ready.
    pub start: Duration,
    /// The time at which the last gradient is ready.
    pub end: Duration,
}

/// Returns the clusters of a backward pass, in order.
/// Two clusters are separated by a gap longer than the start-up time. If they were sent together, the first one would
/// wait for this gap, and that would only save the start-up time.
pub fn clusters(profile: &Profile) -> Vec<Cluster> {
    let mut order: Vec<_> =
        profile.gradients.iter().enumerate().map(|(place, gradient)| (gradient.ready, place)).collect();
    order.sort_unstable();
    let mut clusters: Vec<Cluster> = Vec::new();
    for (ready, place) in order {
        match clusters.last_mut() {
            Some(last) if ready - last.end <= profile.start_up => {
                last.gradients.push(place);
                last.end = ready;
            }
            _ => clusters.push(Cluster { gradients: vec![place], start: ready, end: ready }),
        }
    }
    clusters
}
