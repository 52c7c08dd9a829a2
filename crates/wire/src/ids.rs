//! Identifiers that travel in packets.

use std::fmt;

use crate::constants::{NO_JOB, NO_NODE, RANK_ALL};

/// A data-plane job id, which names one generation of one job. It is never [`NO_JOB`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u16);

impl JobId {
    /// Makes a job id; `None` for the number that means "no job".
    pub fn new(id: u16) -> Option<Self> {
        (id != NO_JOB).then_some(Self(id))
    }

    /// Returns the number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a switch or an aggregation server in hop entries. It is never [`NO_NODE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u16);

impl NodeId {
    /// Makes a node id; `None` for the number that means "no node".
    pub fn new(id: u16) -> Option<Self> {
        (id != NO_NODE).then_some(Self(id))
    }

    /// Returns the number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The rank of one worker of the job, or of all workers.
/// It names the sender of a GRADIENT, or the receiver of a RESULT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u16);

impl Rank {
    /// The rank that addresses every member of the job.
    pub const ALL: Self = Self(RANK_ALL);

    /// Makes the rank with this number on the wire.
    pub const fn new(rank: u16) -> Self {
        Self(rank)
    }

    /// Returns the number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL { f.write_str("all") } else { self.0.fmt(f) }
    }
}
