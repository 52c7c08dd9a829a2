//! The work that `tributary allreduce` measures.

use std::time::Duration;

use anyhow::Result;
use tributary_client::Job;

use super::args::AllReduceArgs;
use super::report::Quantisation;

/// A method to reduce a tensor in each iteration.
pub(super) trait Work: Sized {
    /// Prepares to reduce tensors of `elements` elements.
    async fn new(job: &Job, args: &AllReduceArgs, elements: usize) -> Result<Self>;

    /// Writes this rank's contribution to an iteration.
    fn fill(&mut self, job: &Job, iteration: u32) -> Result<()>;

    /// Replaces the contribution by the sum.
    async fn reduce(&mut self, job: &Job, name: &str) -> Result<()>;

    /// Compares the sum with the expected sum.
    fn check(&mut self, job: &Job, iteration: u32) -> Result<()>;

    /// Returns the time that the last all-reduce spent in the agent; `None` if the
    /// iteration was not a single call.
    fn in_agent(&self) -> Option<Duration> {
        None
    }

    /// Returns the savings and the error of quantisation; `None` without a codec.
    fn quantisation(&self) -> Option<Quantisation> {
        None
    }
}
