//! From a profile to a schedule.

use std::time::Duration;

use crate::cluster::{Cluster, clusters};
use crate::profile::Profile;
use crate::stall::Stall;

/// Profiles that are thrown out one after another at most: a gap that is still there then is the model's.
pub const MAX_RETRIES: usize = 3;

/// What leaves when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// In the order in which they leave; each gradient of the model is in one of them.
    pub sets: Vec<Set>,
}

/// Gradients that leave together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// Their places in the model, in the order in which they are ready.
    pub gradients: Vec<usize>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The time point: when they were all ready in the profile, from the first gradient of the pass on.
    pub at: Duration,
    /// When it is late: the next set was about to come then in the profile. The last one has as much time as the shortest gap
    /// leaves the others, and a set alone is never late.
    pub late: Duration,
}

/// What follows from a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Gradients leave by this.
    Schedule(Schedule),
    /// Something has held the workers up: they profile again, on other data.
    ThrownOut(Stall),
}

/// Decides what follows from the profile of all workers, after those that were thrown out for these stalls.
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
    /// What follows from a profile that nothing has spoilt.
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
