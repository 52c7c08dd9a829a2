//! The reductions of a job: their members, and their unfinished rounds. Without I/O and clock.

use std::collections::{BTreeMap, BTreeSet};

use tributary_api::ps::server_message::Message;
use tributary_api::ps::{Contribute, JoinGroup, LeaveGroup};

use super::group_fabric::Sum;
use super::output::{Output, Outputs};
use crate::policy::Worker;

/// The fewest gradients for which a reduction is worthwhile. A single gradient would only be added to
/// zeros.
pub(super) const FEWEST: usize = 2;

/// A job's reductions: at most one for the policy's present group, and older ones whose last rounds are
/// still in progress. Reductions share no state.
#[derive(Debug, Default)]
pub(super) struct GroupReductions {
    /// The hosts of the workers that can take part in reductions.
    hosts: BTreeMap<Worker, String>,
    reductions: BTreeMap<u64, GroupReduction>,
    /// The present group's reduction.
    current: Option<u64>,
    /// The number of the last reduction.
    last: u64,
    /// The members of the last reduction that failed, and the slowest worker's epoch at that time.
    ///
    /// The members continue without a reduction until the next epoch, when the policy ranks again.
    failed: Option<(BTreeSet<Worker>, u64)>,
}

#[derive(Debug)]
struct GroupReduction {
    members: BTreeSet<Worker>,
    stage: Stage,
    next_round: u64,
    /// The weight that was granted in each round whose sum has not arrived yet.
    rounds: BTreeMap<u64, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Joining,
    Live,
    /// The reduction ends after its last round.
    Closing,
}

impl GroupReductions {
    /// Adds a worker. `host` is its host if the host can take part in reductions.
    pub(super) fn join(&mut self, worker: Worker, host: Option<String>) {
        self.hosts.remove(&worker);
        self.hosts.extend(host.map(|host| (worker, host)));
    }

    /// Removes a worker. Returns the numbers of its reductions; they cannot continue.
    pub(super) fn leave(&mut self, worker: Worker) -> Vec<u64> {
        self.hosts.remove(&worker);
        let its = self.reductions.iter().filter(|(_, reduction)| reduction.members.contains(&worker));
        its.map(|(group, _)| *group).collect()
    }

    /// Returns the workers of the policy's group that can share a reduction. Only one worker of each host
    /// is among them, because a host takes part in a fabric job only once.
    fn able(&self, group: &BTreeSet<Worker>) -> BTreeSet<Worker> {
        let mut taken = BTreeSet::new();
        let able = |worker: &&Worker| self.hosts.get(worker).is_some_and(|host| taken.insert(host));
        group.iter().filter(able).copied().collect()
    }

    /// Adapts the reduction to the policy's group if the group has changed.
    pub(super) fn follow(&mut self, group: &BTreeSet<Worker>, epoch: u64, out: &mut Outputs) {
        let members = self.able(group);
        let present = self.current.and_then(|current| self.reductions.get(&current));
        if present.is_some_and(|present| present.members == members) {
            return;
        }
        if let Some(old) = self.current.take() {
            self.retire(old, out);
        }
        let again = self.failed.as_ref().is_some_and(|(who, when)| *who == members && *when == epoch);
        if members.len() < FEWEST || again {
            return;
        }
        self.last += 1;
        let hosts = members.iter().filter_map(|worker| self.hosts.get(worker).cloned()).collect();
        out.push(Output::Open { group: self.last, hosts });
        let (rounds, stage) = (BTreeMap::new(), Stage::Opening);
        self.reductions.insert(self.last, GroupReduction { members, stage, next_round: 0, rounds });
        self.current = Some(self.last);
    }

    /// Requests the members to take part in the fabric job of a reduction.
    pub(super) fn opened(&mut self, group: u64, job: &str, token: &[u8], out: &mut Outputs) {
        let Some(reduction) = self.reductions.get_mut(&group) else { return };
        if reduction.stage == Stage::Opening {
            reduction.stage = Stage::Joining;
            let join = JoinGroup { group, job: job.to_owned(), token: token.to_vec() };
            let ask = |&worker| Output::Send(worker, Message::JoinGroup(join.clone()));
            out.extend(reduction.members.iter().map(ask));
        }
    }

    /// Marks a reduction as ready for rounds, because all members take part.
    pub(super) fn live(&mut self, group: u64) {
        let reduction = self.reductions.get_mut(&group);
        if let Some(reduction) = reduction.filter(|reduction| reduction.stage == Stage::Joining) {
            reduction.stage = Stage::Live;
        }
    }

    /// Returns the live reduction to which a worker's next gradient may go. `group` is the policy's present
    /// group.
    pub(super) fn of(&self, worker: Worker, group: &BTreeSet<Worker>) -> Option<u64> {
        let current = self.current?;
        let reduction = self.reductions.get(&current)?;
        let fits = reduction.stage == Stage::Live && reduction.members.contains(&worker);
        (fits && reduction.members == self.able(group)).then_some(current)
    }

    /// Begins a round that aggregates the gradients of the workers in `granted` with their weights. The
    /// other members contribute zeros. Returns the numbers of the reduction and of the round, and the
    /// number of members that contribute zeros. Returns `None` if not all of the workers take part in a
    /// live reduction.
    pub(super) fn begin(
        &mut self,
        granted: &BTreeMap<Worker, u32>,
        out: &mut Outputs,
    ) -> Option<(u64, u64, usize)> {
        let group = self.current?;
        let reduction = self.reductions.get_mut(&group)?;
        let fits = granted.keys().all(|worker| reduction.members.contains(worker));
        if reduction.stage != Stage::Live || !fits || granted.len() < FEWEST {
            return None;
        }
        let round = reduction.next_round;
        reduction.next_round += 1;
        reduction.rounds.insert(round, granted.values().sum());
        out.push(Output::Expect { group, round });
        out.extend(reduction.members.iter().map(|worker| {
            let weight = granted.get(worker).copied().unwrap_or(0);
            Output::Send(*worker, Message::Contribute(Contribute { group, round, weight }))
        }));
        Some((group, round, reduction.members.len() - granted.len()))
    }

    /// Handles the arrival of a sum. Returns `None` if the reduction does not exist any more.
    ///
    /// # Errors
    /// The sum does not match the granted contributions.
    pub(super) fn sum(
        &mut self,
        group: u64,
        sum: &Sum,
        length: usize,
        out: &mut Outputs,
    ) -> Option<Result<(), String>> {
        let reduction = self.reductions.get_mut(&group)?;
        let Some(weight) = reduction.rounds.remove(&sum.round) else {
            return Some(Err(format!("a sum of round {}, which does not wait for one", sum.round)));
        };
        let members = reduction.members.len();
        if sum.weight != weight || sum.contributors as usize != members || sum.values.len() != length {
            return Some(Err(format!(
                "round {} came to {} values of {} hosts with weight {}, where {length} of {members} with \
                 {weight} were granted",
                sum.round,
                sum.values.len(),
                sum.contributors,
                sum.weight,
            )));
        }
        if reduction.stage == Stage::Closing && reduction.rounds.is_empty() {
            self.end(group, out);
        }
        Some(Ok(()))
    }

    /// Returns true if a worker takes part in a reduction.
    pub(super) fn is_member(&self, worker: Worker, group: u64) -> bool {
        self.reductions.get(&group).is_some_and(|reduction| reduction.members.contains(&worker))
    }

    /// Ends a reduction that has failed; its group continues without a reduction until the next epoch.
    /// Returns true if the reduction existed.
    pub(super) fn fail(&mut self, group: u64, epoch: u64, out: &mut Outputs) -> bool {
        let Some(reduction) = self.remove(group, out) else { return false };
        self.failed = Some((reduction.members, epoch));
        true
    }

    /// Removes all workers, and ends all reductions.
    pub(super) fn end_all(&mut self, out: &mut Outputs) {
        self.hosts.clear();
        let groups: Vec<u64> = self.reductions.keys().copied().collect();
        groups.into_iter().for_each(|group| self.end(group, out));
    }

    /// Ends a reduction, even if rounds are unfinished.
    pub(super) fn end(&mut self, group: u64, out: &mut Outputs) {
        drop(self.remove(group, out));
    }

    fn retire(&mut self, group: u64, out: &mut Outputs) {
        match self.reductions.get_mut(&group) {
            Some(reduction) if !reduction.rounds.is_empty() => reduction.stage = Stage::Closing,
            _ => drop(self.remove(group, out)),
        }
    }

    fn remove(&mut self, group: u64, out: &mut Outputs) -> Option<GroupReduction> {
        let reduction = self.reductions.remove(&group)?;
        self.current = self.current.filter(|current| *current != group);
        if reduction.stage != Stage::Opening {
            let leave = |&worker| Output::Send(worker, Message::LeaveGroup(LeaveGroup { group }));
            out.extend(reduction.members.iter().map(leave));
        }
        out.push(Output::Close { group });
        Some(reduction)
    }
}
