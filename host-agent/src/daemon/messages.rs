//! Conversion of the agent's results to messages of the API.

use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{NotFinite, Run};
use tributary_wire::{Rank, SliceWidth};

use crate::error::AgentError;
use crate::worker::{Completion, Detached, Members, Regroup, Situation};

pub(super) fn started(session: &[u8], host: &str, width: SliceWidth, situation: Situation) -> v1::Started {
    let Situation { rank, window, switches, members, regroup: joined, .. } = situation;
    v1::Started {
        session: session.to_vec(),
        rank: rank.get().into(),
        ranks: numbers(&members.ranks),
        window,
        host: host.into(),
        generation: members.generation,
        regroup: joined.as_ref().map(regroup),
        shards: numbers(&members.shards),
        values_per_slice: width.values() as u32,
        switches,
    }
}

pub(super) fn all_reduced(Completion { reduced, members, .. }: &Completion) -> v1::AllReduceResponse {
    v1::AllReduceResponse {
        runs: reduced.runs.iter().map(run).collect(),
        not_finite: reduced.not_finite.map(|NotFinite { element, rank }| v1::NotFinite {
            element: element as u64,
            rank: rank.get().into(),
            processes: 1,
        }),
        ..present(members)
    }
}

/// Returns the response for an all-reduce that ended with an order to the process; `None` for any other
/// error.
pub(super) fn interrupted(error: &AgentError) -> Option<v1::AllReduceResponse> {
    match error {
        AgentError::Regroup { regroup: joined, members } => {
            Some(v1::AllReduceResponse { regroup: Some(regroup(joined)), ..present(members) })
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
        ranks: numbers(&members.ranks),
        lost: members.lost.iter().map(lost).collect(),
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

fn lost((rank, reason): (&Rank, &String)) -> v1::Lost {
    v1::Lost { rank: rank.get().into(), reason: reason.clone() }
}

fn detached(Detached { generation, data_adopted, reason }: &Detached) -> v1::Detached {
    v1::Detached { generation: *generation, data_adopted: *data_adopted, reason: reason.clone() }
}

/// Converts a run. A worker counts as a contributor only if all limbs of its values are in the sum.
fn run(Run { len, weight, complete, .. }: &Run) -> v1::Run {
    v1::Run { elements: *len as u64, weight: *weight, contributors: *complete }
}

fn regroup(Regroup { generation, ranks, joined, leader, shards }: &Regroup) -> v1::Regroup {
    v1::Regroup {
        generation: *generation,
        ranks: numbers(ranks),
        joined: numbers(joined),
        leader: leader.get().into(),
        shards: numbers(shards),
    }
}

fn numbers(ranks: &[Rank]) -> Vec<u32> {
    ranks.iter().map(|rank| rank.get().into()).collect()
}
