//! The setting of a comparison, with the contenders' versions and the skipped contenders.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::machine::Machine;

/// The type of the elements that the contenders add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Elements {
    /// IEEE 754 single precision.
    #[default]
    F32,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16.
    Bf16,
}

impl Elements {
    /// All types.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// Returns the type's name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Returns the number of bytes of an element.
    pub fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }
}

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
    /// The type of its elements.
    #[serde(default)]
    pub elements: Elements,
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
    /// The command that installs the contender; `None` if it cannot take part.
    pub install: Option<String>,
}
