//! The presence of a running job's members: present, expected to come back, gone, or waiting to join.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tributary_planner::{self as planner, FabricState, Member};
use tributary_topology::{NodeKey, Topology};
use tributary_transport::Standstill;
use tributary_wire::Rank;

use super::decision_inputs::{DecisionInputs, STALL_INTERVAL};
use super::degraded_policy::well_again;
use super::detachment::Detachment;
use super::job::{Job, JobState};
use super::participant::{Participant, ParticipantId};
use crate::liveness::{Doubt, ProvenPaths};

/// Time in which a member must reconnect after its stream breaks, while its host's daemon is connected.
const UNREACHABLE_PATIENCE: Duration = Duration::from_millis(400);
/// Time in which a member must reconnect if its host's daemon has lost its connection, too.
/// A host that has only lost its connections reconnects at once, or its probes show that it is alive.
const GONE_PATIENCE: Duration = Duration::from_millis(250);
/// Time that a process waits for a result before silent parts of the fabric count as dead.
/// They then count as dead even if the job loses members because of that. A switch without power is silent, too. The
/// limit is longer than most steps of training.
const SILENCE_PATIENCE: Duration = Duration::from_secs(2);
/// Time that a process waits for a result before members that the controller cannot reach count as
/// gone.
/// They then count as gone even if their hosts are alive.
const UNHEARD_PATIENCE: Duration = Duration::from_secs(5);
/// Time in which a member must change its generation after its notification.
/// After that, it counts as gone if others wait for a result.
const CHANGE_PATIENCE: Duration = Duration::from_secs(1);
/// Time in which members must reconnect if the controller was restarted or their daemon has just
/// reconnected.
/// Members try to reach the controller once a second.
const TAKE_UP_PATIENCE: Duration = Duration::from_secs(8);
/// The limit that replaces [`TAKE_UP_PATIENCE`] while a process waits for a result.
/// The process may be waiting because the missing member has died while no controller was running.
const STALLED_TAKE_UP_PATIENCE: Duration = Duration::from_millis(1800);
/// Time before and after a standstill of the controller within which a broken stream is attributed to
/// it.
/// The member has then as much time to reconnect as after a restart of the controller.
const STANDSTILL_SPREAD: Duration = Duration::from_secs(3);

/// The presence of a running job's participants, and the parts of the fabric on which its structure can
/// rely.
pub(super) struct MembershipView<'a> {
    topology: &'a Topology,
    /// Workers of the present generation that are present or may come back.
    pub(super) members: Vec<Member>,
    /// Names of the present generation's workers that are gone.
    lost: Vec<String>,
    /// Ranks of the workers that are gone because their stream broke. They may still come back.
    pub(super) absent: Vec<Rank>,
    /// Workers that the job leaves out while their processes are degraded.
    pub(super) detachment: Detachment,
    pub(super) server: NodeKey,
    /// True if the present server is connected or may come back.
    pub(super) server_is_there: bool,
    /// The reason that the present server gave for giving up; `None` if it has not given up.
    given_up: Option<String>,
    /// For each disconnected member that may come back, the time until which the job waits for it.
    returns: Vec<Instant>,
    /// Says if silent parts of the fabric count as dead.
    pub(super) doubt: Doubt,
    /// Paths through the present structure on which frames still arrive.
    paths: ProvenPaths,
}

impl<'a> MembershipView<'a> {
    /// Determines the present members and server of a job.
    pub(super) fn of(job: &Job, inputs: &DecisionInputs<'a>) -> Self {
        let all = Self::with(job, inputs, Unheard::May);
        if *job.state() != JobState::Running {
            return Self { doubt: Doubt::Dead, ..all };
        }
        let Some(stalled) = inputs.stalled else { return all };
        // A silent switch that is in the structure could not receive a change of its tables either.
        let has_to_change = |doubt| all.loss().is_some() || all.broken_part(job, inputs, doubt).is_some();
        let goes_round = || has_to_change(Doubt::Dead) && all.has_way_round(job, inputs);
        let doubt = match all.waits_in_vain(inputs) || has_to_change(Doubt::Alive) || goes_round() {
            true => Doubt::Dead,
            false => Doubt::Alive,
        };
        if has_to_change(doubt) {
            Self { doubt, ..Self::with(job, inputs, Unheard::MayNot) }
        } else if stalled >= UNHEARD_PATIENCE {
            Self { doubt, ..Self::with(job, inputs, Unheard::MayIfAsking) }
        } else {
            Self { doubt, ..all }
        }
    }

    /// Describes a part of the job's present structure that is not alive, as text for users; `None` if all
    /// are.
    pub(super) fn broken_part(&self, job: &Job, inputs: &DecisionInputs<'_>, doubt: Doubt) -> Option<String> {
        inputs.health.broken_part(&job.record.generation().plan, doubt, &self.paths)
    }

    /// Returns true if a structure without silent parts could keep all members and the server.
    fn has_way_round(&self, job: &Job, inputs: &DecisionInputs<'a>) -> bool {
        let request = self.request(job, self.members.clone());
        let choice = planner::choose(inputs.topology, inputs.fabric, &request, &[self.server]);
        choice.is_ok_and(|choice| choice.left_out.is_empty())
    }

    /// Returns true if the only problem is that some links lose long packets.
    pub(super) fn is_only_short_of_mtu(
        &self,
        request: &planner::JobRequest,
        inputs: &DecisionInputs<'a>,
        servers: &[NodeKey],
    ) -> bool {
        let whole = FabricState { short_of_mtu: HashMap::new(), ..self.fabric(inputs).clone() };
        let choice = planner::choose(inputs.topology, &whole, request, servers);
        self.loss().is_none() && choice.is_ok_and(|choice| choice.left_out.is_empty())
    }

    /// Returns true if a process has waited for a result for at least [`SILENCE_PATIENCE`].
    pub(super) fn waits_in_vain(&self, inputs: &DecisionInputs<'_>) -> bool {
        inputs.stalled.is_some_and(|stalled| stalled >= SILENCE_PATIENCE)
    }

    /// Returns the fabric by which the job's present structure is judged.
    pub(super) fn fabric(&self, inputs: &DecisionInputs<'a>) -> &'a FabricState {
        match self.doubt {
            Doubt::Alive => inputs.trusting_fabric,
            Doubt::Dead => inputs.fabric,
        }
    }

    fn with(job: &Job, inputs: &DecisionInputs<'a>, unheard: Unheard) -> Self {
        let plan = &job.record.generation().plan;
        let mut view = Self {
            topology: inputs.topology,
            members: Vec::new(),
            lost: Vec::new(),
            absent: Vec::new(),
            detachment: job.record.generation().detachment.clone(),
            server: plan.server.key,
            server_is_there: true,
            given_up: None,
            returns: Vec::new(),
            doubt: Doubt::Alive,
            paths: ProvenPaths::of(plan, inputs.asking),
        };
        for worker in &plan.workers {
            let rank = Rank::new(worker.rank);
            match presence(job, &ParticipantId::Worker(rank), inputs, unheard) {
                Presence::Gone => {
                    view.lost.push(worker.name.clone());
                    let is_absent = |one: &&Participant| one.gone.is_some();
                    view.absent.extend(
                        job.participants.get(&ParticipantId::Worker(rank)).filter(is_absent).map(|_| rank),
                    );
                }
                present => {
                    view.members.push(Member { rank: worker.rank, host: worker.key });
                    view.note(present);
                }
            }
        }
        let server = presence(job, &ParticipantId::Server(plan.server.name.clone()), inputs, unheard);
        view.server_is_there = server != Presence::Gone;
        view.given_up = given_up(job, &plan.server.name, inputs).map(str::to_owned);
        view.note(server);
        view
    }

    fn note(&mut self, presence: Presence) {
        if let Presence::Unreachable(until) = presence {
            self.returns.push(until);
        }
    }

    /// Returns the earliest time until which the job waits for a disconnected member; `None` if it waits
    /// for none.
    pub(super) fn earliest_return(&self) -> Option<Instant> {
        self.returns.iter().min().copied()
    }

    /// Describes the members and the server that are gone, as text for users; `None` if none is.
    pub(super) fn loss(&self) -> Option<String> {
        let why = self.given_up.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let server = (!self.server_is_there)
            .then(|| format!("server {} is gone{why}", self.topology[self.server].name));
        let workers = (!self.lost.is_empty()).then(|| {
            format!("{} {} gone", self.lost.join(", "), if self.lost.len() == 1 { "is" } else { "are" })
        });
        let all: Vec<_> = workers.into_iter().chain(server).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the job's request with `workers` and with the job's present server.
    pub(super) fn request(&self, job: &Job, workers: Vec<Member>) -> planner::JobRequest {
        planner::JobRequest { workers, server: self.server, ..job.record.request.clone() }
    }

    /// Returns true if `host` is the job's present server and is not gone.
    pub(super) fn is_present_server(&self, host: NodeKey) -> bool {
        host == self.server && self.server_is_there
    }

    /// Returns the hosts that could serve, in order of preference.
    /// The order is: the present server, the server in the job's request, other hosts with the role of a server, the
    /// members' hosts.
    pub(super) fn servers(&self, job: &Job, inputs: &DecisionInputs<'a>) -> Vec<NodeKey> {
        let present = self.server_is_there.then_some(self.server);
        let role = inputs.topology.servers();
        let members = self.members.iter().map(|member| member.host);
        let by_rank = present.into_iter().chain([job.record.request.server]).chain(role).chain(members);
        let mut servers: Vec<NodeKey> = Vec::new();
        for host in by_rank {
            let name = &inputs.topology[host].name;
            let able = Some(host) == present || can_serve(job, name, inputs);
            if able && !servers.contains(&host) && !self.fabric(inputs).dead_nodes.contains(&host) {
                servers.push(host);
            }
        }
        servers
    }

    /// Returns true if all members support workers that join and leave.
    pub(super) fn is_elastic(&self, job: &Job) -> bool {
        let elastic = |member: &Member| {
            job.participants
                .get(&ParticipantId::Worker(Rank::new(member.rank)))
                .is_some_and(|participant| participant.elastic)
        };
        self.members.iter().all(elastic)
    }

    /// Returns true if the job waits for a disconnected member.
    pub(super) fn is_awaiting(&self) -> bool {
        !self.returns.is_empty()
    }

    /// Returns the workers that wait to join; empty if the job cannot admit workers now.
    pub(super) fn joiners(&self, job: &Job, inputs: &DecisionInputs<'_>) -> Vec<Member> {
        let all = job.record.request.workers.iter();
        let well_again = well_again(job);
        let waits = |member: &&Member| {
            let rank = Rank::new(member.rank);
            let is_in = self.members.iter().any(|one| one.rank == member.rank);
            let may_come =
                |one: &Participant| one.waits_to_come_in() && (!one.detached || well_again.contains(&rank));
            let comes = job.participants.get(&ParticipantId::Worker(rank)).is_some_and(may_come);
            comes && !is_in && !inputs.fabric.dead_nodes.contains(&member.host)
        };
        match self.is_elastic(job) && !self.is_awaiting() {
            true => all.filter(waits).copied().collect(),
            false => Vec::new(),
        }
    }
}

/// Returns true if a host could be the job's server: it has a daemon or process that could serve, and
/// it is not paused after it gave up.
pub(super) fn can_serve(job: &Job, host: &str, inputs: &DecisionInputs<'_>) -> bool {
    let is_there = (inputs.serving)(host) || job.is_here(&ParticipantId::Server(host.to_owned()));
    is_there && given_up(job, host, inputs).is_none()
}

/// Returns why a host gave up serving, if its pause has not ended yet.
fn given_up<'a>(job: &'a Job, host: &str, inputs: &DecisionInputs<'_>) -> Option<&'a str> {
    let pause = job.invitations.pause(host, inputs.connected_since(host), inputs.now);
    pause.map(|(reason, _)| reason)
}

/// The presence of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Here,
    /// The member may come back until this time.
    Unreachable(Instant),
    Gone,
}

/// Says if members that are alive but cannot reach the controller count as present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unheard {
    May,
    /// Only members that wait for a result and whose requests reach the server count.
    MayIfAsking,
    MayNot,
}

fn presence(job: &Job, id: &ParticipantId, inputs: &DecisionInputs<'_>, unheard: Unheard) -> Presence {
    let Some(participant) = job.participants.get(id).filter(|participant| participant.started) else {
        return Presence::Gone;
    };
    let is_late = |told: Instant| inputs.stalled.is_some() && inputs.now >= told + CHANGE_PATIENCE;
    let is_left_behind = participant.behind.is_some_and(is_late);
    let Some(gone) = participant.gone else {
        return if is_left_behind { Presence::Gone } else { Presence::Here };
    };
    let signs = (inputs.life_signs)(id, &participant.host);
    let lives = match unheard {
        Unheard::May => signs.lives_unheard(gone, inputs.now),
        Unheard::MayIfAsking => matches!(id, ParticipantId::Worker(rank) if inputs.asking.contains(rank)),
        Unheard::MayNot => false,
    };
    if lives && !is_left_behind {
        return Presence::Unreachable(inputs.now + STALL_INTERVAL);
    }
    let by_standstill =
        |one: &Standstill| gone + STANDSTILL_SPREAD >= one.from && gone <= one.to + STANDSTILL_SPREAD;
    let standstill = inputs.standstill.filter(by_standstill);
    let came_back = signs.connected_since.filter(|since| *since > gone);
    if participant.session == 0 || standstill.is_some() || came_back.is_some() {
        let since = [Some(gone), standstill.map(|one| one.to), came_back].into_iter().flatten().max();
        return taken_up(since.unwrap_or(gone), job.record.terms.rigid, inputs.stalled.is_some(), inputs.now);
    }
    let patience = if signs.connected_since.is_some() { UNREACHABLE_PATIENCE } else { GONE_PATIENCE };
    let until = gone + patience;
    if inputs.now < until { Presence::Unreachable(until) } else { Presence::Gone }
}

/// Returns the presence of a member that must reconnect and has not done so since `since`.
/// At `since`, the restarted controller read the job from disk, a standstill of the controller ended, or the host's
/// daemon reconnected. In a rigid job, the member always has the full time, because losing it would end the job.
fn taken_up(since: Instant, is_rigid: bool, is_stalled: bool, now: Instant) -> Presence {
    let (soonest, latest) = (since + STALLED_TAKE_UP_PATIENCE, since + TAKE_UP_PATIENCE);
    if now >= latest {
        Presence::Gone
    } else if is_rigid {
        Presence::Unreachable(latest)
    } else if now < soonest {
        Presence::Unreachable(soonest)
    } else if is_stalled {
        Presence::Gone
    } else {
        Presence::Unreachable(latest.min(now + STALL_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_not_come_to_a_new_controller_is_given_up_soon_where_others_wait() {
        let since = Instant::now();
        let at = |seconds| since + Duration::from_secs_f64(seconds);
        let presence = |is_rigid, is_stalled, seconds| taken_up(since, is_rigid, is_stalled, at(seconds));
        assert_eq!(presence(false, true, 1.0), Presence::Unreachable(at(1.8)));
        assert_eq!(presence(false, true, 2.0), Presence::Gone);
        assert_eq!(presence(false, false, 2.0), Presence::Unreachable(at(2.2)), "it is looked again soon");
        assert_eq!(presence(false, false, 7.9), Presence::Unreachable(at(8.0)));
        assert_eq!(presence(false, false, 8.0), Presence::Gone);
        assert_eq!(
            presence(true, true, 2.0),
            Presence::Unreachable(at(8.0)),
            "a rigid job would be lost with it"
        );
        assert_eq!(presence(true, true, 8.0), Presence::Gone);
    }
}
