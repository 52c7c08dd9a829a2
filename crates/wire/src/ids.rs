//! Identifiers that travel in packets.

use std::fmt;

use crate::constants::{NO_JOB, NO_NODE, RANK_ALL};

/// A data-plane job id: one generation of one job. Never [`NO_JOB`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u16);

impl JobId {
    /// `None` for the number that means "no job".
    pub fn new(id: u16) -> Option<Self> {
        (id != NO_JOB).then_some(Self(id))
    }

    /// The number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A switch or an aggregation server, as hop entries name it. Never [`NO_NODE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u16);

impl NodeId {
    /// `None` for the number that means "no node".
    pub fn new(id: u16) -> Option<Self> {
        (id != NO_NODE).then_some(Self(id))
    }

    /// The number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One worker of the job, or everyone: the sender of a GRADIENT, or the receiver of a RESULT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(u16);

impl Rank {
    /// Every member of the job.
    pub const ALL: Self = Self(RANK_ALL);

    /// The rank with this number on the wire.
    pub const fn new(rank: u16) -> Self {
        Self(rank)
    }

    /// The number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL { f.write_str("all") } else { self.0.fmt(f) }
    }
}
