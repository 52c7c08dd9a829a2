//! The bottleneck of an all-reduce.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The share of the time at which the busiest link counts as the limit.
///
/// In the rest of the time, the first slice travels to the server and the last result travels back. More
/// bandwidth does not shorten this latency.
const LINK_LIMITS: f64 = 0.85;
/// The share of the processors' time at which the machine counts as the limit.
///
/// All nodes share the processors, and the kernel also needs time to handle the frames.
const PROCESSOR_LIMITS: f64 = 0.85;

/// The resource that limits an all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The busiest link: it sends all the time.
    Link,
    /// The processors, which all nodes share: they are busy all the time.
    Processor,
    /// Neither the link nor the processors: the all-reduce waits for retransmissions or for other ranks.
    Waiting,
}

impl Limit {
    /// Returns the limit, from the shares of time in which the busiest link and the processors worked.
    ///
    /// A link that sends all the time is the limit, even if the processors are busy, because faster
    /// processors would not help.
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
