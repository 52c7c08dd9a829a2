//! The worker's side of the protocol.

use std::time::Duration;

use tributary_wire::constants::VALUES_PER_SLICE;
use tributary_wire::{Header, JobId, Rank, Seq, ValuesView};

use crate::config::{ConfigError, WorkerConfig, check_members, check_window};
use crate::error::{CollectiveError, StartError};
use crate::numbers::{AllReduce, Reduced};
use crate::time::Time;

/// Which of a worker's operations: they count up from 0 in the order in which they were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// What a worker has to tell its caller.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerEvent {
    /// An operation has its result.
    Completed {
        /// Which.
        operation: OperationId,
        /// The result.
        reduced: Reduced,
    },
    /// An operation will have no result. The worker goes on: it sends zeros for the rest of the
    /// operation, so that the members' sequence numbers stay together, and can start others.
    Failed {
        /// Which.
        operation: OperationId,
        /// Why.
        error: CollectiveError,
    },
}

/// A GRADIENT to be sent: the caller puts the worker's hop stack and addresses around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Its header.
    pub header: Header,
    /// Its values.
    pub values: &'a [i32; VALUES_PER_SLICE],
}

/// What a worker has counted since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerStats {
    /// Slices sent for the first time.
    pub sent: u64,
    /// Slices sent again, for whatever reason.
    pub retransmitted: u64,
    /// Results that were awaited, and right.
    pub results: u64,
    /// Results that were there already.
    pub duplicates: u64,
    /// Results that this worker did not await: of another job or generation, or for another rank.
    pub foreign: u64,
    /// Results that failed verification.
    pub mismatched: u64,
    /// Retransmission timeouts that fired.
    pub timeouts: u64,
    /// Slices that counted as lost because results of later ones came first.
    pub gaps: u64,
    /// Smoothed round trip, once one was measured.
    pub round_trip: Option<Duration>,
    /// The retransmission timeout at present, without back-off.
    pub timeout: Duration,
}

/// One member of a job: sends slices, verifies results, asks again.
///
/// The caller keeps the clock and the network: it calls [`handle_result`](Self::handle_result) for
/// each RESULT that arrives and [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout)'s instant has come, and after either (and after a start) sends what
/// [`poll_transmit`](Self::poll_transmit) yields and takes what [`poll_event`](Self::poll_event) yields,
/// both until `None`.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
}

impl Worker {
    /// A member that has sent nothing yet.
    ///
    /// # Errors
    /// [`ConfigError`] when the window or the members make no sense.
    pub fn new(config: WorkerConfig) -> Result<Self, ConfigError> {
        check_window(config.window)?;
        let members = check_members(&config.members)?;
        members.binary_search(&config.rank).map_err(|_| ConfigError::NotAMember(config.rank))?;
        Ok(Self { config })
    }

    /// Starts an all-reduce, or queues it behind those under way: its slices follow theirs as the window
    /// allows. An operation of no elements is a barrier.
    ///
    /// # Errors
    /// [`StartError`] when the weight leaves no room for the other members'.
    pub fn start_all_reduce(&mut self, now: Time, operation: AllReduce) -> Result<OperationId, StartError> {
        let _ = (now, operation);
        Ok(OperationId(0))
    }

    /// Takes in a RESULT. One that is not awaited, or not for this worker, changes nothing.
    pub fn handle_result(&mut self, now: Time, header: &Header, values: ValuesView<'_>) {
        let _ = (now, header, values);
    }

    /// The next packet to send now, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing<'_>> {
        let _ = now;
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), unless something else happens first. `None`
    /// while nothing is awaited.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Lets time pass: asks again for the oldest slices if their results are overdue. Harmless when
    /// called early.
    pub fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// The next thing to tell the caller, if any.
    pub fn poll_event(&mut self) -> Option<WorkerEvent> {
        None
    }

    /// Changes over to a new generation of the job: `members` may have lost some (or, between
    /// operations, gained some). What has no result yet is sent again under the new job id.
    ///
    /// # Errors
    /// [`ConfigError`] when the members make no sense; the old generation then stays.
    pub fn change_generation(&mut self, now: Time, job: JobId, members: &[Rank]) -> Result<(), ConfigError> {
        let _ = (now, job);
        check_members(members).map(|_| ())
    }

    /// The sequence number that the next operation to be started will begin at.
    pub fn next_seq(&self) -> Seq {
        self.config.start
    }

    /// Whether every operation that was started has completed or failed, and all of its slices are done.
    pub fn is_idle(&self) -> bool {
        true
    }

    /// What was counted so far.
    pub fn stats(&self) -> WorkerStats {
        WorkerStats::default()
    }
}
