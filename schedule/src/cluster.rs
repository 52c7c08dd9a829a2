//! Gradients that are ready close together.

use std::time::Duration;

use crate::profile::Profile;

/// Gradients between whom never longer passes than it takes to start an all-reduce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Their places in the model, in the order in which they are ready.
    pub gradients: Vec<usize>,
    /// When the first one is ready.
    pub start: Duration,
    /// When the last one is.
    pub end: Duration,
}

/// The clusters of a backward pass, in their order. A gap that is longer than the start-up cost parts two of them: so much
/// later would the first one leave if it waited for the second one, and no more than that it saves to send both together.
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
