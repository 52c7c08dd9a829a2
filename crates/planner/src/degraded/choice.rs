//! Chooses the processes with which a job continues.

use super::Mode;
use super::model::Model;

/// The performance of a process that could take part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Performance {
    /// The rank of the process.
    pub rank: u16,
    /// The model of the time that the process takes for a step.
    pub model: Model,
    /// True if the process is degraded.
    pub degraded: bool,
}

/// A group of processes with which the job could continue.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The ranks of the group, ascending.
    pub members: Vec<u16>,
    /// The treatment of the data of the excluded processes; `None` if no process is excluded.
    pub mode: Option<Mode>,
    /// The seconds that the slowest member would compute in a step.
    pub compute: f64,
    /// The seconds that a step would take: `compute` and the all-reduce after it.
    pub seconds: f64,
    /// True if the team may choose this group:
    /// it has all processes that are not degraded, and θ demands this mode.
    pub eligible: bool,
}

/// The time of an all-reduce after its last member has started it, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Communication {
    /// The time in the present group.
    pub today: f64,
    /// The time in a group without degraded members.
    /// The cause that slows a process often also slows its host's agent, and so the all-reduce of all members.
    pub undisturbed: f64,
}

impl Communication {
    /// Returns the time in the given group.
    fn of(&self, group: &[Performance]) -> f64 {
        match group.iter().any(|one| one.degraded) {
            true => self.today,
            false => self.undisturbed,
        }
    }
}

/// The input of [`candidates`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelectionInput<'a> {
    /// All processes that could take part.
    pub processes: &'a [Performance],
    /// The number of samples of each process in a step if all processes take part.
    pub share: f64,
    /// The time of an all-reduce.
    pub communication: Communication,
    /// θ: degraded processes are detached if they are at most this share of all processes.
    /// If they are more, the other processes take over their data.
    pub theta: f64,
}

/// Returns the treatment of the data of excluded processes.
/// With r = degraded / all, it is *detach* if r ≤ θ, and else *shrink*.
pub fn mode(degraded: usize, all: usize, theta: f64) -> Mode {
    // The comparison avoids a division, which would round: 1 of 8 is within θ = 0.125, and 3 of 10 within 0.3.
    let within = degraded as f64 <= theta * all as f64 * (1.0 + f64::EPSILON);
    if within { Mode::Detach } else { Mode::Shrink }
}

/// Returns the candidate groups:
/// for each size the fastest group, with the time of a step in either mode.
/// Processes that are not degraded come before degraded ones. Larger groups come first, so the first group has all
/// processes. Empty if there are none.
pub fn candidates(choice: &SelectionInput<'_>) -> Vec<Candidate> {
    let SelectionInput { share, communication, theta, .. } = *choice;
    let mut sorted = choice.processes.to_vec();
    let speed = |one: &Performance| one.model.at(share);
    sorted.sort_by(|a, b| {
        a.degraded.cmp(&b.degraded).then(speed(a).total_cmp(&speed(b))).then(a.rank.cmp(&b.rank))
    });
    let all = sorted.len();
    let degraded = sorted.iter().filter(|one| one.degraded).count();
    let right_mode = mode(degraded, all, theta);
    let candidate = |size: usize, mode: Option<Mode>| {
        let group = &sorted[..size];
        let samples = match mode {
            Some(Mode::Shrink) => share * all as f64 / size as f64,
            Some(Mode::Detach) | None => share,
        };
        let compute = group.iter().map(|one| one.model.at(samples)).fold(0.0, f64::max);
        let mut members: Vec<u16> = group.iter().map(|one| one.rank).collect();
        members.sort_unstable();
        let eligible = size + degraded >= all && mode.is_none_or(|mode| mode == right_mode);
        Candidate { members, mode, compute, seconds: compute + communication.of(group), eligible }
    };
    let everyone = (all > 0).then(|| candidate(all, None));
    let smaller = (1..all).rev();
    let others =
        smaller.flat_map(|size| [Mode::Detach, Mode::Shrink].map(|mode| candidate(size, Some(mode))));
    everyone.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FREE: Communication = Communication { today: 0.0, undisturbed: 0.0 };

    fn processes(times: &[f64]) -> Vec<Performance> {
        let one = |(rank, seconds): (usize, &f64)| Performance {
            rank: rank as u16,
            model: Model { alpha: 0.0, beta: seconds / 16.0 },
            degraded: *seconds > 1.5,
        };
        times.iter().enumerate().map(one).collect()
    }

    fn best(times: &[f64], theta: f64) -> Candidate {
        let processes = processes(times);
        let choice = SelectionInput { processes: &processes, share: 16.0, communication: FREE, theta };
        let eligible = candidates(&choice).into_iter().filter(|one| one.eligible);
        eligible.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap()
    }

    #[test]
    fn one_of_eight_that_is_slow_is_detached_or_its_data_are_shared() {
        let times = [1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0];
        let detach = best(&times, 0.125);
        assert_eq!((detach.mode, detach.seconds), (Some(Mode::Detach), 1.0));
        assert_eq!(detach.members, [0, 1, 2, 4, 5, 6, 7]);
        let shrink = best(&times, 0.124);
        assert_eq!((shrink.mode, shrink.members.len()), (Some(Mode::Shrink), 7));
        assert!((shrink.seconds - 8.0 / 7.0).abs() < 1e-12);
    }

    #[test]
    fn four_of_eight_take_twice_as_long() {
        let four = best(&[4.0, 1.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0], 0.1);
        assert_eq!((four.mode, &*four.members), (Some(Mode::Shrink), &[1, 3, 5, 7][..]));
        assert!((four.seconds - 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_that_is_hardly_slow_is_worth_keeping_beside_one_that_is_very_slow() {
        // Without the slowest process, each has 8/7 of its samples; with six members, each has 8/6.
        let kept = best(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.6, 40.0], 0.1);
        assert_eq!(kept.members, [0, 1, 2, 3, 4, 5], "1.33 is less than 1.6 · 8 / 7");
        let times = [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.51, 40.0];
        assert_eq!(best(&times, 0.1).members.len(), 7);
    }

    #[test]
    fn the_mode_flips_exactly_at_theta() {
        for all in 1..=64usize {
            for degraded in 0..=all {
                let ratio = degraded as f64 / all as f64;
                assert_eq!(mode(degraded, all, ratio), Mode::Detach, "{degraded} of {all}");
                assert_eq!(mode(degraded, all, ratio - 1e-9), Mode::Shrink, "{degraded} of {all}");
            }
        }
    }

    proptest! {
        #[test]
        fn whoever_is_well_is_in_and_a_larger_group_never_shrinks_worse_than_its_slowest(
            times in proptest::collection::vec(0.1..10.0f64, 1..20), theta in 0.0..1.0f64,
        ) {
            let processes = processes(&times);
            let communication = Communication { today: 0.5, undisturbed: 0.25 };
            let choice = SelectionInput { processes: &processes, share: 16.0, communication, theta };
            let candidates = candidates(&choice);
            prop_assert_eq!(candidates.len(), 2 * times.len() - 1);
            prop_assert!(candidates[0].eligible && candidates[0].mode.is_none());
            for candidate in &candidates {
                let well = processes.iter().filter(|one| !one.degraded);
                let keeps_all = well.clone().all(|one| candidate.members.contains(&one.rank));
                prop_assert!(!candidate.eligible || keeps_all);
                prop_assert!(candidate.members.is_sorted());
                let samples = match candidate.mode {
                    Some(Mode::Shrink) => 16.0 * times.len() as f64 / candidate.members.len() as f64,
                    _ => 16.0,
                };
                let slowest = candidate.members.iter().map(|rank| times[usize::from(*rank)]).fold(0.0, f64::max);
                let disturbed = processes.iter().any(|one| one.degraded && candidate.members.contains(&one.rank));
                let reduce = if disturbed { 0.5 } else { 0.25 };
                prop_assert!((candidate.seconds - reduce - slowest / 16.0 * samples).abs() < 1e-9);
            }
        }
    }
}
