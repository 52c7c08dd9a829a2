//! Adam: steps of about equal size for every parameter, with the defaults of its publication (Kingma
//! and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1).

use super::rule::{Optimizer, OptimizerState};

pub(super) fn default_beta1() -> f32 {
    0.9
}

pub(super) fn default_beta2() -> f32 {
    0.999
}

pub(super) fn default_epsilon() -> f32 {
    1e-8
}

/// The rule `m ← β1 m + (1 − β1) g; v ← β2 v + (1 − β2) g²; W ← W − rate · m̂ / (√v̂ + ε)`.
pub(super) struct Adam {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    /// The state: the vectors m and v.
    state: OptimizerState,
}

impl Adam {
    pub(super) fn new(beta1: f32, beta2: f32, epsilon: f32, state: OptimizerState) -> Self {
        Self { beta1, beta2, epsilon, state }
    }
}

impl Optimizer for Adam {
    fn update(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32) {
        self.state.steps += 1;
        let [means, squares] = &mut self.state.vectors[..] else { return };
        // m̂ = m / (1 − β1^t), v̂ = v / (1 − β2^t). The divisions correct that m and v start at 0. The
        // factors are computed in double precision, because 1 − 0.999 has only three correct digits in single
        // precision.
        let steps = self.state.steps as f64;
        let bias = |beta: f32| 1.0 - f64::from(beta).powf(steps);
        let rate = rate * (1.0 / bias(self.beta1)) as f32;
        let scale = (1.0 / bias(self.beta2)) as f32;
        let moments = means.iter_mut().zip(squares);
        for ((parameter, gradient), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments) {
            *mean = self.beta1 * *mean + (1.0 - self.beta1) * gradient;
            *square = self.beta2 * *square + (1.0 - self.beta2) * gradient * gradient;
            *parameter -= rate * *mean / ((*square * scale).sqrt() + self.epsilon);
        }
    }

    fn state(&self) -> OptimizerState {
        self.state.clone()
    }
}
