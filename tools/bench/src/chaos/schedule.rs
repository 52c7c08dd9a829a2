//! The schedule of disturbances, which is computed from a seed.

use std::time::Duration;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::targets::{DisturbanceKind, Target};

/// Probability that a second target is hit while the first one is still down.
const TWO_AT_ONCE: f64 = 0.25;
/// Shortest and longest time before a blow, in seconds, in which all members are in the job.
const CALM: (f64, f64) = (0.2, 0.8);

/// A target that is hit, with the time of the hit and the duration of the outage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Disturbance {
    pub(super) target: Target,
    /// Time from the start of the blow to the hit.
    pub(super) at: Duration,
    /// Time for which the target is down.
    pub(super) outage: Duration,
}

/// Disturbances that belong together: one, or two with overlapping outages.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blow {
    /// Time before the blow in which no target is hit.
    pub(super) calm: Duration,
    pub(super) disturbances: Vec<Disturbance>,
}

impl Blow {
    /// Returns true if another target is hit while the controller may be down.
    ///
    /// The controller then cannot react to the disturbance until it is up again.
    pub(super) fn is_unattended(&self) -> bool {
        let is_controller = |hit: &Disturbance| hit.target.kind == DisturbanceKind::Controller;
        self.disturbances.len() > 1 && self.disturbances.iter().any(is_controller)
    }
}

/// The shortest and the longest outage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outages {
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
}

impl Outages {
    fn random(self, rng: &mut ChaCha8Rng) -> Duration {
        let seconds = rng.random_range(self.shortest.as_secs_f64()..=self.longest.as_secs_f64());
        Duration::from_secs_f64(seconds)
    }
}

/// Returns blows with `kills` disturbances in total; an empty list if `targets` is empty.
///
/// The kinds take turns in random order, so that few disturbances suffice to hit all of them. Within a kind
/// all targets are equally likely.
pub(super) fn schedule(targets: &[Target], outages: Outages, seed: u64, kills: usize) -> Vec<Blow> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = Draw { targets, deck: Vec::new() };
    let (mut blows, mut left) = (Vec::new(), kills);
    while left > 0 {
        let calm = Duration::from_secs_f64(rng.random_range(CALM.0..=CALM.1));
        let Some(first) = draw.next(&mut rng) else { break };
        let outage = outages.random(&mut rng);
        let mut disturbances = vec![Disturbance { target: first.clone(), at: Duration::ZERO, outage }];
        if left > 1 && rng.random_bool(TWO_AT_ONCE) {
            let second = draw.next(&mut rng).filter(|second| *second != first);
            let at = outage.mul_f64(rng.random_range(0.0..1.0));
            let outage = outages.random(&mut rng);
            disturbances.extend(second.map(|target| Disturbance { target: target.clone(), at, outage }));
        }
        left -= disturbances.len();
        blows.push(Blow { calm, disturbances });
    }
    blows
}

/// Draws random targets.
struct Draw<'a> {
    targets: &'a [Target],
    /// The kinds that are left in this turn. When the list is empty, a new turn begins.
    deck: Vec<DisturbanceKind>,
}

impl<'a> Draw<'a> {
    fn next(&mut self, rng: &mut ChaCha8Rng) -> Option<&'a Target> {
        if self.deck.is_empty() {
            self.deck = self.targets.iter().map(|target| target.kind).collect();
            self.deck.sort_unstable();
            self.deck.dedup();
            self.deck.shuffle(rng);
        }
        let kind = self.deck.pop()?;
        let of_kind: Vec<_> = self.targets.iter().filter(|target| target.kind == kind).collect();
        of_kind.choose(rng).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::chaos::targets;
    use crate::chaos::tests::shipped;

    const OUTAGES: Outages =
        Outages { shortest: Duration::from_millis(200), longest: Duration::from_secs(3) };

    fn three_tiers(seed: u64, kills: usize) -> Vec<Blow> {
        schedule(&targets::all(&shipped("three-tier-8"), 1), OUTAGES, seed, kills)
    }

    #[test]
    fn a_seed_says_all_of_it_and_another_something_else() {
        assert_eq!(three_tiers(1, 50), three_tiers(1, 50));
        assert_ne!(three_tiers(1, 50), three_tiers(2, 50));
    }

    #[test]
    fn there_are_as_many_as_were_asked_for_of_every_kind_and_sometimes_two_at_once() {
        let blows = three_tiers(3, 200);
        let all: Vec<_> = blows.iter().flat_map(|blow| &blow.disturbances).collect();
        assert_eq!(all.len(), 200);
        let mut by_kind = BTreeMap::new();
        all.iter().for_each(|disturbance| *by_kind.entry(disturbance.target.kind).or_insert(0) += 1);
        // The kinds take turns, but a target that is drawn twice for one blow is hit only once.
        assert_eq!(by_kind.len(), 9);
        assert!(by_kind.values().all(|hit| (18..=28).contains(hit)), "{by_kind:?}");
        let double: Vec<_> = blows.iter().filter(|blow| blow.disturbances.len() == 2).collect();
        assert!((20..60).contains(&double.len()), "{}", double.len());
        assert!(double.iter().all(|blow| blow.disturbances[1].at < blow.disturbances[0].outage));
        assert!(all.iter().all(|hit| (OUTAGES.shortest..=OUTAGES.longest).contains(&hit.outage)));
    }

    #[test]
    fn where_nothing_can_be_hit_nothing_is() {
        assert!(schedule(&[], OUTAGES, 1, 10).is_empty());
        assert_eq!(three_tiers(1, 0), []);
        let one = &targets::all(&shipped("two-workers"), 1)[..1];
        let hits: usize = schedule(one, OUTAGES, 1, 10).iter().map(|blow| blow.disturbances.len()).sum();
        assert_eq!(hits, 10);
    }
}
