//! `tributary jobs explain`.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use tributary_api::v1;
use tributary_cli::{output, ranks};

use crate::options::remote::{ControllerArgs, refused};

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The job's name
    name: String,
}

pub(super) async fn run(controller: &ControllerArgs, args: &ExplainArgs, json: bool) -> Result<()> {
    let request = v1::ExplainJobRequest { job: args.name.clone() };
    let explained = controller.connect().await?.explain_job(request).await.map_err(refused)?.into_inner();
    match json {
        true => output::print(explained_json(&explained))?,
        false => output::print(text(&explained))?,
    }
    Ok(())
}

fn text(explained: &v1::ExplainJobResponse) -> String {
    let policy = match explained.degraded() {
        v1::Degraded::Auto => "auto",
        v1::Degraded::Off | v1::Degraded::Unspecified => "off",
    };
    let all = explained.processes.len();
    let mut lines = vec![format!(
        "job {}, generation {}: --degraded {policy}, θ = {}",
        explained.job, explained.generation, explained.theta
    )];
    if all == 0 {
        lines.push("no process has reported a step yet".to_owned());
        return lines.join("\n");
    }
    lines.push(processes(explained).to_string());
    lines.push(format!(
        "{} of {all} processes are degraded (r = {:.3}): left-out processes would be {}",
        explained.degraded_processes,
        f64::from(explained.degraded_processes) / all as f64,
        match explained.mode_by_theta() {
            v1::DegradedMode::Shrink => "shrunk away: the other processes process their data (r > θ)",
            v1::DegradedMode::Detach | v1::DegradedMode::Unspecified =>
                "detached: their data is not processed (r ≤ θ)",
        }
    ));
    lines.push(format!(
        "a step of the present group takes {}: the computing of the slowest process, and {} of all-reduces, which \
         take {} without the slow processes",
        seconds(explained.today_seconds),
        seconds(explained.communication_seconds),
        seconds(explained.undisturbed_communication_seconds),
    ));
    if !explained.candidates.is_empty() {
        lines.push(candidates(explained).to_string());
    }
    lines.push(explained.verdict.clone());
    if let Some(change) = &explained.last_change {
        lines.push(format!(
            "last change, {} s ago, to generation {}: {}; the expected step time changed to {} from {}",
            change.age_milliseconds / 1000,
            change.generation,
            change.reason,
            seconds(change.predicted_seconds),
            seconds(change.before_seconds),
        ));
    }
    lines.join("\n")
}

fn processes(explained: &v1::ExplainJobResponse) -> comfy_table::Table {
    let mut table = output::table(&[
        "rank",
        "host",
        "state",
        "steps",
        "samples",
        "computes",
        "all-reduces",
        "α",
        "β (a sample)",
        "of the median",
    ]);
    for process in &explained.processes {
        let place = if process.detached { "detached" } else { "in" };
        let state = match process.degraded {
            true => format!("{place}, degraded for {} steps", process.steps_so),
            false => place.to_owned(),
        };
        table.add_row([
            rank(process),
            process.host.clone(),
            state,
            process.steps.to_string(),
            process.samples.to_string(),
            seconds(process.compute_seconds),
            process.reduce_seconds.map_or_else(dash, seconds),
            process.alpha.map_or_else(dash, seconds),
            process.beta.map_or_else(dash, seconds),
            process.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
        ]);
    }
    table
}

/// Returns the ranks of the processes on the host of a report.
fn rank(process: &v1::ProcessReport) -> String {
    let v1::ProcessReport { first_process: first, processes, .. } = *process;
    ranks::numbers(&(first..first.saturating_add(processes.max(1))))
}

/// Returns a table of the candidates. The controller reports those that it may choose, and the best of
/// the others.
fn candidates(explained: &v1::ExplainJobResponse) -> comfy_table::Table {
    let mut table = output::table(&["group of", "left out", "mode", "a step takes", ""]);
    let all = || explained.processes.iter();
    for (place, candidate) in explained.candidates.iter().enumerate() {
        let out = all().filter(|process| !candidate.members.contains(&process.rank));
        let out: Vec<_> = out.map(|process| process.host.as_str()).collect();
        let remark = match (explained.best == Some(place as u32), candidate.eligible) {
            (true, _) => "best",
            (false, true) => "",
            (false, false) => {
                "not possible: it leaves out a process that is not slow, or θ requires the other mode"
            }
        };
        table.add_row([
            candidate.members.len().to_string(),
            if out.is_empty() { dash() } else { out.join(", ") },
            mode(candidate.mode()).unwrap_or("-").to_owned(),
            seconds(candidate.seconds),
            remark.to_owned(),
        ]);
    }
    table
}

fn seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 1.0 => format!("{long:.2} s"),
        short => format!("{:.2} ms", short * 1e3),
    }
}

fn dash() -> String {
    "-".to_owned()
}

fn mode(mode: v1::DegradedMode) -> Option<&'static str> {
    match mode {
        v1::DegradedMode::Unspecified => None,
        v1::DegradedMode::Detach => Some("detach"),
        v1::DegradedMode::Shrink => Some("shrink"),
    }
}

/// Returns the controller's explanation as JSON.
pub(crate) fn explained_json(explained: &v1::ExplainJobResponse) -> Value {
    let process = |process: &v1::ProcessReport| {
        json!({
            "rank": process.rank,
            "first_rank": process.first_process,
            "processes": process.processes,
            "host": process.host,
            "detached": process.detached,
            "degraded": process.degraded,
            "steps_so": process.steps_so,
            "steps": process.steps,
            "alpha_s": process.alpha,
            "beta_s": process.beta,
            "samples": process.samples,
            "compute_s": process.compute_seconds,
            "reduce_s": process.reduce_seconds,
            "ratio": process.ratio,
        })
    };
    let candidate = |candidate: &v1::Candidate| {
        json!({
            "members": candidate.members,
            "mode": mode(candidate.mode()),
            "predicted_s": candidate.seconds,
            "eligible": candidate.eligible,
        })
    };
    let change = |change: &v1::DegradedChange| {
        json!({
            "generation": change.generation,
            "reason": change.reason,
            "before_s": change.before_seconds,
            "predicted_s": change.predicted_seconds,
            "age_s": change.age_milliseconds as f64 / 1e3,
        })
    };
    json!({
        "job": explained.job,
        "generation": explained.generation,
        "degraded": if explained.degraded() == v1::Degraded::Auto { "auto" } else { "off" },
        "theta": explained.theta,
        "processes": explained.processes.iter().map(process).collect::<Vec<_>>(),
        "degraded_processes": explained.degraded_processes,
        "share": explained.share,
        "communication_s": explained.communication_seconds,
        "undisturbed_communication_s": explained.undisturbed_communication_seconds,
        "today_s": explained.today_seconds,
        "mode": mode(explained.mode()),
        "mode_by_theta": mode(explained.mode_by_theta()),
        "candidates": explained.candidates.iter().map(candidate).collect::<Vec<_>>(),
        "best": explained.best,
        "verdict": explained.verdict,
        "last_change": explained.last_change.as_ref().map(change),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained() -> v1::ExplainJobResponse {
        let process = |rank, host: &str, compute| v1::ProcessReport {
            rank,
            first_process: 4 * rank,
            processes: 4,
            host: host.into(),
            degraded: compute > 0.2,
            steps_so: 9,
            steps: 40,
            alpha: Some(0.0),
            beta: Some(compute / 16.0),
            samples: 16.0,
            compute_seconds: compute,
            reduce_seconds: Some(0.01),
            ratio: Some(compute / 0.1),
            ..v1::ProcessReport::default()
        };
        let candidate = |members: &[u32], mode: v1::DegradedMode, seconds, eligible| v1::Candidate {
            members: members.to_vec(),
            mode: mode.into(),
            seconds,
            eligible,
        };
        v1::ExplainJobResponse {
            job: "digits".into(),
            generation: 1,
            degraded: v1::Degraded::Auto.into(),
            theta: 0.1,
            processes: vec![process(0, "w0", 0.1), process(1, "w1", 0.4)],
            degraded_processes: 1,
            share: 16.0,
            today_seconds: 0.41,
            mode_by_theta: v1::DegradedMode::Shrink.into(),
            candidates: vec![
                candidate(&[0, 1], v1::DegradedMode::Unspecified, 0.41, true),
                candidate(&[0], v1::DegradedMode::Detach, 0.11, false),
                candidate(&[0], v1::DegradedMode::Shrink, 0.21, true),
            ],
            best: Some(2),
            verdict: "shrink".into(),
            ..v1::ExplainJobResponse::default()
        }
    }

    #[test]
    fn people_see_who_is_slow_and_what_each_group_would_take() {
        let text = text(&explained());
        for expected in [
            "generation 1: --degraded auto, θ = 0.1",
            "4–7",
            "in, degraded for 9 steps",
            "400.00 ms",
            "4.00",
            "1 of 2 processes are degraded (r = 0.500): left-out processes would be shrunk away",
            "210.00 ms",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
        let best = text.lines().find(|line| line.contains("best")).unwrap();
        assert!(best.contains("w1") && best.contains("shrink"), "{best}");
        let nothing = v1::ExplainJobResponse::default();
        assert!(super::text(&nothing).contains("no process has reported a step yet"));
    }

    #[test]
    fn programs_get_all_of_it() {
        let json = explained_json(&explained());
        assert_eq!((json["best"].as_u64(), json["mode_by_theta"].as_str()), (Some(2), Some("shrink")));
        assert_eq!(json["candidates"][1]["mode"], "detach");
        assert_eq!(json["processes"][1]["ratio"].as_f64(), Some(4.0));
        assert!(json["mode"].is_null() && json["last_change"].is_null());
    }
}
