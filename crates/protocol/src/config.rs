//! The configuration of a worker and of a server that join a job.

use std::time::Duration;

use thiserror::Error;
use tributary_wire::constants::MAX_CHILDREN;
use tributary_wire::{Downlink, JobId, JobSecret, Rank, Seq, SliceWidth};

use crate::tags::MOST_MEMBERS;

/// Slices that one job may have under way at once, unless its plan says otherwise: S of
/// `docs/specification.md`.
pub const DEFAULT_WINDOW: u32 = 256;

/// The largest window: far below the 2^31 within which sequence numbers can be ordered.
pub const MAX_WINDOW: u32 = 1 << 20;

/// Configuration with which a worker joins a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Data-plane job id of the current generation.
    pub job: JobId,
    /// This worker.
    pub rank: Rank,
    /// Every member of the job, this worker among them, in any order.
    pub members: Vec<Rank>,
    /// The secret that tags are made from: the same for all members for life.
    pub secret: JobSecret,
    /// True if values are hidden from all but members. All members must use the same value.
    pub confidential: bool,
    /// Number of values that a slice has: the same for all members for life.
    pub width: SliceWidth,
    /// Slots that the job owns on every switch: a power of two, the same for all members for life.
    pub window: u32,
    /// The first slice: [`Seq::FIRST`] for a new job, an operation's beginning for one who joins later:
    /// [`Standing::next`](crate::Standing::next) of the other members.
    pub start: Seq,
    /// Operations that the job had begun before: 0 for a new job,
    /// [`Standing::begun`](crate::Standing::begun) of the other members for one who joins later.
    pub begun: u64,
    /// When to ask again.
    pub timers: Timers,
}

/// Configuration with which a server serves a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Data-plane job id of the current generation.
    pub job: JobId,
    /// Every member of the job, in any order.
    pub members: Vec<Rank>,
    /// The number of values in a slice, as in [`WorkerConfig::width`].
    pub width: SliceWidth,
    /// The window in slices, as in [`WorkerConfig::window`].
    pub window: u32,
    /// The first slice that the job will send.
    /// A server that [takes over](crate::Server::take_over) receives the slice that is due in each slot instead.
    pub start: Seq,
    /// Number of children (not workers) from which each slice comes, as in the hop entries for the server.
    pub fan_in: u8,
    /// The route of first results from the server to the workers.
    pub downlink: Downlink,
    /// The key with which it vouches for the results that it sends: [`vouching_key`](crate::vouching_key)
    /// of the members' secret.
    pub vouching_key: JobSecret,
    /// The members' secret, with which a server that reads the sums verifies them; `None`:
    /// it does not read them.
    pub reads: Option<JobSecret>,
    /// True if values are masked, as in [`WorkerConfig::confidential`]. It matters to a server that reads.
    pub confidential: bool,
}

/// When a worker sends retransmit requests, and for how much. The defaults were chosen in the
/// simulator; `tools/sim/README.md` has the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// Retransmission timeout while no round trip has been measured.
    pub initial_timeout: Duration,
    /// Least retransmission timeout, however short the round trip.
    pub min_timeout: Duration,
    /// Most retransmission timeout, however long the round trip.
    pub max_timeout: Duration,
    /// Most that repeated timeouts back off to, unless the retransmission timeout itself is longer, or
    /// retransmit requests turn out not to have been needed: after an outage work continues with the next retransmit
    /// request.
    pub max_silence: Duration,
    /// Least silence before the first retransmit request, which is for one slice only and comes before the
    /// retransmission timeout when round trips are short.
    pub early: Duration,
    /// The maximum number of slices, oldest first, that a worker requests after one timeout.
    /// If retransmit requests turn out to be needed, the maximum number for each slice that the timeout before it
    /// brought.
    pub asks: u32,
    /// The number of transmissions after which a slice counts as missing: once the result of one that was
    /// sent so much later has come.
    pub gap: u32,
    /// Time for which a slice keeps the slowest link of the job's tree busy; zero: unknown.
    /// What is in flight cannot be answered sooner than such links carry it.
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

/// Why a worker or a server cannot be set up, or cannot change to a new generation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The window is not a power of two, or larger than [`MAX_WINDOW`].
    #[error("a window of {0} slices: it must be a power of two, {MAX_WINDOW} at most")]
    Window(u32),
    /// A job without members.
    #[error("the job has no members: at least one worker must take part")]
    NoMembers,
    /// One rank is listed twice.
    #[error("rank {0} is listed twice among the members")]
    DuplicateMember(Rank),
    /// The rank that stands for everyone is listed as a member.
    #[error("rank {0} stands for all members and cannot be one")]
    ReservedRank(u16),
    /// More members than tags have room for.
    #[error("{0} members: a job may have {MOST_MEMBERS}")]
    TooManyMembers(usize),
    /// The worker is not in its own list of members.
    #[error("rank {0} is not among the job's members")]
    NotAMember(Rank),
    /// A member would join inside an operation.
    #[error(
        "rank {0} cannot join now: members join between operations only, when all others are frozen and idle there"
    )]
    JoinInside(Rank),
    /// The new generation has the data-plane job id of the old generation.
    #[error("the new generation has the old one's data-plane job id {0}: it must have a fresh one")]
    SameJob(JobId),
    /// The slice that is due in a slot of a server that takes over does not belong to this slot.
    #[error("slice {due} cannot be due in slot {slot}: it is another slot's in a window of {window}")]
    Due {
        /// The slot.
        slot: usize,
        /// The slice.
        due: Seq,
        /// The job's window.
        window: u32,
    },
    /// There is not one slice due for each slot.
    #[error("{due} slices are due, but the window has {window} slots")]
    Dues {
        /// Number of slices that are due.
        due: usize,
        /// The job's window.
        window: u32,
    },
    /// A finished slice is not the predecessor of the slice that is due in its slot.
    #[error("slice {finished} cannot be the last one that was finished in its slot: {due} is due there")]
    NotTheLast {
        /// The finished slice.
        finished: Seq,
        /// The slice that is due in the slot.
        due: Seq,
    },
    /// A finished slice that is not one of this job's.
    #[error("slice {finished} has {got} values, but this job's slices have {width}: it is another job's")]
    Width {
        /// The slice.
        finished: Seq,
        /// Number of values that it has.
        got: usize,
        /// Number of values that it should have.
        width: usize,
    },
    /// A server that reads the sums takes over, and would lack the sums of an operation's earlier slices.
    #[error("a server that reads the sums cannot take over from another one: it would miss earlier slices")]
    ReadsAfterTakeOver,
    /// The server waits for no child, or for more than a hop entry can count.
    #[error("the server's fan-in is {0}: it must be 1 to {MAX_CHILDREN}")]
    FanIn(u8),
}

/// Checks a window.
pub(crate) fn check_window(window: u32) -> Result<(), ConfigError> {
    if window.is_power_of_two() && window <= MAX_WINDOW { Ok(()) } else { Err(ConfigError::Window(window)) }
}

/// The members in order, each of them once.
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
