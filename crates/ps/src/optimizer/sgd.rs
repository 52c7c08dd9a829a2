//! Plain stochastic gradient descent.

use super::rule::{Optimizer, OptimizerState};

/// The rule `W ← W − rate · g`.
pub(super) struct Sgd {
    state: OptimizerState,
}

impl Sgd {
    pub(super) fn new(state: OptimizerState) -> Self {
        Self { state }
    }
}

impl Optimizer for Sgd {
    fn update(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32) {
        self.state.steps += 1;
        for (parameter, gradient) in parameters.iter_mut().zip(gradient) {
            *parameter -= rate * gradient;
        }
    }

    fn state(&self) -> OptimizerState {
        self.state.clone()
    }
}
