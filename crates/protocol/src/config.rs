//! The configuration of a worker and of a server that join a job.

use std::time::Duration;

use thiserror::Error;
use tributary_wire::constants::MAX_CHILDREN;
use tributary_wire::{Downlink, JobId, JobSecret, Rank, Seq, SliceWidth};

use crate::stripe::{Stripe, StripesError};
use crate::tags::MOST_MEMBERS;

/// The default window of a job, in slices: S of `docs/specification.md`. A plan may set another window.
pub const DEFAULT_WINDOW: u32 = 256;

/// The largest window, in slices.
/// It is far below 2^31, the distance up to which sequence numbers can be ordered.
pub const MAX_WINDOW: u32 = 1 << 20;

/// Configuration with which a worker joins a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Data-plane job id of the current generation.
    pub job: JobId,
    /// The rank of this worker.
    pub rank: Rank,
    /// The ranks of all members of the job, including this worker, in any order.
    pub members: Vec<Rank>,
    /// The secret from which tags and masks are derived. It is equal on all members and never changes.
    pub secret: JobSecret,
    /// True if values are hidden from all but members. All members must use the same value.
    pub confidential: bool,
    /// The number of values in a slice. It is equal on all members and never changes.
    pub width: SliceWidth,
    /// The number of slots that the job owns on every switch: a power of two. It is equal on all members
    /// and never changes.
    pub window: u32,
    /// The stripe that this worker runs. Other workers of the host run the others.
    pub stripe: Stripe,
    /// The first slice that the worker sends.
    /// It is [`Stripe::first`] in a new job. A worker that joins later takes
    /// [`WorkerProgress::next`](crate::WorkerProgress::next) of the other members.
    pub start: Seq,
    /// The number of operations that the job has begun before `start`.
    /// It is 0 in a new job. A worker that joins later takes [`WorkerProgress::begun`](crate::WorkerProgress::begun) of
    /// the other members.
    pub begun: u64,
    /// The timers for retransmit requests.
    pub timers: Timers,
}

/// Configuration with which a server serves a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Data-plane job id of the current generation.
    pub job: JobId,
    /// The ranks of all members of the job, in any order.
    pub members: Vec<Rank>,
    /// The number of values in a slice, as in [`WorkerConfig::width`].
    pub width: SliceWidth,
    /// The window in slices, as in [`WorkerConfig::window`].
    pub window: u32,
    /// The stripe that this server serves. Other servers of the host serve the others.
    /// A server that reads the sums serves all slices.
    pub stripe: Stripe,
    /// The first slice that the members will send.
    /// A server that [takes over](crate::Server::take_over) receives the slice that is due in each slot instead.
    pub start: Seq,
    /// The number of children from which the server waits for each slice. It is equal to the fan-in of the
    /// server's hop entries.
    /// Children are the server's neighbours in the tree, so this number can be smaller than the number of workers.
    pub fan_in: u8,
    /// The route of first results from the server to the workers.
    pub downlink: Downlink,
    /// The key from which the server makes the vouchers of its results.
    /// It is [`vouching_key`](crate::vouching_key) of the members' secret.
    pub vouching_key: JobSecret,
    /// The members' secret, with which the server verifies and reads the sums. `None` if the server does
    /// not read the sums.
    pub reads: Option<JobSecret>,
    /// True if values are masked, as in [`WorkerConfig::confidential`]. Only a server that reads the sums
    /// uses it.
    pub confidential: bool,
}

/// The limits that decide when a worker sends retransmit requests, and for how many slices.
/// The defaults were chosen in the simulator; `tools/sim/README.md` has the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// Retransmission timeout while no round trip has been measured.
    pub initial_timeout: Duration,
    /// The minimum of the retransmission timeout.
    pub min_timeout: Duration,
    /// The maximum of the retransmission timeout.
    pub max_timeout: Duration,
    /// The maximum to which repeated timeouts back off, so that work continues soon after an outage.
    /// A worker waits longer only if the retransmission timeout itself is longer, or if recent retransmit requests were
    /// not needed.
    pub max_silence: Duration,
    /// The minimum silence before the first retransmit request. This request is for one slice only.
    /// If round trips are short, it comes before the retransmission timeout.
    pub early: Duration,
    /// The maximum number of slices that a worker requests after one timeout. It requests the oldest slices
    /// first.
    /// If retransmit requests turn out to be needed, this is the maximum for each slice that the previous timeout
    /// recovered.
    pub asks: u32,
    /// The number of later transmissions after which a slice counts as missing.
    /// A slice is missing when a result has come for a slice that was sent this number of transmissions later.
    pub gap: u32,
    /// The time for which one slice occupies the slowest link of the job's tree; zero if it is unknown.
    /// The worker does not expect an answer before that link can have carried all slices in flight.
    pub slice_time: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            initial_timeout: Duration::from_millis(20),
            min_timeout: Duration::from_millis(10),
            max_timeout: Duration::from_secs(1),
            max_silence: Duration::from_millis(250),
            early: Duration::from_millis(3),
            asks: 8,
            gap: 4,
            slice_time: Duration::ZERO,
        }
    }
}

/// An error that prevents the creation of a worker or a server, or a change to a new generation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The window is not a power of two, or larger than [`MAX_WINDOW`].
    #[error("a window of {0} slices: it must be a power of two, {MAX_WINDOW} at most")]
    Window(u32),
    /// The number of stripes does not fit the window.
    #[error(transparent)]
    Stripes(#[from] StripesError),
    /// The first slice of a worker belongs to another stripe.
    #[error("slice {start} is not of stripe {stripe}")]
    Start {
        /// The slice.
        start: Seq,
        /// The number of the stripe.
        stripe: u32,
    },
    /// The list of members is empty.
    #[error("the job has no members: at least one worker must take part")]
    NoMembers,
    /// One rank is listed twice.
    #[error("rank {0} is listed twice among the members")]
    DuplicateMember(Rank),
    /// [`Rank::ALL`], which addresses all members, is listed as a member.
    #[error("rank {0} stands for all members and cannot be one")]
    ReservedRank(u16),
    /// The job has more members than tags support.
    #[error("{0} members: a job may have {MOST_MEMBERS}")]
    TooManyMembers(usize),
    /// The worker is not in its own list of members.
    #[error("rank {0} is not among the job's members")]
    NotAMember(Rank),
    /// A member would join while an operation is under way.
    #[error(
        "rank {0} cannot join now: members join between operations only, when all others are frozen and idle there"
    )]
    JoinInside(Rank),
    /// The new generation has the data-plane job id of the old generation.
    #[error("the new generation has the old one's data-plane job id {0}: it must have a fresh one")]
    SameJob(JobId),
    /// The due slice for a slot of a server that takes over belongs to another slot.
    #[error("slice {due} cannot be due in slot {slot}: it is another slot's in a window of {window}")]
    Due {
        /// The index of the slot.
        slot: usize,
        /// The slice that was reported as due in the slot.
        due: Seq,
        /// The job's window.
        window: u32,
    },
    /// The number of due slices is not the number of slots.
    #[error("{due} slices are due, but the window has {window} slots")]
    Dues {
        /// Number of slices that are due.
        due: usize,
        /// The job's window.
        window: u32,
    },
    /// A finished slice is not one window before the slice that is due in its slot.
    #[error("slice {finished} cannot be the last one that was finished in its slot: {due} is due there")]
    NotTheLast {
        /// The finished slice.
        finished: Seq,
        /// The slice that is due in the slot.
        due: Seq,
    },
    /// A finished slice does not have the width of this job's slices.
    #[error("slice {finished} has {got} values, but this job's slices have {width}: it is another job's")]
    Width {
        /// The finished slice.
        finished: Seq,
        /// The number of values that the slice has.
        got: usize,
        /// The number of values that a slice of this job has.
        width: usize,
    },
    /// A server that reads the sums cannot take over, because it has not received the sums of earlier
    /// slices.
    #[error("a server that reads the sums cannot take over from another one: it would miss earlier slices")]
    ReadsAfterTakeOver,
    /// The fan-in of the server is 0 or larger than a hop entry allows.
    #[error("the server's fan-in is {0}: it must be 1 to {MAX_CHILDREN}")]
    FanIn(u8),
}

/// Checks that a window is a power of two and at most [`MAX_WINDOW`].
pub(crate) fn check_window(window: u32) -> Result<(), ConfigError> {
    if window.is_power_of_two() && window <= MAX_WINDOW { Ok(()) } else { Err(ConfigError::Window(window)) }
}

/// Checks that a worker's first slice belongs to its stripe.
pub(crate) fn check_stripe(stripe: Stripe, start: Seq) -> Result<(), ConfigError> {
    if stripe.contains(start) { Ok(()) } else { Err(ConfigError::Start { start, stripe: stripe.number() }) }
}

/// Sorts the members, and checks their number and that each rank occurs once.
pub(crate) fn check_members(mut members: Vec<Rank>) -> Result<Vec<Rank>, ConfigError> {
    members.sort_unstable();
    match members.last() {
        None => return Err(ConfigError::NoMembers),
        Some(&Rank::ALL) => return Err(ConfigError::ReservedRank(Rank::ALL.get())),
        Some(_) if members.len() > MOST_MEMBERS => return Err(ConfigError::TooManyMembers(members.len())),
        Some(_) => {}
    }
    match members.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(ConfigError::DuplicateMember(pair[0])),
        None => Ok(members),
    }
}

/// Checks the number of children at the server.
pub(crate) fn check_fan_in(fan_in: u8) -> Result<(), ConfigError> {
    if (1..=MAX_CHILDREN).contains(&usize::from(fan_in)) { Ok(()) } else { Err(ConfigError::FanIn(fan_in)) }
}
