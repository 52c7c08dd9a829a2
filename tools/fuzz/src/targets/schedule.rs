//! Profiles of backward passes, which workers send and from which the controller makes a schedule.
//!
//! The target checks these properties: the schedule has each gradient once, and its sets in the order of
//! their time points; a stall is a gap that exists, and does not block the workers permanently.

use std::time::Duration;

use prost::Message;
use tributary_api::schedule as api;
use tributary_planner::schedule::{Decision, Gradient, MAX_RETRIES, Profile, Schedule, decide};

use crate::finding::sound;
use crate::{Seed, Target};

pub(super) const TARGET: Target = Target {
    name: "schedule",
    about: "profiles of backward passes: a protobuf message, and a schedule of it",
    max_len: 1024,
    tries: 4000,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let Ok(message) = api::Profile::decode(bytes) else { return };
    let pairs = message.bytes.iter().zip(&message.ready_nanoseconds);
    let gradient =
        |(bytes, ready): (&u64, &u64)| Gradient { bytes: *bytes, ready: Duration::from_nanos(*ready) };
    let start_up = Duration::from_nanos(message.start_up_nanoseconds);
    let profile = Profile { gradients: pairs.map(gradient).collect(), start_up };
    let Ok(slowest) = Profile::slowest([(0, &profile), (1, &profile)]) else {
        assert!(profile.gradients.is_empty());
        return;
    };
    assert_eq!(slowest, profile);
    let mut thrown_out = Vec::new();
    loop {
        match decide(&profile, &thrown_out) {
            Decision::Schedule(schedule) => return fits(&schedule, &profile),
            Decision::ThrownOut(stall) => {
                assert!(stall.after < profile.gradients.len() && stall.before < profile.gradients.len());
                let gap = profile.gradients[stall.before].ready - profile.gradients[stall.after].ready;
                assert_eq!(gap, stall.gap);
                thrown_out.push(stall);
                assert!(thrown_out.len() <= MAX_RETRIES, "workers would profile forever");
            }
        }
    }
}

fn fits(schedule: &Schedule, profile: &Profile) {
    let mut all: Vec<usize> = schedule.sets.iter().flat_map(|set| set.gradients.iter().copied()).collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..profile.gradients.len()), "a gradient is missing, or there twice");
    for pair in schedule.sets.windows(2) {
        assert!(pair[0].at < pair[1].at && pair[0].late <= pair[1].late);
    }
    for set in &schedule.sets {
        assert!(set.late >= set.at);
        assert!(set.gradients.iter().all(|place| profile.gradients[*place].ready <= set.at));
    }
}

fn seeds() -> Vec<Seed> {
    let profile = |ready: &[u64]| {
        let profile = api::Profile {
            bytes: ready.iter().map(|ready| 4096 + ready % 7).collect(),
            ready_nanoseconds: ready.to_vec(),
            start_up_nanoseconds: 500,
        };
        profile.encode_to_vec()
    };
    let last = sound(u64::MAX.checked_sub(1).ok_or("no number"));
    vec![
        ("bursts".to_owned(), profile(&[0, 10, 20, 2000, 2010, 5000, 5001, 9000])),
        ("stall".to_owned(), profile(&[0, 1000, 2000, 900_000, 901_000])),
        ("ends".to_owned(), profile(&[0, last, u64::MAX])),
    ]
}
