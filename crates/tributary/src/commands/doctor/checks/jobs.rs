//! Checks for jobs that wait, stall, or run slower than necessary.

use std::time::Duration;

use tributary_api::v1;
use tributary_cli::ranks::Ranks;

use super::limits::{Limits, seconds};
use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

/// The number of a job's longest steps for which a process may wait. A longer wait is not just one slow
/// rank, but a fault.
const STEPS: u32 = 3;

pub(super) fn check(snapshot: &Snapshot, limits: &Limits) -> Vec<Finding> {
    let checks = |job| {
        let waits = if is_waiting(job, limits) { waits(snapshot, job) } else { Vec::new() };
        waits.into_iter().chain(setback(job)).chain(stalled(snapshot, job, limits)).chain(fallback(job))
    };
    snapshot.jobs.iter().flat_map(checks).collect()
}

fn place(job: &v1::Job) -> String {
    format!("job {}", job.name)
}

/// Returns true if a job has been waiting for its start for too long.
fn is_waiting(job: &v1::Job, limits: &Limits) -> bool {
    let waits = matches!(job.state(), v1::JobState::Created | v1::JobState::Queued);
    waits && Duration::from_millis(job.age_milliseconds) > limits.patience
}

/// Returns a finding for each member or resource for which a job waits.
fn waits(snapshot: &Snapshot, job: &v1::Job) -> Vec<Finding> {
    let time = seconds(job.age_milliseconds);
    if job.state() == v1::JobState::Queued {
        let means = job.waiting_for.first().map_or("slots", String::as_str);
        let what = format!("has waited for {time} for {means}");
        let fix = "repair what is dead; if slots are missing, end a job that has slots there (`tributary jobs list`), \
                   raise the creator's limit (slots-per-creator), or create the job again with a smaller --window; it \
                   starts by itself when it has what it needs";
        return vec![Finding::warning(Code::JobWaits, place(job), what, fix)];
    }
    let missing: Vec<_> = job.members.iter().filter(|member| !member.joined).collect();
    if missing.is_empty() {
        let what = format!("has waited for {time} for {}", job.waiting_for.join(", "));
        let fix = "repair what is dead, or wait until it is back: the job starts by itself then";
        return vec![Finding::problem(Code::JobWaits, place(job), what, fix)];
    }
    let one = |member: &&v1::JobMember| {
        let host = &member.host;
        let is_connected = |daemon: &v1::HostDaemon| match member.role() {
            v1::MemberRole::Server => daemon.serves,
            v1::MemberRole::Worker | v1::MemberRole::Unspecified => daemon.works,
        };
        let listed = snapshot.hosts.iter().find(|listed| listed.name == *host);
        let is_there = listed.is_some_and(|listed| listed.daemons.iter().any(is_connected));
        let (whom, fix) = match (member.role(), is_there) {
            (v1::MemberRole::Server, false) => {
                ("its server, whose daemon is not connected", format!("start `tributary server` on {host}"))
            }
            (v1::MemberRole::Server, true) => (
                "its server, whose daemon is connected but has not joined",
                format!("check the log of the daemon on {host}: the controller has assigned the job to it"),
            ),
            (_, false) => ("a worker whose agent is not connected", format!("start the agent on {host}")),
            (_, true) if member.processes > 1 => (
                "a worker whose training processes have not all joined",
                format!("start all {} training processes on {host}, or end the job", member.processes),
            ),
            (_, true) => (
                "a worker whose training process has not joined",
                format!("start the training process on {host}, or end the job"),
            ),
        };
        let what = format!("has waited for {time} for {whom}");
        Finding::problem(Code::JobWaits, format!("{} at {host}", place(job)), what, fix)
    };
    missing.iter().map(one).collect()
}

/// Finds a change of the job's structure that does not succeed.
fn setback(job: &v1::Job) -> Option<Finding> {
    let v1::Job { setback, .. } = job;
    (!setback.is_empty()).then(|| {
        let what = format!("cannot change to the structure that it needs: {setback}");
        let fix = "repair the named cause; the controller tries again by itself";
        Finding::problem(Code::JobSetback, place(job), what, fix)
    })
}

/// Finds a job whose processes wait for a result that does not arrive.
fn stalled(snapshot: &Snapshot, job: &v1::Job, limits: &Limits) -> Option<Finding> {
    if job.state() != v1::JobState::Running {
        return None;
    }
    let told: Vec<_> =
        job.members.iter().filter_map(|member| Some((member, member.progress.as_ref()?))).collect();
    let step = told.iter().map(|(_, progress)| Duration::from_nanos(progress.step_nanoseconds)).max()?;
    let limit = limits.patience.max(STEPS * step);
    let stall = |progress: &v1::JobProgress| Duration::from_millis(progress.stalled_milliseconds);
    let (waiting, others): (Vec<_>, Vec<_>) =
        told.into_iter().partition(|(_, progress)| stall(progress) > limit);
    let longest = waiting.iter().map(|(_, progress)| progress.stalled_milliseconds).max()?;
    let ranks = Ranks::of(job);
    let names = |members: &[(&v1::JobMember, &v1::JobProgress)]| {
        members.iter().map(|(member, _)| ranks.label(&member.host)).collect::<Vec<_>>().join(", ")
    };
    // The other processes wait for the process that does not wait itself.
    let late: Vec<_> =
        others.into_iter().filter(|(_, progress)| progress.stalled_milliseconds == 0).collect();
    let (whom, fix) = match late.len() {
        1 if late[0].0.processes > 1 => (
            format!("one of the processes on {} has not begun the same all-reduce", names(&late)),
            format!("check if a training process on {} is stopped, slow, or at its end", names(&late)),
        ),
        1 => (
            format!("the process on {} has not begun the same all-reduce", names(&late)),
            format!("check if the training process on {} is stopped, slow, or at its end", names(&late)),
        ),
        2.. => (
            format!("the processes on {} have not begun the same all-reduce", names(&late)),
            format!("check if the training processes on {} are stopped, slow, or at their end", names(&late)),
        ),
        0 => (
            "every process has begun it, but no result arrives".to_owned(),
            format!(
                "check the other findings, `tributary counters --job {}` and the server's log; if these show nothing, \
                 a link of a plain switch may lose long packets: compare the MTU at both of its ends",
                job.name
            ),
        ),
    };
    let unreachable: Vec<_> = snapshot
        .switches
        .iter()
        .filter(|switch| switch.state() != v1::SwitchState::Up && is_on_tree(job, switch))
        .map(|switch| format!("switch {} is unreachable", switch.name))
        .collect();
    let unreachable =
        if unreachable.is_empty() { String::new() } else { format!("; {}", unreachable.join(", ")) };
    let have = if waiting.len() == 1 { "has" } else { "have" };
    let what = format!(
        "{} {have} waited for a result for {}: {whom}{unreachable}",
        names(&waiting),
        seconds(longest)
    );
    Some(Finding::problem(Code::JobStalled, place(job), what, fix))
}

fn is_on_tree(job: &v1::Job, switch: &v1::Switch) -> bool {
    job.plan.iter().flat_map(|plan| &plan.switches).any(|role| role.name == switch.name)
}

/// Finds switches that could aggregate, but do not.
fn fallback(job: &v1::Job) -> Option<Finding> {
    let lives = matches!(job.state(), v1::JobState::Running | v1::JobState::Created);
    let avoidable = |fallback: &&v1::Fallback| match fallback.cause() {
        v1::FallbackCause::NoSlots | v1::FallbackCause::TooManyChildren => true,
        // The job's creator requested this, or the switch cannot aggregate.
        v1::FallbackCause::AskedFor | v1::FallbackCause::PlainSwitch | v1::FallbackCause::Unspecified => {
            false
        }
    };
    let reasons: Vec<_> =
        job.fallbacks.iter().filter(avoidable).map(|one| one.description.as_str()).collect();
    if !lives || reasons.is_empty() {
        return None;
    }
    let plan = job.plan.as_ref();
    let aggregates = plan.is_some_and(|plan| plan.switches.iter().any(|switch| switch.aggregates));
    let how = if aggregates { "with less aggregation than possible" } else { "without aggregation" };
    let what = format!("runs {how}: {}", reasons.join("; "));
    let fix = "end a job that holds slots there (`tributary jobs list`), or create this job again with a smaller \
               --window or fewer workers under one switch";
    Some(Finding::warning(Code::JobFallback, place(job), what, fix))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LIMITS, healthy};
    use super::*;

    fn found(change: impl FnOnce(&mut Snapshot)) -> Vec<(Code, String, String)> {
        let mut snapshot = healthy();
        change(&mut snapshot);
        let tell = |finding: Finding| (finding.code, finding.place, finding.what);
        check(&snapshot, &LIMITS).into_iter().map(tell).collect()
    }

    fn one(code: Code, place: &str, what: &str) -> Vec<(Code, String, String)> {
        vec![(code, place.to_owned(), what.to_owned())]
    }

    fn waiting(snapshot: &mut Snapshot, age: u64) {
        let job = &mut snapshot.jobs[0];
        job.state = v1::JobState::Created.into();
        job.age_milliseconds = age;
        job.members[1].joined = false;
    }

    #[test]
    fn a_job_waits_for_a_process_or_for_an_agent() {
        assert_eq!(found(|snapshot| waiting(snapshot, 30_000)), []);
        let process = "has waited for 31 s for a worker whose training process has not joined";
        let at = "job digits at w1";
        assert_eq!(found(|snapshot| waiting(snapshot, 31_000)), one(Code::JobWaits, at, process));
        let agent = found(|snapshot| {
            waiting(snapshot, 31_000);
            snapshot.hosts[1].daemons.clear();
        });
        assert_eq!(
            agent,
            one(Code::JobWaits, at, "has waited for 31 s for a worker whose agent is not connected")
        );
        let several = found(|snapshot| {
            waiting(snapshot, 31_000);
            snapshot.jobs[0].members[1].processes = 4;
        });
        let processes = "has waited for 31 s for a worker whose training processes have not all joined";
        assert_eq!(several, one(Code::JobWaits, at, processes));
        let server = found(|snapshot| {
            waiting(snapshot, 31_000);
            snapshot.jobs[0].members[1].role = v1::MemberRole::Server.into();
        });
        assert!(
            server[0].2.contains("its server, whose daemon is connected but has not joined"),
            "{server:?}"
        );
        let way = found(|snapshot| {
            waiting(snapshot, 31_000);
            snapshot.jobs[0].members[1].joined = true;
            snapshot.jobs[0].waiting_for = vec!["a way through the fabric (dead: switch leaf)".into()];
        });
        let what = "has waited for 31 s for a way through the fabric (dead: switch leaf)";
        assert_eq!(way, one(Code::JobWaits, "job digits", what));
    }

    #[test]
    fn a_job_in_the_queue_waits_for_slots_and_for_nobody() {
        let queued = found(|snapshot| {
            waiting(snapshot, 31_000);
            snapshot.jobs[0].state = v1::JobState::Queued.into();
            snapshot.jobs[0].waiting_for = vec!["slots (leaf: none is free)".into(), "w1".into()];
        });
        let what = "has waited for 31 s for slots (leaf: none is free)";
        assert_eq!(queued, one(Code::JobWaits, "job digits", what));
    }

    #[test]
    fn who_does_not_wait_is_waited_for() {
        let stall = |stalls: [u64; 2], step: u64| {
            found(|snapshot| {
                for (member, stalled) in snapshot.jobs[0].members.iter_mut().zip(stalls) {
                    let progress = member.progress.as_mut().unwrap();
                    (progress.stalled_milliseconds, progress.step_nanoseconds) =
                        (stalled, step * 1_000_000_000);
                }
            })
        };
        assert_eq!(stall([30_000, 0], 1), []);
        let late = "w0 has waited for a result for 31 s: the process on w1 has not begun the same all-reduce";
        assert_eq!(stall([31_000, 0], 1), one(Code::JobStalled, "job digits", late));
        assert_eq!(stall([31_000, 0], 11), [], "its steps take as long");
        let several = found(|snapshot| {
            for (member, stalled) in snapshot.jobs[0].members.iter_mut().zip([31_000, 0]) {
                (member.processes, member.progress.as_mut().unwrap().stalled_milliseconds) = (2, stalled);
            }
        });
        let late = "w0 (ranks 0–1) has waited for a result for 31 s: one of the processes on w1 (ranks 2–3) has not \
                    begun the same all-reduce";
        assert_eq!(several, one(Code::JobStalled, "job digits", late));
        let all = stall([31_000, 31_000], 1);
        assert!(
            all[0].2.contains("w0, w1 have waited for") && all[0].2.contains("no result arrives"),
            "{all:?}"
        );
        let unreachable = found(|snapshot| {
            snapshot.switches[0].state = v1::SwitchState::Unreachable.into();
            for member in &mut snapshot.jobs[0].members {
                member.progress.as_mut().unwrap().stalled_milliseconds = 31_000;
            }
        });
        assert!(unreachable[0].2.ends_with("; switch leaf is unreachable"), "{unreachable:?}");
    }

    #[test]
    fn what_could_be_aggregated_and_is_not_is_found_and_what_was_asked_for_is_not() {
        let with = |cause: v1::FallbackCause| {
            found(|snapshot| {
                let job = &mut snapshot.jobs[0];
                let description = "leaf had 64 free slots for it, and it needs 256".into();
                job.fallbacks =
                    vec![v1::Fallback { cause: cause.into(), switch: "leaf".into(), description }];
                job.plan.as_mut().unwrap().switches[0].aggregates = false;
            })
        };
        let slots = "runs without aggregation: leaf had 64 free slots for it, and it needs 256";
        assert_eq!(with(v1::FallbackCause::NoSlots), one(Code::JobFallback, "job digits", slots));
        assert_eq!(with(v1::FallbackCause::AskedFor), []);
        assert_eq!(with(v1::FallbackCause::PlainSwitch), []);
    }

    #[test]
    fn a_change_that_does_not_come_about_is_told() {
        let found = found(|snapshot| snapshot.jobs[0].setback = "its tables cannot be installed".into());
        assert_eq!(found[0].0, Code::JobSetback);
    }
}
