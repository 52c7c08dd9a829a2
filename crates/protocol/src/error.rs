//! Errors of starting an all-reduce, and of all-reduces that fail.

use std::fmt;

use thiserror::Error;
use tributary_wire::{Rank, Seq};

use crate::numbers::{ElementType, Tensor};

/// An error of [`Worker::start_all_reduce`](crate::Worker::start_all_reduce) or
/// [`Server::expect`](crate::Server::expect).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartError {
    /// The collective was divided among no stripes.
    #[error("a collective without a part for any thread: there must be at least one part")]
    NoPart,
    /// The weight is too large: if all members used it, the fixed-point sum could overflow.
    #[error(
        "collective \"{tensor}\": weight {weight} is too large: {members} members may have {most} each; \
         divide all weights by a common factor"
    )]
    Weight {
        /// The tensor's name.
        tensor: String,
        /// The weight that was requested.
        weight: u32,
        /// The number of members of the job.
        members: u32,
        /// The largest weight that each member may use.
        most: u32,
    },
    /// The parts of a reduce-scatter do not have all elements of its tensor.
    #[error("reduce-scatter of \"{tensor}\": its parts have {parts} elements, and the tensor has {len}")]
    Owners {
        /// The tensor's name.
        tensor: String,
        /// The number of elements of all parts.
        parts: usize,
        /// The number of elements of the tensor.
        len: usize,
    },
    /// A broadcast is not one part of 32-bit integers without a weight, or the window is one slice.
    /// Such a window has no room for the members' agreement.
    #[error(
        "broadcast of \"{tensor}\": it takes one part of 32-bit integers without a weight, and a job with at least 2 slots \
         on each switch"
    )]
    Broadcast {
        /// The tensor's name.
        tensor: String,
    },
    /// The allocation of memory for the sums failed.
    #[error(
        "collective \"{tensor}\": there is no memory for {bytes} bytes of sums: reduce in smaller pieces"
    )]
    NoMemory {
        /// The tensor's name.
        tensor: String,
        /// The bytes that the all-reduce would have needed, in addition to the contributed elements.
        bytes: u64,
    },
    /// The parts of the contribution differ in element type or length.
    #[error("collective \"{tensor}\": its parts differ in element type or length: give parts that are alike")]
    Parts {
        /// The tensor's name.
        tensor: String,
    },
    /// The server was configured without the members' secret, so it cannot read sums.
    #[error("collective \"{tensor}\": this server does not read sums: it must be set up to")]
    ReadsNothing {
        /// The tensor's name.
        tensor: String,
    },
}

/// An error of an all-reduce that has started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// The sum of an element does not fit into its type. Every member gets this error.
    #[error(
        "collective \"{tensor}\": the sum of element {element} does not fit into {element_type}: scale the integers down, \
         or send a wider type"
    )]
    Overflow {
        /// The tensor's name.
        tensor: String,
        /// The index of the first element whose sum does not fit.
        element: usize,
        /// The elements' type.
        element_type: ElementType,
    },
    /// A member left after some of its integers were summed, but not all.
    /// Every remaining member gets this error.
    #[error(
        "collective \"{tensor}\": a member left while its integers were summed, a part of which is in the sums: \
         reduce again without it"
    )]
    Incomplete {
        /// The tensor's name.
        tensor: String,
    },
    /// The sum of the members' weights is larger than the fixed-point sum supports.
    #[error("collective \"{tensor}\": the weights add up to {weight}, more than {most}")]
    Weight {
        /// The tensor's name.
        tensor: String,
        /// The sum of the weights.
        weight: u32,
        /// The largest sum that is allowed.
        most: u32,
    },
    /// A member withholds its contribution, so that every other member gets this error.
    /// Its caller has abandoned the all-reduce before the member had sent anything of it.
    #[error(
        "collective \"{tensor}\": rank {rank} has given it up and contributes nothing, so there is no sum"
    )]
    Withheld {
        /// The tensor's name.
        tensor: String,
        /// The rank of the member; of several members, the highest rank.
        rank: Rank,
    },
    /// The root of a broadcast left before all members had received its words.
    /// Every remaining member gets this error.
    #[error(
        "broadcast of \"{tensor}\": rank {root}, which sends it, has left: broadcast from a remaining rank, or start all \
         ranks again"
    )]
    RootLeft {
        /// The tensor's name.
        tensor: String,
        /// The rank of the member that has left.
        root: Rank,
    },
    /// The sums of a slice, which only this member would have received, were lost with the server.
    /// The other members have the sums of their own parts.
    #[error(
        "reduce-scatter of \"{tensor}\": the server that had the sums of slice {seq} has failed, and no other member has \
         them: reduce again on all ranks"
    )]
    Lost {
        /// The tensor's name.
        tensor: String,
        /// The slice.
        seq: Seq,
    },
    /// The caller of this worker abandoned the all-reduce with [`Worker::abandon`](crate::Worker::abandon).
    /// If this worker had sent its contribution, the other members still get the result.
    #[error("collective \"{tensor}\" was given up: {missing}")]
    Abandoned {
        /// The tensor's name.
        tensor: String,
        /// The results, or the change of generation, that the all-reduce was waiting for.
        missing: Missing,
    },
    /// The sum that the network delivered failed verification twice: also after a retransmit request.
    #[error(
        "collective \"{}\": the network's sum of slice {seq} is wrong: {reason}; contributors: \
         {contributors} expected, {contributors_got} got. This member gave {} elements of {}: another one gave something else, or a switch's addition is wrong",
        .tensor.name, .tensor.len, .tensor.element_type
    )]
    WrongSum {
        /// The tensor that this member contributed.
        tensor: Tensor,
        /// The first slice of the all-reduce.
        /// It identifies the all-reduce among the operations of the job, with an equal value on all members.
        operation: Seq,
        /// The slice whose sum is wrong.
        seq: Seq,
        /// The check that failed.
        reason: &'static str,
        /// The number of members of the job.
        contributors: u32,
        /// The number of workers that the result states as its contributors.
        contributors_got: u32,
    },
}

/// The results, or the change of generation, that an abandoned all-reduce was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The all-reduce had not begun: it waited for an earlier one or for a change to a new generation.
    NotBegun,
    /// Results of some slices.
    Results {
        /// The number of slices without a result.
        missing: usize,
        /// The number of slices of the all-reduce.
        slices: usize,
        /// The first slice without a result.
        first: Seq,
        /// The number of times that this worker has sent the slice.
        sent: u32,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBegun => f.write_str(
                "it has not begun, because an earlier all-reduce has no result yet or the job's members are changing",
            ),
            Self::Results { missing, slices, first, sent } => write!(
                f,
                "{missing} of its {slices} slices have no result; slice {first} is the first, sent {sent} times: \
                 another member has not sent it, or the network or the server does not answer"
            ),
        }
    }
}
