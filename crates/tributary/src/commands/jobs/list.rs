//! `tributary jobs list`.

use anyhow::Result;
use indicatif::HumanCount;
use serde_json::{Value, json};
use tributary_api::v1;

use crate::options::remote::{ControllerArgs, refused};
use tributary_cli::output;
use tributary_cli::ranks::Ranks;
use tributary_cli::{states, switches};

pub(super) async fn run(controller: &ControllerArgs, json: bool) -> Result<()> {
    let mut client = controller.connect().await?;
    let jobs = client.list_jobs(v1::ListJobsRequest {}).await.map_err(refused)?.into_inner().jobs;
    let counters = client.get_counters(v1::GetCountersRequest::default()).await.map_err(refused)?;
    let counters = counters.into_inner().switches;
    let switches = switches::list(&mut client).await?;
    let jobs: Vec<_> = jobs.into_iter().map(|job| (slices(&job, &counters), job)).collect();
    if json {
        let not_up = switches.iter().filter(|switch| switch.state() != v1::SwitchState::Up);
        output::print(json!({
            "jobs": jobs.iter().map(|(slices, job)| job_json(job, *slices)).collect::<Vec<_>>(),
            "switches_away": not_up.map(switches::switch_json).collect::<Vec<_>>(),
        }))?;
        return Ok(());
    }
    if jobs.is_empty() {
        output::print("there are no jobs")?;
    } else {
        output::print(table(&jobs))?;
    }
    for remark in switches::remarks(&switches) {
        output::print(&remark)?;
    }
    Ok(())
}

/// The progress of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slices {
    /// The number of slices that the switches have completed for the job. This is the largest count of any
    /// switch.
    completed: u64,
    /// True if the count may be too low, because a switch that aggregates for the job is unreachable.
    at_least: bool,
}

/// Returns the progress of a job; `None` if no switch aggregates, or no switch has reported yet.
fn slices(job: &v1::Job, counters: &[v1::SwitchCounters]) -> Option<Slices> {
    // The counters may belong to an earlier job with this name, so the job's number is compared.
    let of_job =
        |counter: &&v1::JobCounter| counter.job_number == job.number && counter.reason == "completed";
    let counted = counters.iter().flat_map(|switch| &switch.jobs).filter(of_job);
    let completed = counted.map(|counter| counter.packets).max()?;
    let aggregates = |name: &str| {
        let tree = job.plan.iter().flat_map(|plan| &plan.switches);
        tree.clone().any(|switch| switch.aggregates && switch.name == name)
    };
    let at_least =
        counters.iter().any(|switch| switch.unreachable.is_some() && aggregates(switch.name.as_str()));
    Some(Slices { completed, at_least })
}

fn slices_text(slices: Option<Slices>) -> String {
    match slices {
        Some(Slices { completed, at_least: false }) => HumanCount(completed).to_string(),
        Some(Slices { completed, at_least: true }) => format!("≥ {}", HumanCount(completed)),
        None => "-".to_owned(),
    }
}

/// Returns remarks on a job, as text for users.
fn remarks(job: &v1::Job) -> String {
    let waiting = job.waiting_for.join(", ");
    let changed = format!("generation {}: {}", job.generation, job.last_change);
    let all = [
        (!job.group_of.is_empty()).then(|| format!("a group of the ranks of {}", job.group_of)),
        (!waiting.is_empty()).then(|| format!("waits for {waiting}")),
        (!job.setback.is_empty()).then(|| format!("cannot change its structure: {}", job.setback)),
        fallback(job),
        (!job.reason.is_empty()).then(|| job.reason.clone()),
        (!job.last_change.is_empty()).then_some(changed),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns the reasons why the network aggregates less of a job than possible.
fn fallback(job: &v1::Job) -> Option<String> {
    let aggregates = job.plan.iter().flat_map(|plan| &plan.switches).any(|switch| switch.aggregates);
    let reasons: Vec<_> = job.fallbacks.iter().map(|fallback| fallback.description.as_str()).collect();
    let how = if aggregates { "less aggregation than possible" } else { "no aggregation" };
    (!reasons.is_empty()).then(|| format!("{how}: {}", reasons.join("; ")))
}

fn table(jobs: &[(Option<Slices>, v1::Job)]) -> comfy_table::Table {
    let mut table =
        output::table(&["job", "state", "slices", "workers", "server", "aggregated in", "remarks"]);
    for (slices, job) in jobs {
        let plan = job.plan.clone().unwrap_or_default();
        let adding = plan.switches.iter().filter(|switch| switch.aggregates);
        let adding: Vec<_> = adding.map(|switch| switch.name.as_str()).collect();
        let (ranks, remarks) = (Ranks::of(job), remarks(job));
        let workers: Vec<_> = plan.workers.iter().map(|host| ranks.label(host)).collect();
        table.add_row([
            job.name.clone(),
            states::of_job(job.state()).to_owned(),
            slices_text(*slices),
            workers.join(", "),
            plan.server,
            adding.join(", "),
            remarks,
        ]);
    }
    table
}

fn job_json(job: &v1::Job, slices: Option<Slices>) -> Value {
    let ranks = Ranks::of(job);
    let workers = job.members.iter().filter(|member| member.role() == v1::MemberRole::Worker);
    let worker = |member: &v1::JobMember| {
        json!({
            "host": member.host,
            "joined": member.joined,
            "first_rank": ranks.on(&member.host).map(|ranks| ranks.start),
            "processes": member.processes,
        })
    };
    json!({
        "job": job.name,
        "creator": job.creator,
        "group_of": job.group_of,
        "state": states::of_job(job.state()),
        "job_id": job.job_id,
        "job_index": job.job_index,
        "reason": job.reason,
        "slices_completed": slices.map(|slices| slices.completed),
        "slices_at_least": slices.is_some_and(|slices| slices.at_least),
        "waiting_for": job.waiting_for,
        "generation": job.generation,
        "threads": job.threads,
        "last_change": job.last_change,
        "setback": job.setback,
        "fallbacks": job.fallbacks.iter().map(|fallback| &fallback.description).collect::<Vec<_>>(),
        "workers": workers.map(worker).collect::<Vec<_>>(),
        "plan": job.plan.as_ref().map(plan_json),
    })
}

/// Returns a plan as JSON.
pub(super) fn plan_json(plan: &v1::PlanSummary) -> Value {
    let switch = |switch: &v1::TreeSwitch| {
        json!({
            "name": switch.name,
            "node": switch.node,
            "aggregates": switch.aggregates,
            "fan_in": switch.fan_in,
        })
    };
    json!({
        "workers": plan.workers,
        "server": plan.server,
        "server_fan_in": plan.server_fan_in,
        "window": plan.window,
        "switches": plan.switches.iter().map(switch).collect::<Vec<_>>(),
        "speedup_over_ring": plan.speedup_over_ring,
        "speedup_over_parameter_server": plan.speedup_over_parameter_server,
        "notes": plan.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_says_whom_it_waits_for_or_why_it_failed() {
        let waiting = v1::Job {
            name: "a".into(),
            state: v1::JobState::Created.into(),
            waiting_for: vec!["w0".into(), "ps".into()],
            ..v1::Job::default()
        };
        let failed = v1::Job {
            name: "b".into(),
            state: v1::JobState::Failed.into(),
            reason: "host \"w1\" left".into(),
            ..v1::Job::default()
        };
        let text =
            table(&[(None, waiting.clone()), (Some(Slices { completed: 12_345, at_least: true }), failed)])
                .to_string();
        assert!(text.contains("waits for w0, ps") && text.contains("≥ 12,345"), "{text}");
        assert!(text.contains("host \"w1\" left"), "{text}");
        assert_eq!(job_json(&waiting, None)["state"], "created");
    }

    #[test]
    fn the_ranks_of_hosts_with_several_processes_are_shown() {
        let member = |host: &str, processes| v1::JobMember {
            host: host.into(),
            role: v1::MemberRole::Worker.into(),
            processes,
            ..v1::JobMember::default()
        };
        let job = v1::Job {
            plan: Some(v1::PlanSummary { workers: vec!["w1".into()], ..v1::PlanSummary::default() }),
            members: vec![member("w0", 4), member("w1", 2)],
            ..v1::Job::default()
        };
        let text = table(&[(None, job.clone())]).to_string();
        assert!(text.contains("w1 (ranks 4–5)") && !text.contains("w0"), "{text}");
        assert_eq!(
            remarks(&v1::Job { group_of: "all".into(), ..job.clone() }),
            "a group of the ranks of all"
        );
        let json = job_json(&job, None);
        assert_eq!(
            json["workers"][1],
            json!({ "host": "w1", "joined": false, "first_rank": 4, "processes": 2 })
        );
    }

    #[test]
    fn a_job_says_what_is_not_aggregated() {
        let slots = v1::Fallback { description: "leaf had no free slots".into(), ..v1::Fallback::default() };
        let switch = v1::TreeSwitch { name: "leaf".into(), aggregates: true, ..v1::TreeSwitch::default() };
        let mut job = v1::Job { fallbacks: vec![slots], ..v1::Job::default() };
        assert_eq!(remarks(&job), "no aggregation: leaf had no free slots");
        job.plan = Some(v1::PlanSummary { switches: vec![switch], ..v1::PlanSummary::default() });
        assert_eq!(remarks(&job), "less aggregation than possible: leaf had no free slots");
        job.fallbacks.clear();
        assert_eq!(remarks(&job), "");
    }

    #[test]
    fn progress_is_that_of_the_switch_that_has_done_most() {
        let counter = |job_number, reason: &str, packets| v1::JobCounter {
            job: "a".into(),
            job_number,
            reason: reason.into(),
            packets,
            bytes: 0,
        };
        let switch = |name: &str, jobs| v1::SwitchCounters {
            name: name.into(),
            jobs,
            ..v1::SwitchCounters::default()
        };
        let mut counters = [
            switch("leaf0", vec![counter(1, "completed", 7), counter(1, "received", 99)]),
            switch("leaf1", vec![counter(1, "completed", 9), counter(2, "received", 50)]),
            switch("leaf2", Vec::new()),
        ];
        let adding =
            |name: &str| v1::TreeSwitch { name: name.into(), aggregates: true, ..Default::default() };
        let plan = v1::PlanSummary { switches: vec![adding("leaf0"), adding("leaf1")], ..Default::default() };
        // Two jobs with the same name, one after the other.
        let job =
            |number| v1::Job { name: "a".into(), number, plan: Some(plan.clone()), ..Default::default() };
        let told = |at_least| Some(Slices { completed: 9, at_least });
        assert_eq!((slices(&job(1), &counters), slices(&job(2), &counters)), (told(false), None));
        // A switch outside the job's tree may be unreachable.
        counters[2].unreachable = Some("no answer".into());
        assert_eq!(slices(&job(1), &counters), told(false));
        counters[0].unreachable = Some("no answer".into());
        assert_eq!(slices(&job(1), &counters), told(true));
    }
}
