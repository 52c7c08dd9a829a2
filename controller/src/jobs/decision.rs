//! Decides the next step of a job from the state of its members and of the fabric, without side
//! effects.

use std::time::Duration;

use tokio::time::Instant;
use tributary_planner::degraded::Mode;
use tributary_planner::{self as planner, Member};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::Rank;

use super::decision_inputs::{DecisionInputs, STALL_INTERVAL, STUCK_PATIENCE};
use super::degraded_policy::better_group;
use super::detachment::{Detachment, Expectation};
use super::job::{Job, JobState};
use super::membership_view::{MembershipView, can_serve};
use super::participant::ParticipantId;
use super::record::JobRecord;
use crate::liveness::{Doubt, ProvenPaths};

/// Time for which a job waits for members that are alive but cut off, before it continues without them.
const CUT_OFF_PATIENCE: Duration = Duration::from_millis(700);
/// Time for which a job waits instead if it admits no workers after its start.
/// Such a job would lose the members permanently. Most dead switches are rebooted, and most pulled cables are plugged
/// in again.
const LOST_FOR_GOOD_PATIENCE: Duration = Duration::from_secs(10);
/// Time that must pass after the last change of the fabric before a job moves to a better tree while
/// its present tree still works.
const BETTERMENT_PATIENCE: Duration = Duration::from_secs(3);

/// The next step for a job.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Do nothing until an event arrives, or until the given time if there is one.
    Rest(Option<Instant>),
    /// Invite this host to serve the job.
    Invite(String),
    /// Start the job, or change its generation.
    Change(DesiredGeneration),
    /// End the job: its training has finished.
    End,
    /// Fail the job for the given reason.
    Fail(String),
    /// Stop deciding: the job is over.
    Over,
}

/// The generation that a job should change to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DesiredGeneration {
    /// The workers of the generation.
    pub(crate) members: Vec<Member>,
    /// Ranks of the workers that join with this generation.
    pub(crate) joined: Vec<Rank>,
    /// Ranks that are left out because they are unreachable. If such a worker comes back, the decision
    /// changes.
    pub(crate) absent: Vec<Rank>,
    /// Workers that are left out for as long as their processes are degraded.
    pub(crate) detachment: Detachment,
    /// The expected gain, if the change detaches degraded workers or takes them back; `None` otherwise.
    pub(crate) expected: Option<Expectation>,
    /// The host of the server.
    pub(crate) server: NodeKey,
    /// True if the server takes over the slots of a server that stopped.
    pub(crate) takes_over: bool,
    /// The reason for the change, as text for users.
    pub(crate) reason: String,
}

impl DesiredGeneration {
    /// Returns the first generation of a job: all of its workers, and the server of its plan.
    pub(crate) fn first(record: &JobRecord) -> Self {
        Self {
            members: record.request.workers.clone(),
            joined: Vec::new(),
            absent: Vec::new(),
            detachment: Detachment::default(),
            expected: None,
            server: record.generation().plan.server.key,
            takes_over: false,
            reason: "all members have joined".to_owned(),
        }
    }

    /// Returns true if the change only improves the job, so that it can wait for a change in progress.
    pub(crate) fn can_wait(&self) -> bool {
        !self.joined.is_empty() || self.expected.is_some()
    }

    /// Returns true if the members must synchronise. They then stop at the beginning of the same operation.
    pub(crate) fn regroups(&self) -> bool {
        !self.joined.is_empty() || self.expected.is_some()
    }
}

/// Decides the next step of a job.
pub(crate) fn next_step(job: &Job, inputs: &DecisionInputs<'_>) -> Step {
    match job.state() {
        JobState::Queued => in_the_queue(job, inputs),
        JobState::Created => before_start(job, inputs),
        JobState::Installing => while_installing(job, inputs),
        JobState::Running => while_running(job, inputs),
        JobState::Ended | JobState::Failed(_) => Step::Over,
    }
}

/// Waits for slots until the join deadline, and then fails the job.
fn in_the_queue(job: &Job, inputs: &DecisionInputs<'_>) -> Step {
    let patience = job.record.terms.join_deadline;
    match job.since + patience {
        deadline if inputs.now < deadline => Step::Rest(Some(deadline)),
        _ => Step::Fail(format!("it has waited {patience:?} for {}", job.waits)),
    }
}

/// Waits for all members, then starts the job; fails it at the join deadline.
fn before_start(job: &Job, inputs: &DecisionInputs<'_>) -> Step {
    let deadline = job.since + job.record.terms.join_deadline;
    let plan = &job.record.generation().plan;
    let name = &plan.server.name;
    let missing = job.waiting_for();
    let cut_off = || {
        let reachable = planner::reachable(inputs.topology, inputs.fabric, plan.server.key, plan.width);
        let hosts = job.record.request.workers.iter().map(|member| member.host);
        names(inputs.topology, hosts.filter(|host| !reachable.contains(host)))
    };
    if inputs.now >= deadline {
        let what = match missing.is_empty().then(cut_off) {
            None => format!("{} did not join", missing.join(", ")),
            Some(cut_off) if !cut_off.is_empty() => {
                format!("server {name} could not be reached from {cut_off}")
            }
            Some(_) => "its tables could not be written".to_owned(),
        };
        return Step::Fail(format!("{what} within {:?} of its creation", job.record.terms.join_deadline));
    }
    if !job.is_here(&ParticipantId::Server(name.clone())) {
        let is_serving = (inputs.serving)(name);
        let due = job.invitations.due(name, inputs.connected_since(name), inputs.now);
        return match is_serving {
            true if due <= inputs.now => Step::Invite(name.clone()),
            true => Step::Rest(Some(due.min(deadline))),
            false => Step::Rest(Some(deadline)),
        };
    }
    if !missing.is_empty() || !cut_off().is_empty() {
        return Step::Rest(Some(deadline));
    }
    Step::Change(DesiredGeneration::first(&job.record))
}

/// Waits until the job's first tables are written; fails it at the join deadline.
fn while_installing(job: &Job, inputs: &DecisionInputs<'_>) -> Step {
    match job.since + job.record.terms.join_deadline {
        deadline if inputs.now < deadline => Step::Rest(Some(deadline)),
        _ => before_start(job, inputs),
    }
}

fn while_running(job: &Job, inputs: &DecisionInputs<'_>) -> Step {
    let view = MembershipView::of(job, inputs);
    if let Some(reason) = view.loss().filter(|_| job.record.terms.rigid && !job.at_its_end) {
        return Step::Fail(reason);
    }
    if view.members.is_empty() && job.at_its_end {
        return Step::End;
    }
    if view.members.is_empty() {
        return Step::Fail(format!("its last worker is gone: {}", view.loss().unwrap_or_default()));
    }
    let servers = view.servers(job, inputs);
    let request = view.request(job, view.members.clone());
    let Ok(choice) = planner::choose(inputs.topology, view.fabric(inputs), &request, &servers) else {
        let again = [view.earliest_return(), job.invitations.end_of_pause(inputs.now)];
        return Step::Rest(again.into_iter().flatten().min());
    };
    let cut_off = &choice.left_out;
    let broken = view.broken_part(job, inputs, view.doubt);
    if !cut_off.is_empty() {
        if !view.waits_in_vain(inputs) && view.is_only_short_of_mtu(&request, inputs, &servers) {
            // Results show earlier and more reliably than probes that the link works again, or that the job needs no
            // long packets.
            return Step::Rest(Some(inputs.now + STALL_INTERVAL));
        }
        let come_back = view.is_elastic(job) && !job.record.terms.rigid;
        let patience = if come_back { CUT_OFF_PATIENCE } else { LOST_FOR_GOOD_PATIENCE };
        let until = inputs.health.changed() + patience;
        if inputs.now < until {
            return Step::Rest(Some(until));
        }
        if job.record.terms.rigid {
            let names = names(inputs.topology, cut_off.iter().map(|member| member.host));
            return Step::Fail(format!("{names} cannot be reached: {}", broken.unwrap_or_default()));
        }
    }
    let reasons: Vec<String> = view.loss().into_iter().chain(broken).collect();
    if !reasons.is_empty() || !view.server_is_there {
        let stay = |member: &&Member| !cut_off.contains(member);
        return Step::Change(DesiredGeneration {
            members: view.members.iter().filter(stay).copied().collect(),
            joined: Vec::new(),
            absent: view.absent.clone(),
            detachment: view.detachment.clone(),
            expected: None,
            server: choice.server,
            takes_over: !view.is_present_server(choice.server),
            reason: reasons.join("; "),
        });
    }
    match stuck(job, &view, inputs) {
        Some(step) => step,
        None => betterment(job, &view, &servers, inputs),
    }
}

/// Moves a job to new slots if its results have stopped although no part of the fabric is dead.
/// An attacker on the wire may have written data that no member sent into a slot of a switch or of the server. If that
/// data has a future sequence number, the slot rejects the members' slices permanently. Tags prevent members from
/// accepting wrong data. New slots, under a new job id, do not contain such data.
fn stuck(job: &Job, view: &MembershipView<'_>, inputs: &DecisionInputs<'_>) -> Option<Step> {
    let time = inputs.stuck.filter(|time| *time >= STUCK_PATIENCE && !view.is_awaiting())?;
    let until = job.advanced + STUCK_PATIENCE;
    if inputs.now < until {
        return Some(Step::Rest(Some(until)));
    }
    let reason = format!("its members have all waited for {} s without any result", time.as_secs());
    Some(Step::Change(same_members(view, view.server, reason)))
}

/// Admits waiting workers, or moves to a better structure if that is worth a change.
/// The caller has checked that nothing is wrong with the job.
fn betterment(
    job: &Job,
    view: &MembershipView<'_>,
    servers: &[NodeKey],
    inputs: &DecisionInputs<'_>,
) -> Step {
    if job.at_its_end {
        return Step::Rest(view.earliest_return());
    }
    let joining = match view.joiners(job, inputs) {
        joiners if joiners.is_empty() => None,
        joiners => join(job, view, &joiners, servers, inputs),
    };
    let steps = joining.or_else(|| rearrange(job, view, servers, inputs));
    let plan = &job.record.generation().plan;
    let in_doubt = inputs.health.broken_part(plan, Doubt::Dead, &ProvenPaths::default()).is_some();
    let better_tree = || if in_doubt { None } else { better_tree(job, view, inputs) };
    let ripe = match steps.or_else(better_tree) {
        Some(Step::Rest(until)) => until,
        Some(step) => return step,
        None => None,
    };
    // A part in doubt may turn out to be broken. The controller waits for certainty before it improves the structure.
    let doubt = in_doubt.then(|| inputs.now + STALL_INTERVAL);
    Step::Rest([view.earliest_return(), ripe, doubt].into_iter().flatten().min())
}

/// Admits waiting workers, unless the job would lose a present member by that.
fn join(
    job: &Job,
    view: &MembershipView<'_>,
    joiners: &[Member],
    servers: &[NodeKey],
    inputs: &DecisionInputs<'_>,
) -> Option<Step> {
    let mut members = view.members.clone();
    members.extend(joiners);
    members.sort_unstable_by_key(|member| member.rank);
    let request = view.request(job, members.clone());
    let choice = planner::choose(inputs.topology, inputs.fabric, &request, servers).ok()?;
    members.retain(|member| !choice.left_out.contains(member));
    let kept = view.members.iter().all(|one| members.contains(one));
    let came: Vec<_> = joiners.iter().filter(|one| members.contains(one)).collect();
    if !kept || came.is_empty() {
        return None;
    }
    let joined: Vec<Rank> = came.iter().map(|member| Rank::new(member.rank)).collect();
    let still =
        view.detachment.ranks.iter().filter(|rank| !joined.contains(rank)).copied().collect::<Vec<_>>();
    let all = members.len() + still.len();
    Some(Step::Change(DesiredGeneration {
        detachment: Detachment::new(still, all, job.record.terms.on_degraded.theta),
        expected: None,
        joined,
        absent: Vec::new(),
        members,
        server: choice.server,
        takes_over: !view.is_present_server(choice.server),
        reason: format!("{} came in", names(inputs.topology, came.iter().map(|member| member.host))),
    }))
}

/// Changes the set of degraded members that the job leaves out, if that is worth a change.
fn rearrange(
    job: &Job,
    view: &MembershipView<'_>,
    servers: &[NodeKey],
    inputs: &DecisionInputs<'_>,
) -> Option<Step> {
    if !view.is_elastic(job) || view.is_awaiting() {
        return None;
    }
    let group = better_group(job, &view.members)?;
    let request = view.request(job, group.members.clone());
    let choice = planner::choose(inputs.topology, inputs.fabric, &request, servers).ok()?;
    if !choice.left_out.is_empty() {
        return None;
    }
    let out = job.record.request.workers.iter();
    let out = out.filter(|member| group.detachment.ranks.contains(&Rank::new(member.rank)));
    let names = names(inputs.topology, out.map(|member| member.host));
    let what = match group.detachment.mode {
        Some(Mode::Shrink) => "shrink, the others process their data, too",
        Some(Mode::Detach) | None => "detach, nobody processes their data",
    };
    Some(Step::Change(DesiredGeneration {
        members: group.members,
        joined: group.returning,
        absent: Vec::new(),
        detachment: group.detachment,
        expected: Some(group.expected),
        server: choice.server,
        takes_over: !view.is_present_server(choice.server),
        reason: format!("degraded: {names} ({what})"),
    }))
}

/// Moves the job to the server of its request, or to another tree, if that is clearly better.
fn better_tree(job: &Job, view: &MembershipView<'_>, inputs: &DecisionInputs<'_>) -> Option<Step> {
    let wanted = job.record.request.server;
    let plan = &job.record.generation().plan;
    let name = &inputs.topology[wanted].name;
    let server = if can_serve(job, name, inputs) { wanted } else { plan.server.key };
    let request = planner::JobRequest { server, ..view.request(job, view.members.clone()) };
    // The planner must not count the load of the job itself as a reason to avoid the job's present links.
    let new = planner::plan(inputs.topology, &inputs.fabric.without(plan), &request).ok()?;
    if !planner::is_better(&new, plan, inputs.fabric) {
        return None;
    }
    let ripe = inputs.health.changed() + BETTERMENT_PATIENCE;
    if inputs.now < ripe {
        return Some(Step::Rest(Some(ripe)));
    }
    Some(Step::Change(same_members(view, server, "a better tree has appeared".to_owned())))
}

/// Returns a change of structure that keeps all members.
fn same_members(view: &MembershipView<'_>, server: NodeKey, reason: String) -> DesiredGeneration {
    DesiredGeneration {
        members: view.members.clone(),
        joined: Vec::new(),
        absent: Vec::new(),
        detachment: view.detachment.clone(),
        expected: None,
        server,
        takes_over: !view.is_present_server(server),
        reason,
    }
}

fn names(topology: &Topology, hosts: impl Iterator<Item = NodeKey>) -> String {
    hosts.map(|host| topology[host].name.clone()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
