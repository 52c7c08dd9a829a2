//! The events that the controller sends to a member.

use tributary_api::{ConfigError, JobConfig, v1};
use tributary_wire::Seq;

use crate::worker::Detached;

/// An event for a member of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// The fabric is ready. The member starts an agent with this configuration.
    Start(Box<JobConfig>),
    /// To a worker: a change of generation is coming. The worker [freezes](crate::WorkerAgent::freeze),
    /// and answers with its progress.
    Prepare {
        /// The coming generation.
        generation: u32,
    },
    /// To a frozen worker: it [proceeds](crate::WorkerAgent::proceed), and answers when it has finished.
    Proceed {
        /// The generation; see [`Prepare`](Self::Prepare).
        generation: u32,
        /// The highest number of operations that the worker may begin, counted from the job's start.
        until: u64,
    },
    /// To a frozen worker: it answers with results that other members do not have.
    Provide {
        /// The generation; see [`Prepare`](Self::Prepare).
        generation: u32,
        /// The slices whose results other members do not have.
        seqs: Vec<Seq>,
    },
    /// The member changes to this generation and confirms the change. A member that is already in this
    /// generation continues if it was frozen.
    Change(Box<JobConfig>),
    /// To a worker: the job continues without it.
    Removed {
        /// The reason, with the name of the host, switch or link at fault.
        reason: String,
    },
    /// To a worker: the job continues without it as long as its process is too slow.
    Detached(Detached),
    /// To a server: another host serves the job from now on.
    Relieved,
    /// The job has failed.
    Failed {
        /// The reason, with the name of the host or switch at fault.
        reason: String,
        /// True if members had a wrong sum.
        wrong_sum: bool,
    },
    /// The job has ended without an error.
    Ended,
}

impl JobEvent {
    /// Returns true if no event follows this event.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Removed { .. } | Self::Relieved | Self::Failed { .. } | Self::Ended)
    }
}

impl TryFrom<v1::job_event::Event> for JobEvent {
    type Error = ConfigError;

    fn try_from(event: v1::job_event::Event) -> Result<Self, ConfigError> {
        use v1::job_event::Event;
        Ok(match event {
            Event::Start(config) => Self::Start(Box::new(config.try_into()?)),
            Event::Prepare(v1::Prepare { generation }) => Self::Prepare { generation },
            Event::Proceed(v1::Proceed { generation, until }) => Self::Proceed { generation, until },
            Event::Provide(v1::Provide { generation, seqs }) => {
                Self::Provide { generation, seqs: seqs.into_iter().map(Seq).collect() }
            }
            Event::Change(config) => Self::Change(Box::new(config.try_into()?)),
            Event::Removed(v1::JobRemoved { reason }) => Self::Removed { reason },
            Event::Detached(v1::JobDetached { generation, data_adopted, reason }) => {
                Self::Detached(Detached { generation, data_adopted, reason })
            }
            Event::Relieved(v1::JobRelieved {}) => Self::Relieved,
            Event::Failed(v1::JobFailed { reason, wrong_sum }) => Self::Failed { reason, wrong_sum },
            Event::Ended(v1::JobEnded {}) => Self::Ended,
        })
    }
}
