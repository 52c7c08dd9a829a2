//! Optimizers: the rules by which a gradient changes the parameters.

mod adam;
mod momentum;
mod rule;
mod sgd;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use adam::Adam;
use momentum::Momentum;
pub use rule::{Optimizer, OptimizerState};
use sgd::Sgd;

/// The kind of optimiser, and its constants. The learning rate belongs to the job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OptimizerKind {
    /// Stochastic gradient descent: `W ← W − rate · g`
    // The braces are needed: serde does not refuse unknown keys of a unit variant.
    Sgd {},
    /// `v ← momentum · v + g; W ← W − rate · v` (Polyak's heavy ball)
    Momentum {
        /// The fraction of the last step that is added to the next one; from 0 to below 1.
        #[serde(default = "momentum::default_momentum")]
        momentum: f32,
    },
    /// Adam (Kingma and Ba, 2015, algorithm 1).
    Adam {
        /// Decay of the mean of the gradients; from 0 to below 1.
        #[serde(default = "adam::default_beta1")]
        beta1: f32,
        /// Decay of the mean of the squared gradients; from 0 to below 1.
        #[serde(default = "adam::default_beta2")]
        beta2: f32,
        /// Number that is added to the root of the mean of the squares; above 0.
        #[serde(default = "adam::default_epsilon")]
        epsilon: f32,
    },
}

/// Invalid constants, or the state of another optimiser.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum OptimizerError {
    /// A constant is out of its range.
    #[error("the optimiser's {name} is {value}: {rule}")]
    Constant {
        /// The constant's name.
        name: &'static str,
        /// The constant's value.
        value: f32,
        /// The constant's valid range.
        rule: &'static str,
    },
    /// The checkpoint was made with another optimiser.
    #[error(
        "the checkpoint holds {got} vectors of optimiser state where {expected} of {length} values are needed: \
         was it made with another optimiser?"
    )]
    State {
        /// The number of vectors in this optimiser's state.
        expected: usize,
        /// The number of vectors in the checkpoint.
        got: usize,
        /// The number of values that each vector should have.
        length: usize,
    },
}

impl Default for OptimizerKind {
    fn default() -> Self {
        Self::Sgd {}
    }
}

impl OptimizerKind {
    /// Builds the optimiser of `length` parameters. `state` is `None` before its first step.
    ///
    /// # Errors
    /// [`OptimizerError`]: constants are out of range, or the state belongs to another optimiser.
    pub fn build(
        self,
        length: usize,
        state: Option<OptimizerState>,
    ) -> Result<Box<dyn Optimizer>, OptimizerError> {
        self.check()?;
        let expected = self.vectors();
        let fresh = || OptimizerState { steps: 0, vectors: vec![vec![0.0; length]; expected] };
        let state = state.unwrap_or_else(fresh);
        if state.vectors.len() != expected || state.vectors.iter().any(|vector| vector.len() != length) {
            return Err(OptimizerError::State { expected, got: state.vectors.len(), length });
        }
        Ok(match self {
            Self::Sgd {} => Box::new(Sgd::new(state)),
            Self::Momentum { momentum } => Box::new(Momentum::new(momentum, state)),
            Self::Adam { beta1, beta2, epsilon } => Box::new(Adam::new(beta1, beta2, epsilon, state)),
        })
    }

    /// Returns the number of vectors in the optimiser's state.
    pub(crate) fn vectors(self) -> usize {
        match self {
            Self::Sgd {} => 0,
            Self::Momentum { .. } => 1,
            Self::Adam { .. } => 2,
        }
    }

    fn check(self) -> Result<(), OptimizerError> {
        let fraction = |name, value: f32| {
            let rule = "from 0 to below 1 is needed";
            if (0.0..1.0).contains(&value) {
                Ok(())
            } else {
                Err(OptimizerError::Constant { name, value, rule })
            }
        };
        match self {
            Self::Sgd {} => Ok(()),
            Self::Momentum { momentum } => fraction("momentum", momentum),
            Self::Adam { beta1, beta2, epsilon } => {
                fraction("beta1", beta1)?;
                fraction("beta2", beta2)?;
                let (name, rule) = ("epsilon", "a finite number above 0 is needed");
                if epsilon > 0.0 && epsilon.is_finite() {
                    return Ok(());
                }
                Err(OptimizerError::Constant { name, value: epsilon, rule })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAM: OptimizerKind = OptimizerKind::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };

    fn steps(kind: OptimizerKind, gradients: &[f32]) -> Vec<f32> {
        let (mut optimizer, mut parameter) = (kind.build(1, None).unwrap(), [0.0f32]);
        let step = |gradient: &f32| {
            optimizer.update(&mut parameter, &[*gradient], 0.1);
            parameter[0]
        };
        gradients.iter().map(step).collect()
    }

    fn assert_close(got: &[f32], expected: &[f32]) {
        let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        assert!(got.iter().zip(expected).all(close), "{got:?}, not {expected:?}");
    }

    #[test]
    fn each_descends_as_its_definition_says() {
        assert_close(&steps(OptimizerKind::Sgd {}, &[1.0, 2.0]), &[-0.1, -0.3]);
        // The velocity v after each step: 1, then 0.5 + 2.
        assert_close(&steps(OptimizerKind::Momentum { momentum: 0.5 }, &[1.0, 2.0]), &[-0.1, -0.35]);
        // Adam's first step equals the rate, whatever the gradient's size. In the second step m̂ = 0.29 /
        // 0.19 and v̂ = 0.004999 / 0.001999.
        let second = -0.1 - 0.1 * (0.29 / 0.19) / (0.004_999f32 / 0.001_999).sqrt();
        assert_close(&steps(ADAM, &[1.0, 2.0]), &[-0.1, second]);
        assert_close(&steps(ADAM, &[1e-3]), &[-0.1]);
    }

    #[test]
    fn a_restored_state_goes_on_where_it_was() {
        for kind in [OptimizerKind::Sgd {}, OptimizerKind::Momentum { momentum: 0.9 }, ADAM] {
            let (mut whole, mut parameters) = (kind.build(2, None).unwrap(), [1.0f32, -1.0]);
            whole.update(&mut parameters, &[0.5, 2.0], 0.1);
            let (mut restored, mut same) = (kind.build(2, Some(whole.state())).unwrap(), parameters);
            whole.update(&mut parameters, &[0.25, -1.0], 0.1);
            restored.update(&mut same, &[0.25, -1.0], 0.1);
            assert_eq!(parameters, same);
            assert_eq!(whole.state(), restored.state());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(OptimizerKind::Momentum { momentum: 1.0 }.build(1, None).is_err());
        assert!(OptimizerKind::Momentum { momentum: f32::NAN }.build(1, None).is_err());
        assert!(OptimizerKind::Adam { beta1: 0.9, beta2: 0.999, epsilon: 0.0 }.build(1, None).is_err());
        let adams = ADAM.build(3, None).unwrap().state();
        assert!(OptimizerKind::Sgd {}.build(3, Some(adams.clone())).is_err());
        assert!(ADAM.build(4, Some(adams)).is_err());
    }
}
