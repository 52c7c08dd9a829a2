//! Momentum: each step adds a fraction of the previous step.

use super::rule::{Optimizer, OptimizerState};

/// Returns the usual value.
pub(super) fn default_momentum() -> f32 {
    0.9
}

/// The rule `v ← momentum · v + g; W ← W − rate · v`.
pub(super) struct Momentum {
    momentum: f32,
    /// The state: the vector v.
    state: OptimizerState,
}

impl Momentum {
    pub(super) fn new(momentum: f32, state: OptimizerState) -> Self {
        Self { momentum, state }
    }
}

impl Optimizer for Momentum {
    fn update(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32) {
        self.state.steps += 1;
        let velocity = self.state.vectors.iter_mut().flatten();
        for ((parameter, gradient), velocity) in parameters.iter_mut().zip(gradient).zip(velocity) {
            *velocity = self.momentum * *velocity + gradient;
            *parameter -= rate * *velocity;
        }
    }

    fn state(&self) -> OptimizerState {
        self.state.clone()
    }
}
