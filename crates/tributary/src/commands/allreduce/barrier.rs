//! A barrier for all ranks.

use anyhow::{Context, Result};
use tributary_client::{Job, Operation, Segment};

/// A barrier: an all-reduce without elements. No rank leaves it before all ranks have entered it.
#[derive(Debug)]
pub(super) struct Barrier(Segment);

impl Barrier {
    pub(super) async fn new(job: &Job) -> Result<Self> {
        Ok(Self(job.segment(size_of::<i32>()).await?))
    }

    pub(super) async fn pass(&mut self, job: &Job) -> Result<()> {
        let operation = Operation { name: "barrier", elements: Some(0..0), ..Operation::whole::<i32>() };
        let passed = job.all_reduce(&mut self.0, operation).await;
        passed.with_context(|| format!("rank {}, barrier", job.rank()))?;
        Ok(())
    }
}
