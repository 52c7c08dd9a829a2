//! `tributary jobs end`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tributary_api::v1;
use tributary_cli::output;
use tributary_cli::switches;

use crate::options::remote::{ControllerArgs, read_token, refused};

#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// The job's name
    name: String,

    /// File with the job's token [default: none, for operators where the controller demands certificates]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(super) async fn run(controller: &ControllerArgs, args: &EndArgs, json: bool) -> Result<()> {
    let token = args.token_file.as_deref().map(read_token).transpose()?.unwrap_or_default();
    let mut client = controller.connect().await?;
    client.end_job(v1::EndJobRequest { job: args.name.clone(), token }).await.map_err(refused)?;
    let jobs = client.list_jobs(v1::ListJobsRequest {}).await.map_err(refused)?.into_inner().jobs;
    // Names are reused, so the last ended job with this name is the one that this command has ended.
    let ended = jobs.iter().rfind(|job| job.name == args.name && is_over(job));
    let all = switches::list(&mut client).await?;
    let left: Vec<_> = ended.map(|job| left_on(job, &all).collect()).unwrap_or_default();
    if json {
        let left: Vec<_> = left.iter().map(|(switch, _)| switch).collect();
        output::print(json!({ "job": args.name, "state": "ended", "left_on": left }))?;
    } else {
        output::print(format_args!("job {} has ended", args.name))?;
    }
    for (switch, why) in left {
        output::complain(format_args!(
            "warning: {why}; the entries and slots of job {} on {switch} are withdrawn as soon as the switch is \
             reachable",
            args.name
        ));
    }
    Ok(())
}

fn is_over(job: &v1::Job) -> bool {
    matches!(job.state(), v1::JobState::Ended | v1::JobState::Failed)
}

/// Returns the switches on which an ended job may still have table entries, each with the reason.
fn left_on(job: &v1::Job, switches: &[v1::Switch]) -> impl Iterator<Item = (String, String)> {
    let tree: Vec<_> =
        job.plan.iter().flat_map(|plan| &plan.switches).map(|role| role.name.clone()).collect();
    let on_tree = switches.iter().filter(move |switch| tree.contains(&switch.name));
    on_tree.filter_map(|switch| Some((switch.name.clone(), switches::remark(switch)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_left_on_switches_of_its_tree_that_are_not_there() {
        let role = |name: &str| v1::TreeSwitch { name: name.into(), ..v1::TreeSwitch::default() };
        let plan = v1::PlanSummary { switches: ["root", "leaf0"].map(role).into(), ..Default::default() };
        let job = v1::Job { name: "digits".into(), plan: Some(plan), ..v1::Job::default() };
        let switch = |name: &str, state: v1::SwitchState| v1::Switch {
            name: name.into(),
            state: state.into(),
            state_milliseconds: 4_000,
            reason: "no answer".into(),
            ..v1::Switch::default()
        };
        let switches = [
            switch("root", v1::SwitchState::Up),
            switch("leaf0", v1::SwitchState::Unreachable),
            switch("leaf1", v1::SwitchState::Unreachable),
        ];
        let left: Vec<_> = left_on(&job, &switches).collect();
        let why = "switch leaf0 has been unreachable for 4.0 s: no answer";
        assert_eq!(left, [("leaf0".to_owned(), why.to_owned())]);
    }
}
