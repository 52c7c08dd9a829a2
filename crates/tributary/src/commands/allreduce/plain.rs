//! All-reduces of unencoded elements.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tributary_client::{Job, Operation, Reduction, Run, Segment};

use super::args::AllReduceArgs;
use super::contribution::{self, Number};
use super::work::Work;

/// Tensors in memory that is shared with the agent.
#[derive(Debug)]
pub(super) struct Plain<T> {
    tensors: Vec<Tensor>,
    in_flight: usize,
    elements: PhantomData<T>,
    /// The job's ranks at two times: when the first all-reduce of the last iteration began, and when its
    /// last one ended.
    ranks: [Vec<u32>; 2],
}

#[derive(Debug)]
struct Tensor {
    /// Index of the tensor's first element.
    first: usize,
    segment: Segment,
    /// The ranges of the sum, each with the ranks that it includes.
    runs: Vec<Run>,
    /// Time that the all-reduce spent in the agent.
    in_agent: Duration,
}

impl<T: Number> Work for Plain<T> {
    async fn new(job: &Job, args: &AllReduceArgs, elements: usize) -> Result<Self> {
        let count = args.tensors as usize;
        let mut tensors = Vec::with_capacity(count);
        for number in 0..count {
            let (first, end) = (elements * number / count, elements * (number + 1) / count);
            let segment = job.segment((end - first) * size_of::<T>()).await?;
            tensors.push(Tensor { first, segment, runs: Vec::new(), in_agent: Duration::ZERO });
        }
        let in_flight = args.in_flight as usize;
        Ok(Self { tensors, in_flight, elements: PhantomData, ranks: Default::default() })
    }

    fn fill(&mut self, job: &Job, iteration: u32) -> Result<()> {
        for Tensor { first, segment, .. } in &mut self.tensors {
            contribution::fill(*first, segment.elements_mut::<T>()?, job.rank(), iteration);
        }
        Ok(())
    }

    async fn reduce(&mut self, job: &Job, name: &str) -> Result<()> {
        let before = job.ranks();
        let (mut under_way, mut ended) = (VecDeque::new(), 0);
        for next in 0..self.tensors.len() {
            if under_way.len() == self.in_flight {
                ended = self.end(job, name, ended, under_way.pop_front()).await?;
            }
            let Some(Tensor { segment, .. }) = self.tensors.get_mut(next) else { break };
            let name = format!("{name}, tensor {next}");
            under_way.push_back(job.start(segment, &Operation { name: &name, ..Operation::whole::<T>() })?);
        }
        while !under_way.is_empty() {
            ended = self.end(job, name, ended, under_way.pop_front()).await?;
        }
        self.ranks = [before, job.ranks()];
        Ok(())
    }

    /// Compares the sums with the expected ones. If members leave during an all-reduce, its first elements
    /// are the sum over the earlier members, and the others the sum over the remaining members.
    fn check(&mut self, job: &Job, iteration: u32) -> Result<()> {
        for Tensor { first, segment, runs, .. } in &self.tensors {
            let (mut first, mut rest) = (*first, segment.elements::<T>()?);
            for run in runs {
                let (sums, others) = rest.split_at(usize::try_from(run.elements)?.min(rest.len()));
                let ranks = self.ranks.iter().find(|ranks| ranks.len() == run.contributors as usize);
                // If several members have left one after the other, the members in between are unknown, and
                // these elements are not checked.
                if let Some(wrong) =
                    ranks.and_then(|ranks| contribution::find_wrong(first, sums, ranks, iteration))
                {
                    bail!("rank {}, iteration {iteration}: {wrong}", job.rank());
                }
                (first, rest) = (first + sums.len(), others);
            }
        }
        Ok(())
    }

    fn in_agent(&self) -> Option<Duration> {
        match self.tensors.as_slice() {
            [only] => Some(only.in_agent),
            _ => None,
        }
    }
}

impl<T> Plain<T> {
    /// Waits for tensor `number`, the oldest one in flight. Returns the number of the next oldest tensor.
    async fn end(
        &mut self,
        job: &Job,
        name: &str,
        number: usize,
        reduction: Option<Reduction>,
    ) -> Result<usize> {
        let (Some(tensor), Some(reduction)) = (self.tensors.get_mut(number), reduction) else {
            return Ok(number);
        };
        let reduced = reduction.await;
        let reduced = reduced.with_context(|| format!("rank {}, {name}, tensor {number}", job.rank()))?;
        (tensor.runs, tensor.in_agent) = (reduced.runs, reduced.in_agent);
        Ok(number + 1)
    }
}
