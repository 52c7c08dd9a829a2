//! All-reduces of quantisation levels, with the codec casq-4-shared.

use anyhow::{Context, Result, bail};
use tributary_client::{Job, Sent};
use tributary_codec::{Lanes, Residual};

use super::args::AllReduceArgs;
use super::contribution;
use super::report::Quantisation;
use super::work::Work;

/// A tensor, and the state needed to quantise it.
#[derive(Debug)]
pub(super) struct Quantised {
    reducer: tributary_client::Quantised,
    tensor: Vec<f32>,
    sent: Option<Sent>,
    /// Every rank's residual, as computed for the check of the sums; always zero without feedback.
    residuals: Vec<Residual>,
    feedback: bool,
    error: SquaredError,
}

/// The squared error of the sums, and the square of the exact sums to which it is compared.
#[derive(Debug, Clone, Copy, Default)]
struct SquaredError {
    off: f64,
    square: f64,
}

impl Work for Quantised {
    async fn new(job: &Job, args: &AllReduceArgs, elements: usize) -> Result<Self> {
        Ok(Self {
            reducer: job.quantised(elements, args.feedback).await?,
            tensor: vec![0.0; elements],
            sent: None,
            residuals: vec![Residual::default(); job.ranks().len()],
            feedback: args.feedback,
            error: SquaredError::default(),
        })
    }

    fn fill(&mut self, job: &Job, iteration: u32) -> Result<()> {
        contribution::fill_as_gradient(&mut self.tensor, job.rank(), iteration);
        Ok(())
    }

    async fn reduce(&mut self, job: &Job, name: &str) -> Result<()> {
        self.sent = Some(self.reducer.all_reduce(job, name, &mut self.tensor).await?);
        Ok(())
    }

    /// Compares the sum of the levels with the expected bits, which follow from all ranks' contributions
    /// and their agreed levels. The difference from the unquantised sum is the error of the quantisation.
    fn check(&mut self, job: &Job, iteration: u32) -> Result<()> {
        let sent = self.sent.as_ref().context("nothing was reduced")?;
        let len = self.tensor.len();
        let lanes = Lanes::new(&sent.codebook, u32::try_from(job.ranks().len())?, len)?;
        let (mut added, mut exact) = (vec![0_i32; lanes.count()], vec![0.0_f64; len]);
        let mut gradient = vec![0.0; len];
        for (rank, residual) in job.ranks().iter().zip(&mut self.residuals) {
            contribution::fill_as_gradient(&mut gradient, *rank, iteration);
            exact.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += f64::from(*value));
            let wanted = residual.added_to(&gradient);
            let own = lanes.pack(&wanted)?;
            added.iter_mut().zip(&own).for_each(|(sum, lane)| *sum += lane);
            if self.feedback {
                residual.set(wanted, &lanes.sum_of(&own, 1)?);
            }
        }
        let expected = lanes.sum(&added)?;
        for (element, ((sum, expected), exact)) in self.tensor.iter().zip(&expected).zip(&exact).enumerate() {
            if sum != expected {
                let rank = job.rank();
                bail!(
                    "rank {rank}, iteration {iteration}: the sum of element {element} is {sum}, not {expected}"
                );
            }
            self.error.off += (f64::from(*sum) - exact).powi(2);
            self.error.square += exact.powi(2);
        }
        Ok(())
    }

    fn quantisation(&self) -> Option<Quantisation> {
        let sent = self.sent.as_ref()?;
        let error = (self.error.square > 0.0).then(|| self.error.off / self.error.square);
        Some(Quantisation { bytes: (sent.elements * size_of::<i32>()) as u64, error })
    }
}
