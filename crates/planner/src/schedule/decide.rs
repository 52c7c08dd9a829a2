//! From a profile to a schedule.

use std::time::Duration;

use super::cluster::{Cluster, clusters};
use super::profile::Profile;
use super::stall::Stall;

/// The most profiles that are thrown out in a row: a gap that remains after that is the model's own.
pub const MAX_RETRIES: usize = 3;

/// Which gradients leave together, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The sets, in the order in which they leave; each gradient of the model is in one of them.
    pub sets: Vec<Set>,
}

/// Gradients that leave together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Their indices in the model, in the order in which they are ready.
    pub gradients: Vec<usize>,
    /// Size of all of them together, in bytes.
    pub bytes: u64,
    /// The time point: when all of them were ready in the profile, counted from the first
    /// gradient of the pass.
    pub at: Duration,
    /// The time from which the set is late: in the profile the next set was about to follow.
    /// The last set gets as much time as the shortest gap leaves the others, and a single set is never late.
    pub late: Duration,
}

/// The consequence of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Gradients leave by this schedule.
    Schedule(Schedule),
    /// Something has stalled the workers: they profile again, on other data.
    ThrownOut(Stall),
}

/// Decides on the profile of all workers, after earlier ones were thrown out for the
/// stalls `thrown_out`.
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
    /// The schedule for a profile without a stall.
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
