//! Who of a running job is there, may come back, or waits to come in.

use std::time::Duration;

use tokio::time::Instant;
use tributary_planner::{self as planner, FabricState, Member};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::Rank;

use super::attendee::{Attendee, Place};
use super::detachment::{Detachment, well_again};
use super::job::{Job, State};
use super::surroundings::{STALL_INTERVAL, Surroundings};
use crate::liveness::{Doubt, Standstill, Ways};

/// A member whose stream breaks has this long to come back, while its host's daemon is there.
const AWAY_PATIENCE: Duration = Duration::from_millis(400);
/// The same where its host's daemon is gone, too: one that has only lost its connections comes back at once, or its probes
/// show that it lives.
const GONE_PATIENCE: Duration = Duration::from_millis(250);
/// What of the fabric is only silent is taken for dead when a process has waited for a result for so long, even if that costs
/// members: a switch without power is silent, too, and steps of training are mostly shorter.
const SILENCE_PATIENCE: Duration = Duration::from_secs(2);
/// The same for members that the controller cannot hear, and whose hosts live: that one of them has died as well would be a
/// rare accident.
const UNHEARD_PATIENCE: Duration = Duration::from_secs(5);
/// Who was told of a change so long ago and has not changed over is not there, if others wait for a result.
const CHANGE_PATIENCE: Duration = Duration::from_secs(1);
/// The members of a job that a controller has found on its disk have this long to come back, and those whose host's daemon
/// has: they look for the controller once a second.
const TAKE_UP_PATIENCE: Duration = Duration::from_secs(8);
/// The same while others wait for a result without getting any: whoever is missing may have died while there was no
/// controller to see it.
const STALLED_TAKE_UP_PATIENCE: Duration = Duration::from_millis(1800);
/// Whose stream breaks during a standstill of the controller, or so long before or after it, has given it up because of
/// that, and comes back like one that has lost its controller.
const STANDSTILL_SPREAD: Duration = Duration::from_secs(3);

/// Who of a running job is there.
pub(super) struct Crew<'a> {
    topology: &'a Topology,
    /// Workers of the present generation that are there, or may come back.
    pub(super) members: Vec<Member>,
    /// Its workers that are gone, by name.
    lost: Vec<String>,
    /// Those of them whose stream is broken: they are not gone any more when they come back.
    pub(super) absent: Vec<Rank>,
    /// Workers that the job goes on without as long as they are degraded.
    pub(super) detachment: Detachment,
    pub(super) server: NodeKey,
    /// The present server is there, or may come back.
    pub(super) server_is_there: bool,
    /// Why it has given up serving, if it has said so.
    given_up: Option<String>,
    /// Until when those that are away may come back.
    returns: Vec<Instant>,
    /// What that is taken for which is only silent.
    pub(super) doubt: Doubt,
    /// Ways through the present structure by which frames come.
    ways: Ways,
}

impl<'a> Crew<'a> {
    /// Finds out who of a job is there now.
    pub(super) fn of(job: &Job, around: &Surroundings<'a>) -> Self {
        let all = Self::with(job, around, Unheard::May);
        if *job.state() != State::Running {
            return Self { doubt: Doubt::Dead, ..all };
        }
        let Some(stalled) = around.stalled else { return all };
        // What is silent cannot be told of a change either.
        let has_to_change = |doubt| all.loss().is_some() || all.broken_part(job, around, doubt).is_some();
        let goes_round = || has_to_change(Doubt::Dead) && all.has_way_round(job, around);
        let doubt = match stalled >= SILENCE_PATIENCE || has_to_change(Doubt::Alive) || goes_round() {
            true => Doubt::Dead,
            false => Doubt::Alive,
        };
        if has_to_change(doubt) {
            Self { doubt, ..Self::with(job, around, Unheard::MayNot) }
        } else if stalled >= UNHEARD_PATIENCE {
            Self { doubt, ..Self::with(job, around, Unheard::MayIfAsking) }
        } else {
            Self { doubt, ..all }
        }
    }

    /// What the job's present structure uses that is not alive, in words for people.
    pub(super) fn broken_part(&self, job: &Job, around: &Surroundings<'_>, doubt: Doubt) -> Option<String> {
        around.health.broken_part(&job.record.generation().plan, doubt, &self.ways)
    }

    /// Whether all members can go on with the same server, without what is silent.
    fn has_way_round(&self, job: &Job, around: &Surroundings<'a>) -> bool {
        let request = self.request(job, self.members.clone());
        let choice = planner::choose(around.topology, around.fabric, &request, &[self.server]);
        choice.is_ok_and(|choice| choice.left_out.is_empty())
    }

    /// The fabric as the job's present structure is judged by it.
    pub(super) fn fabric(&self, around: &Surroundings<'a>) -> &'a FabricState {
        match self.doubt {
            Doubt::Alive => around.trusting_fabric,
            Doubt::Dead => around.fabric,
        }
    }

    fn with(job: &Job, around: &Surroundings<'a>, unheard: Unheard) -> Self {
        let plan = &job.record.generation().plan;
        let mut crew = Self {
            topology: around.topology,
            members: Vec::new(),
            lost: Vec::new(),
            absent: Vec::new(),
            detachment: job.record.generation().detachment.clone(),
            server: plan.server.key,
            server_is_there: true,
            given_up: None,
            returns: Vec::new(),
            doubt: Doubt::Alive,
            ways: Ways::of(plan, around.asking),
        };
        for worker in &plan.workers {
            let rank = Rank::new(worker.rank);
            match presence(job, &Place::Worker(rank), around, unheard) {
                Presence::Gone => {
                    crew.lost.push(worker.name.clone());
                    let is_absent = |one: &&Attendee| one.gone.is_some();
                    crew.absent.extend(job.attendee(&Place::Worker(rank)).filter(is_absent).map(|_| rank));
                }
                present => {
                    crew.members.push(Member { rank: worker.rank, host: worker.key });
                    crew.note(present);
                }
            }
        }
        let server = presence(job, &Place::Server(plan.server.name.clone()), around, unheard);
        crew.server_is_there = server != Presence::Gone;
        crew.given_up = given_up(job, &plan.server.name, around).map(str::to_owned);
        crew.note(server);
        crew
    }

    fn note(&mut self, presence: Presence) {
        if let Presence::Away(until) = presence {
            self.returns.push(until);
        }
    }

    /// Until when the first of those that are away may come back.
    pub(super) fn earliest_return(&self) -> Option<Instant> {
        self.returns.iter().min().copied()
    }

    /// Who is gone, in words.
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

    /// What the job is to be with these workers, served as it is now.
    pub(super) fn request(&self, job: &Job, workers: Vec<Member>) -> planner::JobRequest {
        planner::JobRequest { workers, server: self.server, ..job.record.request.clone() }
    }

    /// Whether the job keeps its server when that host serves it.
    pub(super) fn is_present_server(&self, host: NodeKey) -> bool {
        host == self.server && self.server_is_there
    }

    /// Hosts that could serve, the one to be preferred first: the present server, the one that the job was created
    /// with, other hosts with that role, the members' own.
    pub(super) fn servers(&self, job: &Job, around: &Surroundings<'a>) -> Vec<NodeKey> {
        let present = self.server_is_there.then_some(self.server);
        let role = around.topology.servers();
        let members = self.members.iter().map(|member| member.host);
        let by_rank = present.into_iter().chain([job.record.request.server]).chain(role).chain(members);
        let mut servers: Vec<NodeKey> = Vec::new();
        for host in by_rank {
            let name = &around.topology[host].name;
            let able = Some(host) == present || can_serve(job, name, around);
            if able && !servers.contains(&host) && !self.fabric(around).dead_nodes.contains(&host) {
                servers.push(host);
            }
        }
        servers
    }

    /// Whether all members cope with others that come and go.
    pub(super) fn is_elastic(&self, job: &Job) -> bool {
        let elastic = |member: &Member| {
            job.attendee(&Place::Worker(Rank::new(member.rank))).is_some_and(|attendee| attendee.elastic)
        };
        self.members.iter().all(elastic)
    }

    /// Whether somebody is away who may come back.
    pub(super) fn is_awaiting(&self) -> bool {
        !self.returns.is_empty()
    }

    /// Workers that wait to come in, if the job lets them.
    pub(super) fn joiners(&self, job: &Job, around: &Surroundings<'_>) -> Vec<Member> {
        let all = job.record.request.workers.iter();
        let well_again = well_again(job);
        let waits = |member: &&Member| {
            let rank = Rank::new(member.rank);
            let is_in = self.members.iter().any(|one| one.rank == member.rank);
            let may_come =
                |one: &Attendee| one.waits_to_come_in() && (!one.detached || well_again.contains(&rank));
            let comes = job.attendee(&Place::Worker(rank)).is_some_and(may_come);
            comes && !is_in && !around.fabric.dead_nodes.contains(&member.host)
        };
        match self.is_elastic(job) && !self.is_awaiting() {
            true => all.filter(waits).copied().collect(),
            false => Vec::new(),
        }
    }
}

/// Whether a host could be a job's server: it is there, and has not just given that up.
pub(super) fn can_serve(job: &Job, host: &str, around: &Surroundings<'_>) -> bool {
    let is_there = (around.serving)(host) || job.is_here(&Place::Server(host.to_owned()));
    is_there && given_up(job, host, around).is_none()
}

/// Why a host has given up to be a job's server, if it is left alone for that.
fn given_up<'a>(job: &'a Job, host: &str, around: &Surroundings<'_>) -> Option<&'a str> {
    let pause = job.invitations.pause(host, around.attends_since(host), around.now);
    pause.map(|(reason, _)| reason)
}

/// Whether somebody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Here,
    /// It may come back until then.
    Away(Instant),
    Gone,
}

/// Whether members may stay that live, and whom the controller cannot hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unheard {
    May,
    /// Only those that wait for a result, and whom the server hears.
    MayIfAsking,
    MayNot,
}

fn presence(job: &Job, place: &Place, around: &Surroundings<'_>, unheard: Unheard) -> Presence {
    let Some(attendee) = job.attendee(place).filter(|attendee| attendee.started) else {
        return Presence::Gone;
    };
    let is_late = |told: Instant| around.stalled.is_some() && around.now >= told + CHANGE_PATIENCE;
    let is_left_behind = attendee.behind.is_some_and(is_late);
    let Some(gone) = attendee.gone else {
        return if is_left_behind { Presence::Gone } else { Presence::Here };
    };
    let signs = (around.signs)(place, &attendee.host);
    let lives = match unheard {
        Unheard::May => signs.lives_unheard(gone, around.now),
        Unheard::MayIfAsking => matches!(place, Place::Worker(rank) if around.asking.contains(rank)),
        Unheard::MayNot => false,
    };
    if lives && !is_left_behind {
        return Presence::Away(around.now + STALL_INTERVAL);
    }
    let by_standstill =
        |one: &Standstill| gone + STANDSTILL_SPREAD >= one.from && gone <= one.to + STANDSTILL_SPREAD;
    let standstill = around.standstill.filter(by_standstill);
    let came_back = signs.attends_since.filter(|since| *since > gone);
    if attendee.session == 0 || standstill.is_some() || came_back.is_some() {
        let since = [Some(gone), standstill.map(|one| one.to), came_back].into_iter().flatten().max();
        return taken_up(since.unwrap_or(gone), job.record.terms.rigid, around.stalled.is_some(), around.now);
    }
    let patience = if signs.attends_since.is_some() { AWAY_PATIENCE } else { GONE_PATIENCE };
    let until = gone + patience;
    if around.now < until { Presence::Away(until) } else { Presence::Gone }
}

/// Whether somebody is there who has not come back to this controller yet, which found the job on its disk, was at work
/// again, or heard of his host's daemon again, at `since`. A rigid job would be lost with him: it has all the time.
fn taken_up(since: Instant, is_rigid: bool, is_stalled: bool, now: Instant) -> Presence {
    let (soonest, latest) = (since + STALLED_TAKE_UP_PATIENCE, since + TAKE_UP_PATIENCE);
    if now >= latest {
        Presence::Gone
    } else if is_rigid {
        Presence::Away(latest)
    } else if now < soonest {
        Presence::Away(soonest)
    } else if is_stalled {
        Presence::Gone
    } else {
        Presence::Away(latest.min(now + STALL_INTERVAL))
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
        assert_eq!(presence(false, true, 1.0), Presence::Away(at(1.8)));
        assert_eq!(presence(false, true, 2.0), Presence::Gone);
        assert_eq!(presence(false, false, 2.0), Presence::Away(at(2.2)), "it is looked again soon");
        assert_eq!(presence(false, false, 7.9), Presence::Away(at(8.0)));
        assert_eq!(presence(false, false, 8.0), Presence::Gone);
        assert_eq!(presence(true, true, 2.0), Presence::Away(at(8.0)), "a rigid job would be lost with it");
        assert_eq!(presence(true, true, 8.0), Presence::Gone);
    }
}
