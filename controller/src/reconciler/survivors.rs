//! Merges the members' positions after a server failed, to find the results that the next server needs.

use std::collections::{BTreeMap, BTreeSet};

use tributary_api::{FinishedSlice, v1};
use tributary_protocol::{TakeOverError, merge as merge_dues};
use tributary_wire::{Rank, Seq};

/// The positions at which members have stopped, by rank.
pub(super) type ProgressByRank = BTreeMap<Rank, v1::WorkerProgress>;

/// The slices at which the next server starts, and the results that it needs.
#[derive(Debug)]
pub(super) struct Merged {
    /// For each slot, the first slice for which no member has a result.
    pub(super) dues: Vec<Seq>,
    /// Results that at least one member still lacks, by the rank of a member that has them.
    pub(super) wanted: BTreeMap<Rank, Vec<Seq>>,
}

/// Merges the members' positions, slot by slot.
pub(super) fn merge(window: u32, progress: &ProgressByRank) -> Result<Merged, TakeOverError> {
    let dues = |(rank, member): (&Rank, &v1::WorkerProgress)| {
        (*rank, member.dues.iter().copied().map(Seq).collect::<Vec<_>>())
    };
    let members: Vec<_> = progress.iter().map(dues).collect();
    let members: Vec<_> = members.iter().map(|(rank, dues)| (*rank, dues.as_slice())).collect();
    let merged = merge_dues(window, &members)?;
    let mut wanted: BTreeMap<Rank, Vec<Seq>> = BTreeMap::new();
    for (seq, rank) in merged.wanted {
        wanted.entry(rank).or_default().push(seq);
    }
    Ok(Merged { dues: merged.dues, wanted })
}

/// Returns the first wanted slice that no member handed over; `None` if there is none.
/// If there is one, the position that a member reported was wrong.
pub(super) fn missing(merged: &Merged, finished: &[FinishedSlice]) -> Option<Seq> {
    let given: BTreeSet<u32> = finished.iter().map(|slice| slice.seq.0).collect();
    merged.wanted.values().flatten().copied().find(|seq| !given.contains(&seq.0))
}
