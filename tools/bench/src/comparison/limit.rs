//! The bottleneck of an all-reduce.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The share of the time from which on the busiest link is the limit.
/// The rest is the latency of the first slice on the way there and of the last one on the way back, which no bandwidth
/// shortens.
const LINK_LIMITS: f64 = 0.85;
/// The share of the processors' time from which on the machine is the limit: all nodes share it, and
/// the kernel's work for the frames has to fit in between.
const PROCESSOR_LIMITS: f64 = 0.85;

/// The resource that limits an all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The busiest link, which sends all the time.
    Link,
    /// The processors, which all nodes share, and which are busy all the time.
    Processor,
    /// Neither: the all-reduce waits for retransmissions or for other ranks.
    Waiting,
}

impl Limit {
    /// The limit, given the shares of the time that the busiest link sent and that the processors were
    /// busy. A link that sends all the time is the limit, however busy the processors are: faster ones would not help.
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
