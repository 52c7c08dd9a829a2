//! Training workloads: a model and its data, with the operations that a study needs.

mod digits;
mod torch;

use anyhow::Result;
use clap::ValueEnum;

pub(crate) use digits::DigitsNet;
pub(crate) use torch::Torch;

/// A model and its data. Several threads may request gradients at once.
pub(crate) trait Workload: Sync {
    /// Returns the number of parameters of the model.
    fn parameters(&self) -> usize;

    /// Returns the parameters before the training.
    ///
    /// # Errors
    /// The model cannot be made.
    fn initial(&self, seed: u64) -> Result<Vec<f32>>;

    /// Returns the class of each training sample, or another number that similar samples share.
    fn labels(&self) -> &[usize];

    /// Writes the gradient at `parameters` to `out`: the mean over the samples.
    ///
    /// # Errors
    /// The gradient cannot be computed.
    fn gradient(&self, parameters: &[f32], samples: &[usize], out: &mut [f32]) -> Result<()>;

    /// Returns the share of held-out data that the model classifies correctly, from 0 to 1.
    ///
    /// # Errors
    /// The accuracy cannot be computed.
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
    /// Returns the model's name in file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Cnn => "cnn",
            Self::Transformer => "transformer",
        }
    }

    /// Loads the model and its data.
    ///
    /// # Errors
    /// The model needs PyTorch, and PyTorch is missing.
    pub(crate) fn load(self, python: &str) -> Result<Box<dyn Workload>> {
        Ok(match self {
            Self::Digits => Box::new(DigitsNet::new()?),
            Self::Cnn | Self::Transformer => Box::new(Torch::start(python, self.name())?),
        })
    }
}
