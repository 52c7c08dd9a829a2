//! A process's part in the job: the only module here that knows the client's API.

use anyhow::Result;
use tributary_client::{ClientError, Job, JoinOptions, Operation, Run, Segment};

use tributary::PartArgs;

/// Sums values over the members of a job.
pub(super) trait Fabric {
    /// Replaces the values by their sum over the members, all of which make the
    /// same calls in the same order.
    ///
    /// # Errors
    /// This process has no part in the job any more.
    async fn sum(&mut self, values: &mut [f32]) -> Result<Outcome>;

    /// After workers have joined, replaces the values on all members by the values of one earlier member.
    ///
    /// # Errors
    /// As for [`sum`](Self::sum).
    async fn synchronise(&mut self, values: &mut [f32]) -> Result<()>;
}

/// The outcome of a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The sum; the runs tell its contributors.
    Sum(Vec<Run>),
    /// No sum: members have joined, and all have to synchronise first.
    Regroup,
}

/// A part in a job.
#[derive(Debug)]
pub(super) struct Participant {
    job: Job,
    memory: Segment,
}

impl Participant {
    /// Takes part with tensors of up to `elements` elements; returns when the job runs.
    ///
    /// # Errors
    /// No agent, no such job, or no part for this host in it.
    pub(super) async fn open(part: &PartArgs, elements: usize) -> Result<Self> {
        let job = part.take(JoinOptions::default().elastic()).await?;
        let memory = job.segment(elements * size_of::<f32>()).await?;
        Ok(Self { job, memory })
    }

    /// This member's rank.
    pub(super) fn rank(&self) -> u32 {
        self.job.rank()
    }
}

impl Fabric for Participant {
    async fn sum(&mut self, values: &mut [f32]) -> Result<Outcome> {
        self.memory.elements_mut::<f32>()?[..values.len()].copy_from_slice(values);
        match self.job.all_reduce(&mut self.memory, operation("round", values.len())).await {
            Ok(runs) => {
                values.copy_from_slice(&self.memory.elements::<f32>()?[..values.len()]);
                Ok(Outcome::Sum(runs))
            }
            Err(ClientError::Regroup(_)) => Ok(Outcome::Regroup),
            Err(error) => Err(error.into()),
        }
    }

    async fn synchronise(&mut self, values: &mut [f32]) -> Result<()> {
        self.memory.elements_mut::<f32>()?[..values.len()].copy_from_slice(values);
        self.job.synchronise(&mut self.memory, operation("state", values.len())).await?;
        values.copy_from_slice(&self.memory.elements::<f32>()?[..values.len()]);
        Ok(())
    }
}

fn operation(name: &str, count: usize) -> Operation<'_> {
    Operation { name, elements: Some(0..count), ..Operation::whole::<f32>() }
}
