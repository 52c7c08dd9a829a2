//! Builds the API's answer about the processes of a job and the policy for degraded processes.

use tributary_api::{ProcessCounts, v1};
use tributary_planner::degraded::{Candidate, Condition, Mode, TeamMember};
use tributary_topology::Topology;
use tributary_wire::Rank;

use crate::jobs::{Job, LastChange, detachment_description};

/// Explains a job's degraded-process policy: step times, candidate groups and the current decision.
pub(crate) fn job(topology: &Topology, job: &Job) -> v1::ExplainJobResponse {
    let terms = &job.record.terms;
    let team = job.measured.team();
    let counts = job.record.process_counts();
    let decision = team.decide(terms.on_degraded.theta);
    let name = |rank: u16| {
        let member = job.record.request.workers.iter().find(|member| member.rank == rank);
        member.map_or_else(|| format!("rank {rank}"), |member| topology[member.host].name.clone())
    };
    let policy = match terms.on_degraded.auto {
        true => v1::Degraded::Auto,
        false => v1::Degraded::Off,
    };
    v1::ExplainJobResponse {
        job: job.record.name.clone(),
        generation: job.record.current,
        degraded: policy.into(),
        theta: terms.on_degraded.theta,
        processes: team.members().map(|member| process(&member, name(member.rank), &counts)).collect(),
        degraded_processes: decision.degraded as u32,
        share: decision.share,
        communication_seconds: decision.communication.today,
        undisturbed_communication_seconds: decision.communication.undisturbed,
        today_seconds: decision.today,
        mode: mode(team.mode()).into(),
        mode_by_theta: mode(Some(decision.mode)).into(),
        candidates: decision.candidates.iter().map(candidate).collect(),
        best: decision.best.map(|place| place as u32),
        verdict: detachment_description(job, &decision, name),
        last_change: job.measured.last_change.as_ref().map(last_change),
    }
}

fn process(member: &TeamMember<'_>, host: String, counts: &ProcessCounts) -> v1::ProcessReport {
    let TeamMember { rank, is_active, profile, detector, ratio } = *member;
    let processes = counts.ranks_of(Rank::new(rank));
    let model = profile.model();
    let (samples, compute_seconds) = profile.last().unwrap_or_default();
    v1::ProcessReport {
        rank: rank.into(),
        host,
        detached: !is_active,
        degraded: detector.condition() == Condition::Degraded,
        steps_so: detector.steps(),
        steps: profile.steps(),
        alpha: model.map(|model| model.alpha),
        beta: model.map(|model| model.beta),
        samples,
        compute_seconds,
        reduce_seconds: profile.reduce().filter(|_| is_active),
        ratio,
        first_process: processes.start,
        processes: processes.len() as u32,
    }
}

fn candidate(candidate: &Candidate) -> v1::Candidate {
    v1::Candidate {
        members: candidate.members.iter().map(|rank| (*rank).into()).collect(),
        mode: mode(candidate.mode).into(),
        seconds: candidate.seconds,
        eligible: candidate.eligible,
    }
}

fn last_change(change: &LastChange) -> v1::DegradedChange {
    v1::DegradedChange {
        generation: change.generation,
        reason: change.reason.clone(),
        before_seconds: change.expected.before,
        predicted_seconds: change.expected.predicted,
        age_milliseconds: u64::try_from(change.at.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

fn mode(mode: Option<Mode>) -> v1::DegradedMode {
    match mode {
        None => v1::DegradedMode::Unspecified,
        Some(Mode::Detach) => v1::DegradedMode::Detach,
        Some(Mode::Shrink) => v1::DegradedMode::Shrink,
    }
}
