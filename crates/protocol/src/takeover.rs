//! The takeover from a server that is gone: combines the members' reports of due slices and of
//! results that they have.
//!
//! A member waits in each slot for one slice, which is *due*. By the strict window, the slices that two members wait
//! for in one slot are equal or one window apart. A member that waits for k + S has the result of k. So every member
//! had contributed to k, and therefore has the result of k − S. So no remaining member has a result of the slice that
//! the furthest member waits for: the new server starts with this slice. If some member is behind, the slice before is
//! finished, and the member behind must get exactly the result that the others have: the server takes it from one of
//! them.

use thiserror::Error;
use tributary_wire::{JobId, Operator, Rank, Seq, Totals, ValuesView};

/// A slice's RESULT as a member got it. A member keeps one for each slot, for a server that takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSlice {
    /// The slice.
    pub seq: Seq,
    /// The data-plane id of the generation whose members are in the sum.
    pub job: JobId,
    /// The operator that combined the slice.
    pub operator: Operator,
    /// The fields that were aggregated besides the values.
    pub totals: Totals,
    /// The values as they came: big-endian.
    pub values: Box<[u8]>,
}

impl FinishedSlice {
    /// Its values.
    pub fn values(&self) -> ValuesView<'_> {
        ValuesView::new(&self.values)
    }
}

/// The state of a server that continues the work of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// For each slot, in slot order, the first slice that no member has a result of.
    pub dues: Vec<Seq>,
    /// Finished slices that some member still waits for, and a member that has the result.
    pub wanted: Vec<(Seq, Rank)>,
}

/// Why members cannot continue with a new server.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TakeOverError {
    /// The job has no members left.
    #[error("no member has said which slices it waits for: there is nothing to go on with")]
    NoMembers,
    /// A member has not said for each slot what it waits for.
    #[error(
        "rank {rank} waits for {slots} slices, but the job has a window of {window}: another job's member?"
    )]
    Window {
        /// The member.
        rank: Rank,
        /// For how many slots it has said so.
        slots: usize,
        /// The job's window.
        window: u32,
    },
    /// A member waits for a slice in a slot that is not the slice's.
    #[error("rank {rank} waits for slice {due} in slot {slot}, which is not that slice's: another window?")]
    Slot {
        /// The member.
        rank: Rank,
        /// The slot.
        slot: usize,
        /// The slice that the member reports as due in the slot.
        due: Seq,
    },
    /// A member has the results of slices that are too new for another member to have contributed to.
    #[error(
        "rank {ahead} waits for slice {due}, but rank {behind} for slice {due_behind}: members are one window of \
         {window} apart at most, so one of them is not where it says, and has to leave"
    )]
    TooFarAhead {
        /// The member that is further.
        ahead: Rank,
        /// The slice that the member waits for.
        due: Seq,
        /// One that is not as far.
        behind: Rank,
        /// The slice that the member behind waits for in the same slot.
        due_behind: Seq,
        /// The job's window.
        window: u32,
    },
}

/// Finds out where a new server has to start, from what all remaining members wait for
/// ([`Standing::dues`](crate::Standing::dues), while they are frozen).
///
/// # Errors
/// [`TakeOverError`], which names the member that does not fit.
pub fn merge(window: u32, members: &[(Rank, &[Seq])]) -> Result<TakeOver, TakeOverError> {
    if members.is_empty() {
        return Err(TakeOverError::NoMembers);
    }
    for &(rank, dues) in members {
        if dues.len() != window as usize {
            return Err(TakeOverError::Window { rank, slots: dues.len(), window });
        }
    }
    let mut merged = TakeOver { dues: Vec::with_capacity(window as usize), wanted: Vec::new() };
    for slot in 0..window as usize {
        let waits = members.iter().filter_map(|&(rank, dues)| dues.get(slot).map(|&due| (rank, due)));
        for (rank, due) in waits.clone() {
            if due.0 as usize & (window as usize - 1) != slot {
                return Err(TakeOverError::Slot { rank, slot, due });
            }
        }
        let further = |a: (Rank, Seq), b: (Rank, Seq)| if b.1.is_newer_than(a.1) { b } else { a };
        let nearer = |a: (Rank, Seq), b: (Rank, Seq)| if a.1.is_newer_than(b.1) { b } else { a };
        let (Some((ahead, due)), Some((behind, due_behind))) =
            (waits.clone().reduce(further), waits.reduce(nearer))
        else {
            return Err(TakeOverError::NoMembers);
        };
        if due != due_behind && due != due_behind.plus(window) {
            return Err(TakeOverError::TooFarAhead { ahead, due, behind, due_behind, window });
        }
        merged.dues.push(due);
        if due != due_behind {
            merged.wanted.push((due_behind, ahead));
        }
    }
    Ok(merged)
}
