//! Tests of the schedule that follows from the profile of a backward pass.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tributary_planner::schedule::{
    Decision, Gradient, MAX_RETRIES, Profile, ProfileError, Schedule, Stall, decide,
};

const START_UP: Duration = Duration::from_millis(2);

fn profile(ready: impl IntoIterator<Item = u64>) -> Profile {
    let gradient = |milliseconds| Gradient { bytes: 1 << 20, ready: Duration::from_millis(milliseconds) };
    Profile { gradients: ready.into_iter().map(gradient).collect(), start_up: START_UP }
}

/// Returns the times of 50 gradients in 5 bursts, with the gradients of the last layer first.
/// A burst has 10 gradients, one each millisecond. The next burst begins 20 ms after its end.
fn bursts() -> Vec<u64> {
    (0..50).rev().map(|place| place / 10 * 29 + place % 10).collect()
}

fn schedule(profile: &Profile) -> Schedule {
    match decide(profile, &[]) {
        Decision::Schedule(schedule) => schedule,
        Decision::ThrownOut(stall) => panic!("thrown out: {stall}"),
    }
}

fn stall(profile: &Profile, thrown_out: &[Stall]) -> Option<Stall> {
    match decide(profile, thrown_out) {
        Decision::Schedule(_) => None,
        Decision::ThrownOut(stall) => Some(stall),
    }
}

#[test]
fn each_burst_leaves_at_its_end() {
    let schedule = schedule(&profile(bursts()));
    let at: Vec<_> = schedule.sets.iter().map(|set| set.at.as_millis()).collect();
    let late: Vec<_> = schedule.sets.iter().map(|set| set.late.as_millis()).collect();
    assert_eq!(at, [9, 38, 67, 96, 125]);
    assert_eq!(late, [29, 58, 87, 116, 145], "late is what is not there when the next burst begins");
    assert_eq!(schedule.sets[0].gradients, (40..50).rev().collect::<Vec<_>>());
    assert!(schedule.sets.iter().all(|set| set.bytes == 10 << 20));
}

#[test]
fn gradients_that_come_evenly_leave_together() {
    let schedule = schedule(&profile((0..50).map(|place| 2 * place)));
    assert_eq!(schedule.sets.len(), 1);
    assert_eq!(schedule.sets[0].late, Duration::MAX, "nothing comes after it");
}

#[test]
fn a_stall_is_thrown_out() {
    // A stall of 200 ms in the middle of the third burst.
    let spoilt = bursts().into_iter().map(|ready| if ready > 62 { ready + 200 } else { ready });
    let stall = stall(&profile(spoilt), &[]).unwrap();
    assert_eq!([stall.after, stall.before], [25, 24]);
    assert_eq!([stall.gap, stall.median].map(|gap| gap.as_millis()), [201, 20]);
}

#[test]
fn a_gap_that_stays_is_the_models() {
    let with_gap_of = |gap: u64| profile([0, 1, 11, 21, 21 + gap]);
    let first = stall(&with_gap_of(100), &[]).unwrap();
    assert_eq!(stall(&with_gap_of(110), &[first]), None, "it was there before");
    let second = stall(&with_gap_of(300), &[first]).unwrap();
    assert_eq!(second.gap.as_millis(), 300, "of another length it is another one");
    let thrown_out = [first; MAX_RETRIES];
    assert_eq!(stall(&with_gap_of(300), &thrown_out), None, "and all has an end");
}

#[test]
fn the_latest_worker_counts() {
    let (mut one, other) = (profile([0, 5, 10]), profile([1, 4, 30]));
    one.start_up = Duration::from_millis(3);
    let both = Profile::slowest([(0, &one), (1, &other)]).unwrap();
    assert_eq!(both, Profile { start_up: Duration::from_millis(3), ..profile([1, 5, 30]) });
}

#[test]
fn unequal_models_are_named() {
    let two = profile([0, 1]);
    let count = Profile::slowest([(0, &two), (3, &profile([0]))]).unwrap_err();
    assert_eq!(
        count.to_string(),
        "rank 3 has 1 gradients, and rank 0 has 2: start the same model on all ranks"
    );
    let mut larger = two.clone();
    larger.gradients[1].bytes = 8;
    let size = Profile::slowest([(0, &two), (1, &two), (2, &larger)]).unwrap_err();
    assert_eq!(size, ProfileError::Size { place: 1, rank: 2, bytes: 8, other: 0, others: 1 << 20 });
    assert_eq!(Profile::slowest([(0, &profile([]))]), Err(ProfileError::Empty));
    assert_eq!(Profile::slowest([]), Err(ProfileError::NoWorker));
}

proptest! {
    #[test]
    fn every_gradient_is_in_one_set_and_sets_keep_their_distance(ready in vec(0_u64..200, 1..60)) {
        let profile = profile(ready);
        let thrown_out = [Stall { after: 0, before: 0, gap: START_UP, median: START_UP }; MAX_RETRIES];
        let Decision::Schedule(schedule) = decide(&profile, &thrown_out) else { panic!("too many retries") };
        let mut places: Vec<_> = schedule.sets.iter().flat_map(|set| set.gradients.clone()).collect();
        places.sort_unstable();
        prop_assert_eq!(places, (0..profile.gradients.len()).collect::<Vec<_>>());
        for pair in schedule.sets.windows(2) {
            let first = pair[1].gradients.iter().map(|place| profile.gradients[*place].ready).min().unwrap();
            prop_assert!(first > pair[0].at + START_UP);
            prop_assert_eq!(first, pair[0].late);
        }
        for set in &schedule.sets {
            let last = set.gradients.iter().map(|place| profile.gradients[*place].ready).max().unwrap();
            prop_assert_eq!(last, set.at);
        }
    }

    #[test]
    fn nothing_from_outside_makes_it_panic(
        gradients in vec((any::<u64>(), any::<u64>()), 0..20),
        start_up in any::<u64>(),
    ) {
        let gradient = |(bytes, ready)| Gradient { bytes, ready: Duration::from_nanos(ready) };
        let gradients = gradients.into_iter().map(gradient).collect();
        let profile = Profile { gradients, start_up: Duration::from_nanos(start_up) };
        let _ = decide(&profile, &[]);
    }
}
