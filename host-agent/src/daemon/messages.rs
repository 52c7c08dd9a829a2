//! Conversion of the agent's results to messages of the API.

use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{NotFinite, Run, StripedReduced};
use tributary_wire::{Rank, SliceWidth};

use crate::error::AgentError;
use crate::worker::{Completion, Detached, Members, Regroup, Situation};

pub(super) fn started(
    session: &[u8],
    (host, process): (&str, u32),
    width: SliceWidth,
    situation: Situation,
) -> v1::Started {
    let Situation { rank, window, switches, members, regroup: joined, .. } = situation;
    v1::Started {
        session: session.to_vec(),
        rank: members.processes.ranks_of(rank).start + process,
        ranks: ranks(&members.ranks, &members),
        window,
        host: host.into(),
        generation: members.generation,
        regroup: joined.as_ref().map(|joined| regroup(joined, &members)),
        shards: ranks(&members.shards, &members),
        values_per_slice: width.values() as u32,
        switches,
    }
}

pub(super) fn all_reduced(completion: &Completion) -> v1::AllReduceResponse {
    let Completion { reduced: StripedReduced { reduced, .. }, members, .. } = completion;
    v1::AllReduceResponse {
        runs: reduced.runs.iter().map(|one| run(one, members)).collect(),
        not_finite: reduced.not_finite.map(|NotFinite { element, rank }| v1::NotFinite {
            element: element as u64,
            rank: members.processes.ranks_of(rank).start,
            processes: members.processes.of(rank),
        }),
        ..present(members)
    }
}

/// Returns the response for an all-reduce that ended with an order to the process; `None` for any other
/// error.
pub(super) fn interrupted(error: &AgentError) -> Option<v1::AllReduceResponse> {
    match error {
        AgentError::Regroup { regroup: joined, members } => {
            Some(v1::AllReduceResponse { regroup: Some(regroup(joined, members)), ..present(members) })
        }
        AgentError::Detached(reason) => {
            let detached = Some(detached(reason));
            Some(v1::AllReduceResponse { detached, ..v1::AllReduceResponse::default() })
        }
        _ => None,
    }
}

fn present(members: &Members) -> v1::AllReduceResponse {
    v1::AllReduceResponse {
        generation: members.generation,
        ranks: ranks(&members.ranks, members),
        lost: members.lost.iter().flat_map(|lost_worker| lost(lost_worker, members)).collect(),
        ..v1::AllReduceResponse::default()
    }
}

/// Returns a response for an operation without a result: the failure, and its flags for the caller's
/// next step.
pub(super) fn failed(status: &Status, not_started: bool, job_ended: bool) -> v1::AllReduceResponse {
    let (code, message) = (i32::from(status.code()).cast_unsigned(), status.message().to_owned());
    let failure = Some(v1::Failure { code, message, not_started, job_ended });
    v1::AllReduceResponse { failure, ..v1::AllReduceResponse::default() }
}

fn lost<'a>(
    (worker, reason): (&Rank, &'a String),
    members: &Members,
) -> impl Iterator<Item = v1::Lost> + use<'a> {
    members.processes.ranks_of(*worker).map(|rank| v1::Lost { rank, reason: reason.clone() })
}

fn detached(Detached { generation, data_adopted, reason }: &Detached) -> v1::Detached {
    v1::Detached { generation: *generation, data_adopted: *data_adopted, reason: reason.clone() }
}

/// Converts a run. A worker counts as a contributor only if all limbs of its values are in the sum.
fn run(Run { len, weight, complete, .. }: &Run, members: &Members) -> v1::Run {
    v1::Run { elements: *len as u64, weight: *weight, contributors: processes(*complete, members) }
}

/// Returns the number of processes of the workers that contributed to a run. If some of them have left
/// since, it is unknown which, and the number is the smallest possible.
fn processes(workers: u32, members: &Members) -> u32 {
    let all = members.ranks.iter().chain(members.lost.keys());
    let mut counts: Vec<u32> = match members.ranks.len() == workers as usize {
        true => members.ranks.iter().map(|rank| members.processes.of(*rank)).collect(),
        false => all.map(|rank| members.processes.of(*rank)).collect(),
    };
    counts.sort_unstable();
    counts.into_iter().take(workers as usize).sum()
}

fn regroup(
    Regroup { generation, ranks: workers, joined, leader, shards }: &Regroup,
    members: &Members,
) -> v1::Regroup {
    v1::Regroup {
        generation: *generation,
        ranks: ranks(workers, members),
        joined: ranks(joined, members),
        leader: members.processes.ranks_of(*leader).start,
        shards: ranks(shards, members),
    }
}

/// Returns the ranks of the processes of these workers.
fn ranks(workers: &[Rank], members: &Members) -> Vec<u32> {
    workers.iter().flat_map(|worker| members.processes.ranks_of(*worker)).collect()
}
