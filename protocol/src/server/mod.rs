//! The aggregation server's side of the protocol.

use std::time::Duration;

use tributary_wire::constants::VALUES_PER_SLICE;
use tributary_wire::{Header, Hop, JobId, Rank, ValuesView};

use crate::config::{ConfigError, ServerConfig, check_fan_in, check_members, check_window};
use crate::time::Time;

/// Whom a result goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recipient {
    /// Every member, by multicast.
    All,
    /// One member, by its own stack of hops.
    Rank(Rank),
}

/// A RESULT to be sent: the caller puts hop stack and addresses around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultOut<'a> {
    /// Whom it goes to.
    pub to: Recipient,
    /// Its header.
    pub header: Header,
    /// Its values.
    pub values: &'a [i32; VALUES_PER_SLICE],
}

/// What a server has counted since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerStats {
    /// GRADIENT packets that came, whatever became of them.
    pub received: u64,
    /// Contributions that were added up.
    pub contributions: u64,
    /// Slices that are complete.
    pub completed: u64,
    /// Packets of a child that an unfinished slice has already.
    pub duplicates: u64,
    /// Probes for a slice that is not finished.
    pub early_probes: u64,
    /// Packets for a slice so old that no member can want it any more.
    pub stale: u64,
    /// Packets of another job or generation, from a child that does not exist, or with a fan-in or a
    /// sequence number that cannot be.
    pub rejected: u64,
    /// Results sent for the first time, to all members.
    pub results: u64,
    /// Results sent again, to one member.
    pub answers: u64,
    /// Results sent again, to all members, because several asked.
    pub answers_to_all: u64,
    /// Questions left unanswered because an answer was on its way already.
    pub suppressed: u64,
    /// From a result to the first slice that it let a worker send, once one was measured.
    pub round_trip: Option<Duration>,
}

/// The root of a job's tree: finishes the sums, keeps results as long as a member can ask for them, and
/// answers. It needs no timers: whoever waits asks.
///
/// After each [`handle_gradient`](Self::handle_gradient) the caller sends what
/// [`poll_transmit`](Self::poll_transmit) yields, until `None`.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
}

impl Server {
    /// A server that has received nothing yet.
    ///
    /// # Errors
    /// [`ConfigError`] when the window, the members or the fan-in make no sense.
    pub fn new(config: ServerConfig) -> Result<Self, ConfigError> {
        check_window(config.window)?;
        check_members(&config.members)?;
        check_fan_in(config.fan_in)?;
        Ok(Self { config })
    }

    /// Takes in a GRADIENT: `hop` is the stack's last entry, which is the server's own; `values` is `None`
    /// in a PROBE. Whatever does not fit the job changes nothing but a counter.
    pub fn handle_gradient(&mut self, now: Time, header: &Header, hop: &Hop, values: Option<ValuesView<'_>>) {
        let _ = (now, header, hop, values);
    }

    /// The next packet to send now, if any.
    pub fn poll_transmit(&mut self, now: Time) -> Option<ResultOut<'_>> {
        let _ = (now, &self.config);
        None
    }

    /// Changes over to a new generation of the job. Finished slices are served as before, under the new
    /// job id; unfinished ones start afresh.
    ///
    /// # Errors
    /// [`ConfigError`] when the members or the fan-in make no sense; the old generation then stays.
    pub fn change_generation(&mut self, job: JobId, members: &[Rank], fan_in: u8) -> Result<(), ConfigError> {
        let _ = job;
        check_fan_in(fan_in)?;
        check_members(members).map(|_| ())
    }

    /// What was counted so far.
    pub fn stats(&self) -> ServerStats {
        ServerStats::default()
    }
}
