//! A process's membership in the job. Only this module uses the client's API.

use anyhow::Result;
use tributary_client::{ClientError, Job, JoinOptions, Operation, Run, Segment};

use tributary::PartArgs;

/// Sums values over the members of a job.
pub(super) trait Fabric {
    /// Replaces the values by their sum over the members.
    /// All members must make the same calls in the same order.
    ///
    /// # Errors
    /// This process is no longer in the job.
    async fn sum(&mut self, values: &mut [f32]) -> Result<SumOutcome>;

    /// After workers have joined, replaces the values on all members by the values of one earlier member.
    ///
    /// # Errors
    /// The errors of [`sum`](Self::sum).
    async fn synchronise(&mut self, values: &mut [f32]) -> Result<()>;
}

/// The outcome of a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SumOutcome {
    /// The sum. The runs name its contributors.
    Sum(Vec<Run>),
    /// No sum, because workers have joined. All members must synchronise first.
    Regroup,
}

/// A process's membership in a job.
#[derive(Debug)]
pub(super) struct Participant {
    job: Job,
    memory: Segment,
}

impl Participant {
    /// Joins the job for tensors of up to `elements` elements. Returns when the job runs.
    ///
    /// # Errors
    /// The host has no agent, the job does not exist, or the job has no place for this host.
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
    async fn sum(&mut self, values: &mut [f32]) -> Result<SumOutcome> {
        self.memory.elements_mut::<f32>()?[..values.len()].copy_from_slice(values);
        match self.job.all_reduce(&mut self.memory, operation("round", values.len())).await {
            Ok(runs) => {
                values.copy_from_slice(&self.memory.elements::<f32>()?[..values.len()]);
                Ok(SumOutcome::Sum(runs))
            }
            Err(ClientError::Regroup(_)) => Ok(SumOutcome::Regroup),
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
