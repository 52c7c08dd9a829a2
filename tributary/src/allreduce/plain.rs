//! All-reduces of the elements as they are.

use std::marker::PhantomData;

use anyhow::{Context, Result, bail};
use tributary_client::{Job, Operation, Run, Segment};

use super::contribution::{self, Number};
use super::{AllReduceArgs, Work};

/// A tensor in the memory that is shared with the agent.
#[derive(Debug)]
pub(super) struct Plain<T> {
    segment: Segment,
    elements: PhantomData<T>,
    /// What the sums are of.
    runs: Vec<Run>,
    /// Who was in the job when the last all-reduce began, and when it ended.
    ranks: [Vec<u32>; 2],
}

impl<T: Number> Work for Plain<T> {
    async fn new(job: &mut Job, _: &AllReduceArgs, elements: usize) -> Result<Self> {
        let segment = job.segment(elements * size_of::<T>()).await?;
        Ok(Self { segment, elements: PhantomData, runs: Vec::new(), ranks: Default::default() })
    }

    fn fill(&mut self, job: &Job, iteration: u32) -> Result<()> {
        contribution::fill(self.segment.elements_mut::<T>()?, job.rank(), iteration);
        Ok(())
    }

    async fn reduce(&mut self, job: &mut Job, name: &str) -> Result<()> {
        let operation = Operation { name, ..Operation::whole::<T>() };
        let before = job.ranks().to_vec();
        let reduced = job.all_reduce(&mut self.segment, operation).await;
        self.runs = reduced.with_context(|| format!("rank {}, {name}", job.rank()))?;
        self.ranks = [before, job.ranks().to_vec()];
        Ok(())
    }

    /// Members may leave during an all-reduce: then its beginning is summed over those who were in before, and its end
    /// over those who are left.
    fn check(&mut self, job: &Job, iteration: u32) -> Result<()> {
        let (mut first, mut rest) = (0, self.segment.elements::<T>()?);
        for run in &self.runs {
            let (sums, others) = rest.split_at(usize::try_from(run.elements)?.min(rest.len()));
            let ranks = self.ranks.iter().find(|ranks| ranks.len() == run.contributors as usize);
            // Where several have left, one after the other, nobody knows who was in between.
            if let Some(wrong) =
                ranks.and_then(|ranks| contribution::find_wrong(first, sums, ranks, iteration))
            {
                bail!("rank {}, iteration {iteration}: {wrong}", job.rank());
            }
            (first, rest) = (first + sums.len(), others);
        }
        Ok(())
    }
}
