//! All-reduces of the elements as they are.

use std::marker::PhantomData;

use anyhow::{Context, Result, bail};
use tributary_client::{Job, Operation, Segment};

use super::contribution::{self, Number};
use super::{AllReduceArgs, Work};

/// A tensor in the memory that is shared with the agent.
#[derive(Debug)]
pub(super) struct Plain<T> {
    segment: Segment,
    elements: PhantomData<T>,
}

impl<T: Number> Work for Plain<T> {
    async fn new(job: &mut Job, _: &AllReduceArgs, elements: usize) -> Result<Self> {
        Ok(Self { segment: job.segment(elements * size_of::<T>()).await?, elements: PhantomData })
    }

    fn fill(&mut self, job: &Job, iteration: u32) -> Result<()> {
        contribution::fill(self.segment.elements_mut::<T>()?, job.rank(), iteration);
        Ok(())
    }

    async fn reduce(&mut self, job: &mut Job, name: &str) -> Result<()> {
        let operation = Operation { name, ..Operation::whole::<T>() };
        let reduced = job.all_reduce(&mut self.segment, operation).await;
        reduced.with_context(|| format!("rank {}, {name}", job.rank()))?;
        Ok(())
    }

    fn check(&mut self, job: &Job, iteration: u32) -> Result<()> {
        match contribution::find_wrong(self.segment.elements::<T>()?, job.ranks(), iteration) {
            Some(wrong) => bail!("rank {}, iteration {iteration}: {wrong}", job.rank()),
            None => Ok(()),
        }
    }
}
