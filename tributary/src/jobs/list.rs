//! `tributary jobs list`.

use anyhow::Result;
use indicatif::HumanCount;
use serde_json::{Value, json};
use tributary_api::v1;

use crate::output;
use crate::remote::{ControllerArgs, refused};

pub(super) async fn run(controller: &ControllerArgs, json: bool) -> Result<()> {
    let mut client = controller.connect().await?;
    let jobs = client.list_jobs(v1::ListJobsRequest {}).await.map_err(refused)?.into_inner().jobs;
    // Jobs are worth a look also while a switch does not answer.
    let counters = client.get_counters(v1::GetCountersRequest::default()).await;
    let counters = counters.map(|counters| counters.into_inner().switches).unwrap_or_default();
    let jobs: Vec<_> = jobs.into_iter().map(|job| (slices(&job.name, &counters), job)).collect();
    if json {
        println!(
            "{}",
            json!({ "jobs": jobs.iter().map(|(slices, job)| job_json(job, *slices)).collect::<Vec<_>>() })
        );
    } else if jobs.is_empty() {
        println!("there are no jobs");
    } else {
        println!("{}", table(&jobs));
    }
    Ok(())
}

/// Slices that the switches have completed for the job: those of the switch that has most. `None` where no
/// switch adds up, or none answers.
fn slices(job: &str, counters: &[v1::SwitchCounters]) -> Option<u64> {
    let of_job = |counter: &&v1::JobCounter| counter.job == job && counter.reason == "completed";
    counters.iter().flat_map(|switch| &switch.jobs).filter(of_job).map(|counter| counter.packets).max()
}

fn table(jobs: &[(Option<u64>, v1::Job)]) -> comfy_table::Table {
    let mut table = output::table(&["job", "state", "slices", "workers", "server", "added up in", "remarks"]);
    for (slices, job) in jobs {
        let plan = job.plan.clone().unwrap_or_default();
        let adding = plan.switches.iter().filter(|switch| switch.aggregates);
        let adding: Vec<_> = adding.map(|switch| switch.name.as_str()).collect();
        let remarks = match state(job) {
            "created" => format!("waits for {}", job.waiting_for.join(", ")),
            _ => job.reason.clone(),
        };
        table.add_row([
            job.name.clone(),
            state(job).to_owned(),
            slices.map_or_else(|| "-".to_owned(), |slices| HumanCount(slices).to_string()),
            plan.workers.join(", "),
            plan.server,
            adding.join(", "),
            remarks,
        ]);
    }
    table
}

fn state(job: &v1::Job) -> &'static str {
    match job.state() {
        v1::JobState::Unspecified => "unknown",
        v1::JobState::Created => "created",
        v1::JobState::Installing => "installing",
        v1::JobState::Running => "running",
        v1::JobState::Ended => "ended",
        v1::JobState::Failed => "failed",
    }
}

fn job_json(job: &v1::Job, slices: Option<u64>) -> Value {
    json!({
        "job": job.name,
        "state": state(job),
        "job_id": job.job_id,
        "job_index": job.job_index,
        "reason": job.reason,
        "slices_completed": slices,
        "waiting_for": job.waiting_for,
        "plan": job.plan.as_ref().map(plan_json),
    })
}

/// A plan, for programs.
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
        let text = table(&[(None, waiting.clone()), (Some(12_345), failed)]).to_string();
        assert!(text.contains("waits for w0, ps") && text.contains("12,345"), "{text}");
        assert!(text.contains("host \"w1\" left"), "{text}");
        assert_eq!(job_json(&waiting, None)["state"], "created");
    }

    #[test]
    fn progress_is_that_of_the_switch_that_has_done_most() {
        let counter = |job: &str, reason: &str, packets| v1::JobCounter {
            job: job.into(),
            reason: reason.into(),
            packets,
            bytes: 0,
        };
        let switch = |jobs| v1::SwitchCounters { name: String::new(), jobs, ports: Vec::new() };
        let counters = [
            switch(vec![counter("a", "completed", 7), counter("a", "received", 99)]),
            switch(vec![counter("a", "completed", 9), counter("b", "received", 50)]),
        ];
        assert_eq!((slices("a", &counters), slices("b", &counters)), (Some(9), None));
    }
}
