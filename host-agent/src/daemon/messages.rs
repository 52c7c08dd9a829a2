//! What processes are told, in the API's terms.

use tributary_api::agent::v1;
use tributary_protocol::Run;
use tributary_wire::Rank;

use super::running::Running;
use super::session::SessionId;
use crate::worker::{Outcome, Reduction, Regroup, Situation};

pub(super) fn started(
    session: SessionId,
    host: &str,
    running: &Running,
    situation: Situation,
) -> v1::Started {
    let Situation { members, regroup: joined, .. } = situation;
    v1::Started {
        session: session.to_vec(),
        rank: running.rank.get().into(),
        ranks: numbers(&members.ranks),
        window: running.window,
        host: host.into(),
        generation: members.generation,
        regroup: joined.as_ref().map(regroup),
    }
}

pub(super) fn all_reduced(Reduction { outcome, members }: &Reduction) -> v1::AllReduceResponse {
    let (runs, regroup) = match outcome {
        Outcome::Reduced(reduced) => (reduced.runs.iter().map(run).collect(), None),
        Outcome::Regroup(joined) => (Vec::new(), Some(regroup(joined))),
    };
    v1::AllReduceResponse { runs, regroup, generation: members.generation, ranks: numbers(&members.ranks) }
}

fn run(Run { len, weight, contributors }: &Run) -> v1::Run {
    v1::Run { elements: *len as u64, weight: *weight, contributors: *contributors }
}

fn regroup(Regroup { generation, ranks, joined, leader }: &Regroup) -> v1::Regroup {
    v1::Regroup {
        generation: *generation,
        ranks: numbers(ranks),
        joined: numbers(joined),
        leader: leader.get().into(),
    }
}

fn numbers(ranks: &[Rank]) -> Vec<u32> {
    ranks.iter().map(|rank| rank.get().into()).collect()
}
