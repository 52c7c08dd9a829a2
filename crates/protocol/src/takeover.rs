//! The takeover from a failed server: merges the members' reports into the state of the new server.
//!
//! In each slot, a member waits for one slice. This slice is *due*. Because of the strict window, the due slices of two
//! members in one slot are equal or one window (S slices) apart.
//!
//! A member that waits for slice k + S has the result of k. So every member has contributed to k, and a member
//! contributes to k only when it has the result of k − S. So no member waits for a slice before k. The new server
//! starts each slot with the furthest due slice, because no remaining member has a result of it. If another member
//! waits for the slice one window before, that slice is finished, and this member must get exactly the result that the
//! others have. The server gets this result from one of them.

use thiserror::Error;
use tributary_wire::{JobId, Operator, Rank, Seq, Totals, ValuesView};

/// The RESULT of a slice as a member received it.
/// A member keeps the last result of each slot for a server that takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSlice {
    /// The number of the slice.
    pub seq: Seq,
    /// The data-plane id of the generation whose members are in the sum.
    pub job: JobId,
    /// The operator that combined the slice.
    pub operator: Operator,
    /// The aggregated header fields.
    pub totals: Totals,
    /// The values in network byte order (big-endian).
    /// Empty if the member received an acknowledgement in their place.
    pub values: Box<[u8]>,
}

impl FinishedSlice {
    /// Returns a view of the values.
    pub fn values(&self) -> ValuesView<'_> {
        ValuesView::new(&self.values)
    }
}

/// The state of a server that continues the work of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// For each slot, in slot order, the first slice of which no member has a result.
    pub dues: Vec<Seq>,
    /// The finished slices for which some member still waits, each with the rank of a member that has the
    /// result.
    pub wanted: Vec<(Seq, Rank)>,
}

/// An inconsistency of the members' reports, which prevents a new server from taking over.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TakeOverError {
    /// No member reported, because the job has no members left.
    #[error("no member has said which slices it waits for: there is nothing to go on with")]
    NoMembers,
    /// The number of due slices in a member's report is not the window.
    #[error(
        "rank {rank} waits for {slots} slices, but the job has a window of {window}: another job's member?"
    )]
    Window {
        /// The rank of the member.
        rank: Rank,
        /// The number of due slices in its report.
        slots: usize,
        /// The job's window.
        window: u32,
    },
    /// A member reports a slice as due in a slot to which the slice does not belong.
    #[error("rank {rank} waits for slice {due} in slot {slot}, which is not that slice's: another window?")]
    Slot {
        /// The rank of the member.
        rank: Rank,
        /// The index of the slot.
        slot: usize,
        /// The slice that the member reports as due in the slot.
        due: Seq,
    },
    /// A member waits for a slice that another member's report rules out: the two are more than one window
    /// apart.
    #[error(
        "rank {ahead} waits for slice {due}, but rank {behind} for slice {due_behind}: members are one window of \
         {window} apart at most, so one of them is not where it says, and has to leave"
    )]
    TooFarAhead {
        /// The rank of the member that is ahead.
        ahead: Rank,
        /// The slice that is due at the member `ahead`.
        due: Seq,
        /// The rank of the member that is behind.
        behind: Rank,
        /// The slice that is due at the member `behind` in the same slot.
        due_behind: Seq,
        /// The job's window.
        window: u32,
    },
}

/// Computes the state with which a new server starts, from the due slices of all remaining members.
/// `members` holds [`WorkerProgress::dues`](crate::WorkerProgress::dues) of each member. All members must be frozen.
///
/// # Errors
/// [`TakeOverError`] if a report does not fit the window or another report. It names the member.
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
