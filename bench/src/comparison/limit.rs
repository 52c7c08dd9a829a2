//! What keeps an all-reduce from being faster.

use std::fmt;

use serde::{Deserialize, Serialize};

/// From this share of the time on in which the busiest link sends, the link is what limits. The rest is the way
/// of the first slice there and of the last one back, which no bandwidth shortens.
const LINK_LIMITS: f64 = 0.85;
/// From this share of the processors' time on, the machine is what limits: all nodes share it, and the kernel's
/// work for the frames has to find a place in between.
const PROCESSOR_LIMITS: f64 = 0.85;

/// What an all-reduce would need more of to be faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The busiest link sends all the time.
    Link,
    /// The machine, which all nodes share, is busy all the time.
    Processor,
    /// Neither: it waits, for what was lost or for each other.
    Waiting,
}

impl Limit {
    /// From the shares of the time that the busiest link sent and that the processors were busy. A link that
    /// sends all the time limits, however busy the processors are: with faster ones it would still take as long.
    pub fn of(link_share: f64, processor_share: f64) -> Self {
        if link_share >= LINK_LIMITS {
            Self::Link
        } else if processor_share >= PROCESSOR_LIMITS {
            Self::Processor
        } else {
            Self::Waiting
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Link => "link",
            Self::Processor => "CPU",
            Self::Waiting => "waiting",
        })
    }
}
