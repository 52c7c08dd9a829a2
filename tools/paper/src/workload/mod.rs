//! Training workloads: a model and its data, as far as a study of workers needs them.

mod digits;
mod torch;

use anyhow::Result;
use clap::ValueEnum;

pub(crate) use digits::DigitsNet;
pub(crate) use torch::Torch;

/// A model and its data. Several threads may request gradients at once.
pub(crate) trait Workload: Sync {
    /// The number of parameters of the model.
    fn parameters(&self) -> usize;

    /// The parameters before the training.
    ///
    /// # Errors
    /// The model cannot be made.
    fn initial(&self, seed: u64) -> Result<Vec<f32>>;

    /// The class of each sample to train on, or what else samples are alike by.
    fn labels(&self) -> &[usize];

    /// Writes the gradient at `parameters` to `out`, the mean over the samples.
    ///
    /// # Errors
    /// It cannot be computed.
    fn gradient(&self, parameters: &[f32], samples: &[usize], out: &mut [f32]) -> Result<()>;

    /// The share of held-out data that the model gets right, 0 to 1.
    ///
    /// # Errors
    /// It cannot be computed.
    fn accuracy(&self, parameters: &[f32]) -> Result<f64>;
}

/// The models by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Model {
    /// The demo's network: 100,234 parameters, handwritten digits
    Digits,
    /// `examples/cnn.py`, wider: 1.2 million parameters, handwritten digits; needs PyTorch
    Cnn,
    /// `examples/transformer.py`, deeper: 1.2 million parameters, source code by the letter; needs PyTorch
    Transformer,
}

impl Model {
    /// The name that files have.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Cnn => "cnn",
            Self::Transformer => "transformer",
        }
    }

    /// Loads model and data.
    ///
    /// # Errors
    /// PyTorch is missing, and the model needs it.
    pub(crate) fn load(self, python: &str) -> Result<Box<dyn Workload>> {
        Ok(match self {
            Self::Digits => Box::new(DigitsNet::new()?),
            Self::Cnn | Self::Transformer => Box::new(Torch::start(python, self.name())?),
        })
    }
}
