//! Who reduces, and in which circumstances.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way to reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// This project's fabric: switches aggregate.
    Ours,
    /// This project's fabric where only switches that workers are linked to aggregate: what a system for a single hop does.
    Leaf,
    /// PyTorch's gloo, as `torch.distributed` uses it by default.
    Gloo,
    /// Open MPI, with the algorithm that it chooses itself.
    #[serde(rename = "openmpi")]
    OpenMpi,
    /// Open MPI, told to use its ring algorithm.
    #[serde(rename = "openmpi-ring")]
    OpenMpiRing,
    /// This project's aggregation server, without aggregation in the network.
    Server,
}

impl Contender {
    /// All of them, in the order in which they have their turns.
    pub const ALL: [Self; 6] =
        [Self::Ours, Self::Leaf, Self::Gloo, Self::OpenMpi, Self::OpenMpiRing, Self::Server];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Leaf => "leaf",
            Self::Gloo => "gloo",
            Self::OpenMpi => "openmpi",
            Self::OpenMpiRing => "openmpi-ring",
            Self::Server => "server",
        }
    }

    /// The one with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contender| contender.name() == name)
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ours => "Tributary",
            Self::Leaf => "leaves only",
            Self::Gloo => "gloo (PyTorch)",
            Self::OpenMpi => "Open MPI",
            Self::OpenMpiRing => "Open MPI, ring",
            Self::Server => "server alone",
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A contender in its circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Of every link in each direction, bit/s.
    pub rate: u64,
    /// The probability that a link loses a frame.
    pub loss: f64,
    /// Who reduces.
    pub contender: Contender,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.contender.title())?;
        if self.loss > 0.0 {
            // Rounded: 0.1 % is no binary fraction.
            write!(f, ", {} % loss", (self.loss * 1e6).round() / 1e4)?;
        }
        Ok(())
    }
}
