//! Checks for workers that a running job has lost.

use tributary_api::v1;
use tributary_cli::ranks::{Ranks, text};

use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    let running = snapshot.jobs.iter().filter(|job| job.state() == v1::JobState::Running);
    let of_job = |job| lost(job).map(move |host| finding(snapshot, job, host));
    running.flat_map(of_job).collect()
}

/// Returns the hosts of workers that belong to the job but are not in its present structure.
/// Connected workers are not included: they will join the structure, or were left out because they are
/// slow.
fn lost(job: &v1::Job) -> impl Iterator<Item = &str> {
    let is_in = |host: &String| job.plan.iter().any(|plan| plan.workers.contains(host));
    let workers = job.members.iter().filter(|member| member.role() == v1::MemberRole::Worker);
    workers.filter(move |member| !member.joined && !is_in(&member.host)).map(|member| member.host.as_str())
}

fn finding(snapshot: &Snapshot, job: &v1::Job, host: &str) -> Finding {
    let listed = snapshot.hosts.iter().find(|listed| listed.name == host);
    let agent_is_there = listed.is_some_and(|listed| listed.daemons.iter().any(|daemon| daemon.works));
    let ranks = Ranks::of(job).on(host).unwrap_or_default();
    let (why, fix) = match agent_is_there {
        true if ranks.len() > 1 => (
            "one of its training processes has left or died, or they have not come back yet",
            format!("check the {} training processes on {host}, and start all of them again", ranks.len()),
        ),
        true => (
            "its training process has left or died, or has not come back yet",
            format!("check the training process on {host}, and start it again"),
        ),
        false => (
            "the controller receives nothing from its agent",
            format!(
                "start the agent on {host}, or repair its management network; then start the training process"
            ),
        ),
    };
    let what = format!(
        "continues without {}: {why}; reason for generation {}: {}",
        text(&ranks),
        job.generation,
        job.last_change
    );
    let fix = format!(
        "{fix}: an elastic job includes it again; otherwise the others continue alone, or end the job and create it \
         again"
    );
    Finding::problem(Code::JobWithoutWorker, format!("job {} at {host}", job.name), what, fix)
}

#[cfg(test)]
mod tests {
    use super::super::testing::healthy;
    use super::*;

    /// Returns a snapshot in which a job has lost its second worker.
    fn without_w1() -> Snapshot {
        let mut snapshot = healthy();
        let job = &mut snapshot.jobs[0];
        job.plan.as_mut().unwrap().workers = vec!["w0".into()];
        (job.generation, job.last_change) = (2, "w1 is gone".into());
        (job.members[1].joined, job.members[1].progress) = (false, None);
        snapshot
    }

    #[test]
    fn a_worker_that_a_running_job_has_lost_is_named() {
        let mut snapshot = without_w1();
        let found = check(&snapshot);
        assert_eq!((found.len(), found[0].place.as_str()), (1, "job digits at w1"));
        let what = "continues without rank 1: its training process has left or died, or has not come back yet; reason \
                    for generation 2: w1 is gone";
        assert_eq!(found[0].what, what);
        for member in &mut snapshot.jobs[0].members {
            member.processes = 4;
        }
        let found = check(&snapshot);
        assert!(
            found[0].what.starts_with("continues without ranks 4–7: one of its training processes"),
            "{found:?}"
        );
        assert!(found[0].fix.starts_with("check the 4 training processes on w1"), "{found:?}");
        snapshot.hosts[1].daemons.clear();
        let found = check(&snapshot);
        assert!(found[0].what.contains("the controller receives nothing from its agent"), "{found:?}");
        assert!(found[0].fix.contains("start the agent on w1"), "{found:?}");
    }

    #[test]
    fn one_that_is_connected_or_in_the_structure_or_in_a_job_that_is_over_is_not_lost() {
        let mut connected = without_w1();
        connected.jobs[0].members[1].joined = true;
        assert_eq!(check(&connected), []);
        let mut in_it = without_w1();
        in_it.jobs[0].plan.as_mut().unwrap().workers.push("w1".into());
        assert_eq!(check(&in_it), [], "it is waited for");
        let mut waits = without_w1();
        waits.jobs[0].state = v1::JobState::Created.into();
        assert_eq!(check(&waits), []);
    }
}
