//! Builds the API's answers. Answers about jobs are built here, all others in the submodules.

mod cable_faults;
mod counters;
mod hosts;
mod network;
mod switches;

use std::time::Duration;

use tributary_api::v1;
use tributary_planner::{Member, Plan};
use tributary_topology::Topology;
use tributary_wire::Rank;

use crate::clock::{self, milliseconds};
use crate::fallback::{Cause, Fallback};
use crate::jobs::{Job, JobKey, JobState, ParticipantId, ProcessReport};
use crate::liveness::{Doubt, ProvenPaths};
use crate::manager::Manager;
use crate::state::ControllerState;
pub(crate) use counters::all_counters;
pub(crate) use hosts::hosts;
pub(crate) use network::{links, tree};
pub(crate) use switches::{comparisons, switches};

/// The shortest wait for a result that is reported. Recovering a lost slice takes a fraction of it.
const LONG_WAIT: Duration = Duration::from_secs(2);

/// Returns the state of the controller itself.
pub(crate) fn controller(manager: &Manager) -> v1::GetControllerResponse {
    v1::GetControllerResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        topology: manager.topology().name().to_owned(),
        clock_unix_milliseconds: clock::unix_milliseconds(),
        runs_milliseconds: milliseconds(manager.since.elapsed()),
        journal_problem: manager.journal.problem().map(|problem| problem.to_string()).unwrap_or_default(),
    }
}

/// Returns a summary of the plan.
pub(crate) fn plan_summary(plan: &Plan) -> v1::PlanSummary {
    let switch = |role: &tributary_planner::SwitchRole| v1::TreeSwitch {
        name: role.name.clone(),
        node: role.node.get().into(),
        aggregates: role.aggregate,
        fan_in: role.fan_in.into(),
    };
    v1::PlanSummary {
        switches: plan.switches.iter().map(switch).collect(),
        server_fan_in: plan.server.fan_in.into(),
        window: plan.window,
        workers: plan.workers.iter().map(|worker| worker.name.clone()).collect(),
        server: plan.server.name.clone(),
        notes: plan.notes.clone(),
        speedup_over_ring: plan.comparison.speedup_over_ring,
        speedup_over_parameter_server: plan.comparison.speedup_over_parameter_server,
    }
}

/// Returns a job and its state.
pub(crate) fn job(topology: &Topology, state: &ControllerState, (key, job): (JobKey, &Job)) -> v1::Job {
    let (job_state, reason) = match job.state() {
        JobState::Queued => (v1::JobState::Queued, ""),
        JobState::Created => (v1::JobState::Created, ""),
        JobState::Installing => (v1::JobState::Installing, ""),
        JobState::Running => (v1::JobState::Running, ""),
        JobState::Ended => (v1::JobState::Ended, ""),
        JobState::Failed(reason) => (v1::JobState::Failed, reason.as_str()),
    };
    let parent = job.record.group.as_ref().and_then(|group| state.jobs.get(group.parent));
    v1::Job {
        name: job.record.name.clone(),
        number: key,
        state: job_state.into(),
        job_id: job.record.generation().job.get().into(),
        job_index: job.record.job_index.into(),
        reason: reason.to_owned(),
        waiting_for: waiting_for(topology, state, job),
        plan: Some(plan_summary(&job.record.generation().plan)),
        generation: job.record.current,
        threads: job.record.terms.threads,
        last_change: job.record.last_change.clone(),
        fallbacks: job.record.generation().fallbacks.iter().map(fallback).collect(),
        setback: job.setback.clone(),
        creator: job.record.creator.clone(),
        group_of: parent.map(|parent| parent.record.name.clone()).unwrap_or_default(),
        age_milliseconds: milliseconds(job.since.elapsed()),
        members: if job.is_alive() { members(topology, job) } else { Vec::new() },
    }
}

/// Lists what a job waits for: slots, members, results, or a path if all members have joined.
fn waiting_for(topology: &Topology, state: &ControllerState, job: &Job) -> Vec<String> {
    let slots = (*job.state() == JobState::Queued).then(|| job.waits.clone());
    let members = job.waiting_for();
    let lacks_way = *job.state() == JobState::Created && members.is_empty();
    let losses = state.health.losses(topology).filter(|_| lacks_way);
    let way = losses.map(|losses| format!("a way through the fabric (dead: {losses})"));
    slots.into_iter().chain(members).chain(way).chain(stalled(job, state)).collect()
}

fn fallback(fallback: &Fallback) -> v1::Fallback {
    let cause = match fallback.cause {
        Cause::AskedFor => v1::FallbackCause::AskedFor,
        Cause::Plain => v1::FallbackCause::PlainSwitch,
        Cause::Slots { .. } => v1::FallbackCause::NoSlots,
        Cause::Children => v1::FallbackCause::TooManyChildren,
    };
    v1::Fallback { cause: cause.into(), switch: fallback.switch.clone(), description: fallback.to_string() }
}

/// Returns the participants of a job with their progress.
///
/// All workers come first, by rank. They include workers that are no longer in the job. The server comes last.
fn members(topology: &Topology, job: &Job) -> Vec<v1::JobMember> {
    let generation = job.record.generation();
    let plan = &generation.plan;
    let name = &job.record.name;
    let worker = |member: &Member| {
        let (host, rank) = (&topology[member.host].name, Rank::new(member.rank));
        let report = job.process_report(rank).filter(|_| generation.has(rank));
        v1::JobMember {
            host: host.clone(),
            role: v1::MemberRole::Worker.into(),
            joined: job.is_here(&ParticipantId::Worker(rank)),
            progress: report.map(|report| progress_of(name, report)),
            processes: u16::from(job.record.processes_of(rank)).into(),
        }
    };
    let server = v1::JobMember {
        host: plan.server.name.clone(),
        role: v1::MemberRole::Server.into(),
        joined: job.is_here(&ParticipantId::Server(plan.server.name.clone())),
        progress: None,
        processes: 0,
    };
    job.record.request.workers.iter().map(worker).chain([server]).collect()
}

fn progress_of(job: &str, report: ProcessReport) -> v1::JobProgress {
    v1::JobProgress {
        job: job.to_owned(),
        operations: report.operations,
        step_nanoseconds: u64::try_from(report.step.as_nanos()).unwrap_or(u64::MAX),
        stalled_milliseconds: milliseconds(report.waits),
        // ExplainJob reports its steps.
        ..v1::JobProgress::default()
    }
}

/// Describes why a job is stalled, if some of its processes have waited for a result for `LONG_WAIT`.
///
/// The description names the processes that have not yet begun the all-reduce for which the others wait. If all have
/// begun it, the description names the part of the job's tree that may be the cause.
fn stalled(job: &Job, state: &ControllerState) -> Option<String> {
    let plan = &job.record.generation().plan;
    let workers = plan.workers.iter();
    let reports =
        workers.filter_map(|one| Some((one.name.as_str(), job.process_report(Rank::new(one.rank))?)));
    let (waiting, others): (Vec<_>, Vec<_>) = reports.partition(|(_, report)| report.waits >= LONG_WAIT);
    let longest = waiting.iter().map(|(_, report)| report.waits.as_secs()).max()?;
    let names = |hosts: Vec<(&str, ProcessReport)>| {
        hosts.into_iter().map(|(host, _)| host).collect::<Vec<_>>().join(", ")
    };
    let late = names(others.into_iter().filter(|(_, report)| report.waits.is_zero()).collect());
    let what = if late.is_empty() { "a result".to_owned() } else { format!("{late} to begin an all-reduce") };
    let broken = state.health.broken_part(plan, Doubt::Dead, &ProvenPaths::default());
    let why = broken.map(|broken| format!(": {broken}")).unwrap_or_default();
    Some(format!("{what} (awaited by {} for up to {longest} s){why}", names(waiting)))
}
