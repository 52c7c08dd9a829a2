//! The decision on a profile, and the schedule that follows from it.

use std::time::Duration;

use super::cluster::{Cluster, clusters};
use super::profile::Profile;
use super::stall::Stall;

/// The maximum number of profiles that are discarded in a row.
/// A long gap that remains after that belongs to the model.
pub const MAX_RETRIES: usize = 3;

/// The sets of gradients that are sent together, and their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The sets, in the order in which they are sent. Each gradient of the model is in one of them.
    pub sets: Vec<Set>,
}

/// Gradients that are sent together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The indices of the gradients in the model, in the order in which they are ready.
    pub gradients: Vec<usize>,
    /// The total size of the gradients in bytes.
    pub bytes: u64,
    /// The time point: the time at which all gradients of the set were ready in the profile.
    /// It is counted from the first gradient of the pass.
    pub at: Duration,
    /// The time from which the set is late: in the profile, the next set began to be ready then.
    /// The last set gets the shortest gap of the other sets as its margin. A single set is never late.
    pub late: Duration,
}

/// The decision on a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Gradients are sent by this schedule.
    Schedule(Schedule),
    /// The profile contains a stall. The workers must profile again, on other data.
    ThrownOut(Stall),
}

/// Decides on the combined profile of all workers.
/// `thrown_out` has the stalls of the earlier profiles that were discarded.
pub fn decide(profile: &Profile, thrown_out: &[Stall]) -> Decision {
    let clusters = clusters(profile);
    let stall = Stall::find(&clusters).filter(|stall| {
        let is_the_models = thrown_out.last().is_some_and(|earlier| stall.is_again(earlier));
        !is_the_models && thrown_out.len() < MAX_RETRIES
    });
    match stall {
        Some(stall) => Decision::ThrownOut(stall),
        None => Decision::Schedule(Schedule::of_clusters(profile, clusters)),
    }
}

impl Schedule {
    /// Makes the schedule for a profile without a stall.
    pub fn of(profile: &Profile) -> Self {
        Self::of_clusters(profile, clusters(profile))
    }

    fn of_clusters(profile: &Profile, clusters: Vec<Cluster>) -> Self {
        let starts = clusters.iter().skip(1).map(|next| next.start);
        let gaps: Vec<_> = starts.zip(&clusters).map(|(next, cluster)| next - cluster.end).collect();
        let shortest = gaps.iter().min().copied().unwrap_or(Duration::MAX);
        let spans = gaps.into_iter().chain([shortest]);
        let set = |(cluster, span): (Cluster, Duration)| Set {
            bytes: profile.bytes_of(&cluster.gradients),
            at: cluster.end,
            late: cluster.end.saturating_add(span),
            gradients: cluster.gradients,
        };
        Self { sets: clusters.into_iter().zip(spans).map(set).collect() }
    }
}
