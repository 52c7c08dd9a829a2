//! The contenders, and the cases in which they are measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An implementation of the all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// This project's fabric: switches aggregate.
    Ours,
    /// This project's fabric where only switches next to workers aggregate, as in a single-hop system.
    Leaf,
    /// PyTorch's gloo, as `torch.distributed` uses it by default.
    Gloo,
    /// Open MPI, with the algorithm that it chooses by itself.
    #[serde(rename = "openmpi")]
    OpenMpi,
    /// Open MPI with its ring algorithm.
    #[serde(rename = "openmpi-ring")]
    OpenMpiRing,
    /// This project's aggregation server, without aggregation in the network.
    Server,
}

impl Contender {
    /// All contenders, in the order in which they take turns.
    pub const ALL: [Self; 6] =
        [Self::Ours, Self::Leaf, Self::Gloo, Self::OpenMpi, Self::OpenMpiRing, Self::Server];

    /// Returns the contender's name on the command line and in JSON.
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

    /// Returns the contender with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|contender| contender.name() == name)
    }

    /// Returns the contender's name for people.
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

/// A contender and the links.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Rate of every link in each direction, in bit/s.
    pub rate: u64,
    /// The probability that a link loses a frame.
    pub loss: f64,
    /// True if each packet is a frame of its own although no frame is lost. With losses, it always is.
    #[serde(default)]
    pub single_frames: bool,
    /// The contender.
    pub contender: Contender,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.contender.title())?;
        if self.loss > 0.0 {
            // Rounded, because 0.1 % has no exact binary fraction.
            write!(f, ", {} % loss", (self.loss * 1e6).round() / 1e4)?;
        }
        if self.single_frames {
            f.write_str(", single frames")?;
        }
        Ok(())
    }
}
