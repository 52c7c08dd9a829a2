//! The interface of all optimisers.

use serde::{Deserialize, Serialize};

/// An update rule and its state.
pub trait Optimizer: Send {
    /// Makes one update. `parameters` and `gradient` have the length for which the optimiser was built;
    /// `rate` is the learning rate of this update.
    fn update(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32);

    /// Returns the state for a checkpoint.
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
