//! The profiles that a job's workers submit, and the schedule derived from the profiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_planner::schedule::{Decision, Profile, ProfileError, Schedule, Stall, decide};
use tributary_wire::Rank;

/// The profiles that the workers of a job have submitted.
///
/// The journal does not store them. The processes that follow a schedule keep it themselves, and a worker that waits
/// for a schedule submits its profile again.
#[derive(Debug, Default)]
pub(crate) struct Profiles {
    /// The number of the profile that is being collected, and the profiles by the ranks that have submitted
    /// them.
    collected: (Number, BTreeMap<Rank, Profile>),
    /// The number and outcome of the last complete profile.
    outcome: Option<(Number, ProfileOutcome)>,
    /// Stalls because of which profiles were discarded since the last schedule.
    thrown_out: Vec<Stall>,
    /// The last schedule.
    agreed: Option<Arc<Agreed>>,
    /// Notified when there is an outcome.
    pub(crate) news: watch::Sender<()>,
}

/// Identifies a profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Number {
    /// A number that all processes of one run of the job share. Processes of later runs have another
    /// number.
    pub(crate) run: u64,
    /// The number of the profile within the run, counted from 1.
    pub(crate) number: u32,
}

/// A schedule, and the profile from which it was derived.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) version: u32,
    pub(crate) schedule: Schedule,
    pub(crate) profile: Profile,
    pub(crate) ranks: Vec<Rank>,
    /// The number of profiles that were discarded before this schedule.
    pub(crate) thrown_out: usize,
    pub(crate) at: Instant,
}

/// The outcome of a profile. All workers get the same outcome.
#[derive(Debug, Clone)]
pub(crate) enum ProfileOutcome {
    Agreed(Arc<Agreed>),
    ThrownOut(Stall),
    Unequal(ProfileError),
}

/// The answer to a worker that submits a profile.
#[derive(Debug, Clone)]
pub(crate) enum HandedIn {
    Outcome(ProfileOutcome),
    /// The outcome is open, because these ranks have not submitted the profile yet.
    Awaited(Vec<Rank>),
    /// The other workers have already moved on to the profile with this number.
    Passed(u32),
}

impl Profiles {
    /// Returns the last schedule.
    pub(crate) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_deref()
    }

    /// Accepts a worker's profile. The profile is complete when all `members` have submitted it.
    pub(crate) fn hand_in(
        &mut self,
        rank: Rank,
        (number, profile): (Number, &Profile),
        members: impl Iterator<Item = Rank>,
        now: Instant,
    ) -> HandedIn {
        if let Some((of, outcome)) = &self.outcome
            && *of == number
        {
            return HandedIn::Outcome(outcome.clone());
        }
        let (collected, profiles) = &mut self.collected;
        if number.run == collected.run && number.number < collected.number {
            return HandedIn::Passed(collected.number);
        }
        if number.run != collected.run {
            self.thrown_out.clear();
        }
        if number != *collected {
            (*collected, *profiles) = (number, BTreeMap::new());
        }
        profiles.insert(rank, profile.clone());
        let members: Vec<_> = members.collect();
        let awaited: Vec<_> = members.iter().copied().filter(|rank| !profiles.contains_key(rank)).collect();
        if !awaited.is_empty() {
            return HandedIn::Awaited(awaited);
        }
        let outcome = self.decide(number.number, members, now);
        self.outcome = Some((number, outcome.clone()));
        self.news.send_replace(());
        HandedIn::Outcome(outcome)
    }

    fn decide(&mut self, version: u32, ranks: Vec<Rank>, now: Instant) -> ProfileOutcome {
        let profiles = std::mem::take(&mut self.collected.1);
        let of_members = profiles.iter().filter(|(rank, _)| ranks.contains(rank));
        let profile = match Profile::slowest(of_members.map(|(rank, profile)| (rank.get().into(), profile))) {
            Ok(profile) => profile,
            Err(error) => return ProfileOutcome::Unequal(error),
        };
        match decide(&profile, &self.thrown_out) {
            Decision::ThrownOut(stall) => {
                self.thrown_out.push(stall);
                ProfileOutcome::ThrownOut(stall)
            }
            Decision::Schedule(schedule) => {
                let thrown_out = std::mem::take(&mut self.thrown_out).len();
                let agreed = Arc::new(Agreed { version, schedule, profile, ranks, thrown_out, at: now });
                self.agreed = Some(Arc::clone(&agreed));
                ProfileOutcome::Agreed(agreed)
            }
        }
    }
}
