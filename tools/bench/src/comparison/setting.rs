//! The setting of a comparison, with the contenders' versions and the skipped contenders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::machine::Machine;

/// The setting of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonSetting {
    /// The start of the comparison, as Unix time.
    pub began: u64,
    /// The topology's name.
    pub topology: String,
    /// Number of ranks.
    pub workers: usize,
    /// Size of the tensor.
    pub bytes: u64,
    /// The longest packet that the links carry, in bytes.
    pub mtu: u16,
    /// Turns of each contender.
    pub rounds: u32,
    /// All-reduces in each turn.
    pub iterations: u32,
    /// The machine that all nodes shared.
    pub machine: Machine,
    /// The exact version of each contender.
    pub versions: BTreeMap<Contender, String>,
    /// The contenders that could not be measured.
    pub skipped: Vec<Skipped>,
}

/// A contender that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The contender.
    pub contender: Contender,
    /// The reason why the contender could not be measured.
    pub reason: String,
    /// The command that installs the contender.
    pub install: String,
}
