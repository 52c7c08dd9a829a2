//! Clusters of gradients that are ready close together.

use std::time::Duration;

use super::profile::Profile;

/// Gradients with gaps no longer than the start-up of an all-reduce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Their indices in the model, in the order in which they are ready.
    pub gradients: Vec<usize>,
    /// When its first gradient is ready.
    pub start: Duration,
    /// When its last gradient is ready.
    pub end: Duration,
}

/// The clusters of a backward pass, in order.
/// Two clusters are separated by a gap longer than the start-up cost: the first one would wait that long for the
/// second, while sending both together saves only the start-up.
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
