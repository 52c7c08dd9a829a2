//! What the API says: about jobs here, about the rest in the modules below.

mod counters;
mod hosts;
mod network;
mod switches;

use std::time::Duration;

use tributary_api::v1;
use tributary_planner::{Member, Plan};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::Rank;

use crate::clock;
use crate::fallback::{Cause, Fallback};
use crate::jobs::{Job, Place, State};
use crate::liveness;
use crate::manager::Manager;
use crate::progress::{Progress, Told};
use crate::state::ControllerState;
pub(crate) use counters::all_counters;
pub(crate) use hosts::hosts;
pub(crate) use network::{links, tree};
pub(crate) use switches::{comparisons, switches};

/// A wait for a result that is worth reporting: recovering a lost slice takes a fraction of it.
const LONG_WAIT: Duration = Duration::from_secs(2);

/// The controller itself.
pub(crate) fn controller(manager: &Manager) -> v1::GetControllerResponse {
    v1::GetControllerResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        topology: manager.topology().name().to_owned(),
        clock_unix_milliseconds: clock::unix_milliseconds(),
        runs_milliseconds: milliseconds(manager.since.elapsed()),
        journal_problem: manager.journal.problem().map(|problem| problem.to_string()).unwrap_or_default(),
    }
}

/// A summary of the plan.
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

/// A job and its state.
pub(crate) fn job(topology: &Topology, state: &ControllerState, job: &Job) -> v1::Job {
    let progress = &state.progress;
    let (job_state, reason) = match job.state() {
        State::Queued => (v1::JobState::Queued, ""),
        State::Created => (v1::JobState::Created, ""),
        State::Installing => (v1::JobState::Installing, ""),
        State::Running => (v1::JobState::Running, ""),
        State::Ended => (v1::JobState::Ended, ""),
        State::Failed(reason) => (v1::JobState::Failed, reason.as_str()),
    };
    v1::Job {
        name: job.record.name.clone(),
        state: job_state.into(),
        job_id: job.record.generation().job.get().into(),
        job_index: job.record.job_index.into(),
        reason: reason.to_owned(),
        waiting_for: waiting_for(topology, state, job),
        plan: Some(plan_summary(&job.record.generation().plan)),
        generation: job.record.current,
        last_change: job.record.last_change.clone(),
        fallbacks: job.record.generation().fallbacks.iter().map(fallback).collect(),
        setback: job.setback.clone(),
        creator: job.record.creator.clone(),
        age_milliseconds: milliseconds(job.since.elapsed()),
        members: if job.is_alive() { members(topology, job, progress) } else { Vec::new() },
    }
}

/// What a job waits for: slots, members, a way through the fabric when all have joined, results.
fn waiting_for(topology: &Topology, state: &ControllerState, job: &Job) -> Vec<String> {
    let slots = (*job.state() == State::Queued).then(|| job.waits.clone());
    let members = job.waiting_for();
    let lacks_way = *job.state() == State::Created && members.is_empty();
    let losses = state.health.losses(topology).filter(|_| lacks_way);
    let way = losses.map(|losses| format!("a way through the fabric (dead: {losses})"));
    slots.into_iter().chain(members).chain(way).chain(stalled(job, &state.progress)).collect()
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

/// Who takes part, and what is known of each: all workers of the job by rank, including those it has gone on without,
/// then the server.
fn members(topology: &Topology, job: &Job, progress: &Progress) -> Vec<v1::JobMember> {
    let generation = job.record.generation();
    let plan = &generation.plan;
    let name = &job.record.name;
    let worker = |member: &Member| {
        let (host, rank) = (&topology[member.host].name, Rank::new(member.rank));
        let told = progress.of(name).find(|(one, _)| one == host).filter(|_| generation.has(rank));
        v1::JobMember {
            host: host.clone(),
            role: v1::MemberRole::Worker.into(),
            joined: job.is_here(&Place::Worker(rank)),
            progress: told.map(|(_, told)| told_of(name, told)),
        }
    };
    let server = v1::JobMember {
        host: plan.server.name.clone(),
        role: v1::MemberRole::Server.into(),
        joined: job.is_here(&Place::Server(plan.server.name.clone())),
        progress: None,
    };
    job.record.request.workers.iter().map(worker).chain([server]).collect()
}

fn told_of(job: &str, told: Told) -> v1::JobProgress {
    v1::JobProgress {
        job: job.to_owned(),
        operations: told.operations,
        step_nanoseconds: u64::try_from(told.step.as_nanos()).unwrap_or(u64::MAX),
        stalled_milliseconds: milliseconds(told.waits),
        // ExplainJob reports its steps.
        ..v1::JobProgress::default()
    }
}

/// The processes that have waited long for a result.
fn stalled<'a>(job: &'a Job, progress: &'a Progress) -> impl Iterator<Item = String> + 'a {
    let lives = job.is_alive();
    let long = progress.of(&job.record.name).filter(move |(_, told)| lives && told.waits >= LONG_WAIT);
    long.map(|(host, told)| format!("a result, at {host} for {} s", told.waits.as_secs()))
}

/// What is wrong with cables, by the node where it shows.
struct CableFaults(Vec<(NodeKey, v1::CableFault)>);

impl CableFaults {
    fn of(manager: &Manager) -> Self {
        let (state, topology) = (manager.state(), &manager.topology());
        let fault = |kind: v1::CableFaultKind, description| v1::CableFault { kind: kind.into(), description };
        let miswired = state.cabling.miswired().map(|one| {
            let description = liveness::miswiring(topology, &one);
            (one.at.0, fault(v1::CableFaultKind::Miswired, description))
        });
        let dead = state.cabling.dead().flat_map(|link| {
            let description = format!("no frames get through {}", liveness::cable(topology, link));
            topology[link].ends.map(|end| (end.node, fault(v1::CableFaultKind::Dead, description.clone())))
        });
        Self(miswired.chain(dead).collect())
    }

    fn at(&self, node: NodeKey) -> Vec<v1::CableFault> {
        self.0.iter().filter(|(at, _)| *at == node).map(|(_, fault)| fault.clone()).collect()
    }
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}
