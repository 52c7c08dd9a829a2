//! Why an all-reduce cannot start, or fails.

use std::fmt;

use thiserror::Error;
use tributary_wire::Seq;

use crate::numbers::{ElementType, Tensor};

/// Why [`Worker::start_all_reduce`](crate::Worker::start_all_reduce) or
/// [`Server::expect`](crate::Server::expect) refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartError {
    /// The weights of all members could add up to more than the fixed-point sum has room for.
    #[error(
        "all-reduce of \"{tensor}\": weight {weight} is too large: {members} members may have {most} each; \
         divide all weights by a common factor"
    )]
    Weight {
        /// The tensor's name.
        tensor: String,
        /// The weight that was requested.
        weight: u32,
        /// Members of the job.
        members: u32,
        /// The largest weight that is accepted.
        most: u32,
    },
    /// The system does not give the memory for the sums.
    #[error(
        "all-reduce of \"{tensor}\": there is no memory for {bytes} bytes of sums: reduce in smaller pieces"
    )]
    NoMemory {
        /// The tensor's name.
        tensor: String,
        /// The memory that taking part would have needed, besides the elements that are contributed.
        bytes: u64,
    },
    /// The server was set up to add up only.
    #[error("all-reduce of \"{tensor}\": this server does not read sums: it must be set up to")]
    ReadsNothing {
        /// The tensor's name.
        tensor: String,
    },
}

/// Why an all-reduce that every member started has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// The sum of an element does not fit into its type. Every member gets this error.
    #[error(
        "all-reduce of \"{tensor}\": the sum of element {element} does not fit into {element_type}: scale the integers down, \
         or send a wider type"
    )]
    Overflow {
        /// The tensor's name.
        tensor: String,
        /// The first such element.
        element: usize,
        /// The elements' type.
        element_type: ElementType,
    },
    /// A member left after a part of its integers was summed. Every remaining member gets this error.
    #[error(
        "all-reduce of \"{tensor}\": a member left while its integers were summed, a part of which is in the sums: \
         reduce again without it"
    )]
    Incomplete {
        /// The tensor's name.
        tensor: String,
    },
    /// The members' weights add up to more than the fixed-point sum has room for.
    #[error("all-reduce of \"{tensor}\": the weights add up to {weight}, more than {most}")]
    Weight {
        /// The tensor's name.
        tensor: String,
        /// Their sum.
        weight: u32,
        /// The most that it may be.
        most: u32,
    },
    /// Its caller has given it up, by [`Worker::abandon`](crate::Worker::abandon). The other members may
    /// have its result all the same.
    #[error("all-reduce of \"{tensor}\" was given up: {missing}")]
    Abandoned {
        /// The tensor's name.
        tensor: String,
        /// The results, or the change of generation, that the all-reduce was waiting for.
        missing: Missing,
    },
    /// The network's sum is not the members' sum, and a retransmit request did not fix it.
    #[error(
        "all-reduce of \"{}\": the network's sum of slice {seq} is wrong: {reason}; contributors: \
         {contributors} expected, {contributors_got} got. This member gave {} elements of {}: another one gave something else, or a switch's addition is wrong",
        .tensor.name, .tensor.len, .tensor.element_type
    )]
    WrongSum {
        /// The tensor that this member contributed.
        tensor: Tensor,
        /// The first slice of the all-reduce.
        /// It distinguishes the all-reduce from the job's others on all members.
        operation: Seq,
        /// The slice.
        seq: Seq,
        /// Which of the comparisons failed.
        reason: &'static str,
        /// Members of the job.
        contributors: u32,
        /// Number of workers whose gradients the result claims to hold.
        contributors_got: u32,
    },
}

/// The results, or the change of generation, that an abandoned all-reduce was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// To begin: the job was about to change to a new generation.
    Generation,
    /// Results.
    Results {
        /// The number of slices without a result.
        missing: usize,
        /// The number of slices of the all-reduce.
        slices: usize,
        /// The first one without a result.
        first: Seq,
        /// The number of times that this worker has sent the slice.
        sent: u32,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation => f.write_str("it has not begun, since the job's members are changing"),
            Self::Results { missing, slices, first, sent } => write!(
                f,
                "{missing} of its {slices} slices have no result; slice {first} is the first, sent {sent} times: \
                 another member has not sent it, or the network or the server does not answer"
            ),
        }
    }
}
