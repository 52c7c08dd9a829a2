//! Decides when a job continues without degraded members, and when it takes them back.

use tributary_planner::Member;
use tributary_planner::degraded::{TeamDecision, Verdict};
use tributary_wire::Rank;

use super::detachment::{Detachment, Expectation, OnDegraded};
use super::job::Job;
use super::participant::ParticipantId;

/// A group of members with which a job should continue.
pub(super) struct Group {
    /// The members, in ascending order of rank.
    pub(super) members: Vec<Member>,
    /// Ranks of the detached processes that become members again.
    pub(super) returning: Vec<Rank>,
    pub(super) detachment: Detachment,
    pub(super) expected: Expectation,
}

/// Returns the group to which a job with the members `present` should change because of degraded
/// processes.
/// Returns `None` if the present group should stay.
pub(super) fn better_group(job: &Job, present: &[Member]) -> Option<Group> {
    let OnDegraded { auto, theta } = job.record.terms.on_degraded;
    if !auto || job.record.terms.rigid {
        return None;
    }
    let decision = job.measured.team().decide(theta);
    if decision.verdict != Verdict::Change {
        return None;
    }
    let best = decision.candidates.get(decision.best?)?;
    let all = job.record.request.workers.iter();
    let members: Vec<Member> = all.filter(|one| best.members.contains(&one.rank)).copied().collect();
    let returning: Vec<Rank> = ranks(members.iter().filter(|one| !present.contains(one)));
    let leaving = ranks(present.iter().filter(|one| !members.contains(one)));
    let still = job.record.generation().detachment.ranks.iter().filter(|rank| !returning.contains(rank));
    let mut out: Vec<Rank> = still.copied().chain(leaving).collect();
    out.sort_unstable();
    let detachment = Detachment { ranks: out, mode: best.mode };
    let can_come = |rank: &Rank| {
        job.participants.get(&ParticipantId::Worker(*rank)).is_some_and(|one| one.waits_to_come_in())
    };
    let expected = Expectation { before: decision.today, predicted: best.seconds };
    returning.iter().all(can_come).then_some(Group { members, returning, detachment, expected })
}

/// Returns the detached ranks that are no longer degraded.
pub(super) fn well_again(job: &Job) -> Vec<Rank> {
    match job.measured.team().decide(job.record.terms.on_degraded.theta).verdict {
        Verdict::Return(ranks) => ranks.into_iter().map(Rank::new).collect(),
        _ => Vec::new(),
    }
}

/// Describes the decision on degraded processes and its reason, as text for users.
/// `name` returns the host of a rank.
pub(crate) fn description(job: &Job, decision: &TeamDecision, name: impl Fn(u16) -> String) -> String {
    let TeamDecision { degraded, all, .. } = decision;
    let names = |ranks: &[u16]| ranks.iter().map(|rank| name(*rank)).collect::<Vec<_>>().join(", ");
    let best = decision.best.and_then(|place| decision.candidates.get(place));
    let seconds = best.map_or(decision.today, |best| best.seconds);
    let today = decision.today;
    let found = match &decision.verdict {
        Verdict::Unmeasured(ranks) => {
            let have = if ranks.len() == 1 { "has" } else { "have" };
            format!("{} {have} not made enough steps to be judged", names(ranks))
        }
        Verdict::AllWell => "nobody who is in is degraded".to_owned(),
        Verdict::NoGain => format!(
            "the best of the groups that keep all who are well takes {seconds:.3} s a step, and the present one {today:.3} s: \
             that is not worth a change"
        ),
        Verdict::Return(ranks) => {
            let come = if ranks.len() == 1 {
                "is well again, and comes back"
            } else {
                "are well again, and come back"
            };
            format!("{} {come}", names(ranks))
        }
        Verdict::Change => format!(
            "{degraded} of {all} are degraded: {}, and go on with {}: {seconds:.3} s a step, where it is {today:.3} s now",
            decision.mode,
            best.map(|best| names(&best.members)).unwrap_or_default(),
        ),
    };
    match held_back(job) {
        Some(reason) if matches!(decision.verdict, Verdict::Change | Verdict::Return(_)) => {
            format!("nothing is done, since {reason}; else: {found}")
        }
        Some(reason) => format!("{found}; nothing would be done, since {reason}"),
        None => found,
    }
}

/// Returns the reason why the job never acts on degraded processes; `None` if it may act.
fn held_back(job: &Job) -> Option<&'static str> {
    if !job.is_alive() {
        Some("the job is over")
    } else if job.record.terms.rigid {
        Some("the job is rigid")
    } else if !job.record.terms.on_degraded.auto {
        Some("the job was created with --degraded off")
    } else if !job.is_elastic() {
        Some("not all of its processes are elastic")
    } else {
        None
    }
}

fn ranks<'a>(members: impl Iterator<Item = &'a Member>) -> Vec<Rank> {
    members.map(|member| Rank::new(member.rank)).collect()
}
