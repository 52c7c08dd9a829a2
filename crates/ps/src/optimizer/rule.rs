//! The interface of all update rules.

use serde::{Deserialize, Serialize};

/// An update rule, with its state from one update to the next.
pub trait Optimizer: Send {
    /// Makes one update.
    /// `parameters` and `gradient` have the length for which the optimiser was made; `rate` is the learning rate of
    /// this step.
    fn update(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32);

    /// The state for a checkpoint.
    fn state(&self) -> OptimizerState;
}

/// The state of an optimiser.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OptimizerState {
    /// The number of updates made.
    pub steps: u64,
    /// Vectors as long as the parameters, in an order that the optimiser defines.
    pub vectors: Vec<Vec<f32>>,
}
