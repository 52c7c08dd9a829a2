//! The network: 64 inputs (pixels), two hidden layers with rectifiers, and softmax over ten digits.

use std::ops::Range;

use ndarray::{Array2, ArrayViewMut1};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::dense::{Dense, DenseGradient, relu, relu_backward};
use crate::error::TrainerError;
use crate::images::{CLASSES, Images, PIXELS};

const HIDDEN_1: usize = 512;
const HIDDEN_2: usize = 128;

type Layer1<'a> = Dense<'a, PIXELS, HIDDEN_1>;
type Layer2<'a> = Dense<'a, HIDDEN_1, HIDDEN_2>;
type Layer3<'a> = Dense<'a, HIDDEN_2, CLASSES>;

/// The number of the network's parameters, and of values in its gradient.
pub const PARAMETERS: usize = Layer1::PARAMETERS + Layer2::PARAMETERS + Layer3::PARAMETERS;

/// The random stream of a seed from which the initial weights are drawn.
/// Epoch e is shuffled with stream e + 1.
const WEIGHTS_STREAM: u64 = 0;

/// The network's parameters. Each layer has a row of weights for each input, and then the biases.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    parameters: Vec<f32>,
}

/// The output of each layer for a set of images.
struct Activations {
    hidden_1: Array2<f32>,
    hidden_2: Array2<f32>,
    logits: Array2<f32>,
}

impl Model {
    /// Makes a new network with random weights. Biases are 0.
    /// Weights are uniform with the variance 2 / inputs, which keeps the size of the signal through rectifiers (He et
    /// al., "Delving Deep into Rectifiers", 2015).
    pub fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(WEIGHTS_STREAM);
        let mut parameters = Vec::with_capacity(PARAMETERS);
        for (inputs, outputs) in [(PIXELS, HIDDEN_1), (HIDDEN_1, HIDDEN_2), (HIDDEN_2, CLASSES)] {
            // A uniform distribution on ±a has the variance a² / 3.
            let limit = (6.0 / inputs as f32).sqrt();
            parameters.extend((0..inputs * outputs).map(|_| random.random_range(-limit..limit)));
            parameters.resize(parameters.len() + outputs, 0.0);
        }
        Self { parameters }
    }

    /// Makes a network from the [`parameters`](Self::parameters) of another one.
    ///
    /// # Errors
    ///
    /// [`TrainerError::WrongLength`] if their number is not [`PARAMETERS`].
    pub fn from_parameters(parameters: Vec<f32>) -> Result<Self, TrainerError> {
        check_length(&parameters)?;
        Ok(Self { parameters })
    }

    /// Returns the parameters. Their number is [`PARAMETERS`].
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Returns the range of each layer in the parameters, and in a gradient.
    pub fn layers() -> [Range<usize>; 3] {
        let second = Layer1::PARAMETERS + Layer2::PARAMETERS;
        [0..Layer1::PARAMETERS, Layer1::PARAMETERS..second, second..PARAMETERS]
    }

    /// Writes the gradient of the cross-entropy loss to `out`, *summed* over the images.
    /// Returns the sum of the losses (in nats).
    ///
    /// # Errors
    ///
    /// [`TrainerError::WrongLength`] if the length of `out` is not [`PARAMETERS`].
    pub fn gradient(&self, batch: &Images, out: &mut [f32]) -> Result<f64, TrainerError> {
        check_length(out)?;
        let Activations { hidden_1, hidden_2, logits } = self.forward(batch);
        let (layer_2, layer_3) = {
            let (_, rest) = Layer1::split(&self.parameters);
            let (layer_2, rest) = Layer2::split(rest);
            (layer_2, Layer3::split(rest).0)
        };
        let (mut gradient_1, rest) = DenseGradient::<PIXELS, HIDDEN_1>::split(out);
        let (mut gradient_2, rest) = DenseGradient::<HIDDEN_1, HIDDEN_2>::split(rest);
        let (mut gradient_3, _) = DenseGradient::<HIDDEN_2, CLASSES>::split(rest);

        let mut delta = logits;
        let loss = softmax_cross_entropy(&mut delta, batch.labels());
        gradient_3.store(&hidden_2, &delta);
        delta = layer_3.backward(&delta);
        relu_backward(&mut delta, &hidden_2);
        gradient_2.store(&hidden_1, &delta);
        delta = layer_2.backward(&delta);
        relu_backward(&mut delta, &hidden_1);
        gradient_1.store(&batch.pixels(), &delta);
        Ok(loss)
    }

    /// Takes one step of SGD: `parameters -= learning_rate / total_samples · summed`.
    /// `summed` is the sum of the gradients of `total_samples` images.
    ///
    /// # Errors
    ///
    /// [`TrainerError::WrongLength`] if the length of `summed` is not [`PARAMETERS`]; [`TrainerError::NoSamples`] if
    /// `total_samples` is 0. The model is then unchanged.
    pub fn apply(
        &mut self,
        summed: &[f32],
        total_samples: u64,
        learning_rate: f32,
    ) -> Result<(), TrainerError> {
        check_length(summed)?;
        if total_samples == 0 {
            return Err(TrainerError::NoSamples);
        }
        let step = learning_rate / total_samples as f32;
        for (parameter, gradient) in self.parameters.iter_mut().zip(summed) {
            *parameter -= step * gradient;
        }
        Ok(())
    }

    /// Returns the share of `images` that the network classifies correctly, from 0 to 1; 0 without images.
    pub fn accuracy(&self, images: &Images) -> f64 {
        let logits = self.forward(images).logits;
        let correct = logits.rows().into_iter().zip(images.labels()).filter(|(row, label)| {
            let best = row.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            best.is_some_and(|(class, _)| class == *label)
        });
        correct.count() as f64 / images.len().max(1) as f64
    }

    fn forward(&self, images: &Images) -> Activations {
        let (layer_1, rest) = Layer1::split(&self.parameters);
        let (layer_2, rest) = Layer2::split(rest);
        let (layer_3, _) = Layer3::split(rest);
        let mut hidden_1 = layer_1.forward(&images.pixels());
        relu(&mut hidden_1);
        let mut hidden_2 = layer_2.forward(&hidden_1);
        relu(&mut hidden_2);
        let logits = layer_3.forward(&hidden_2);
        Activations { hidden_1, hidden_2, logits }
    }
}

fn check_length(gradient: &[f32]) -> Result<(), TrainerError> {
    if gradient.len() == PARAMETERS {
        return Ok(());
    }
    Err(TrainerError::WrongLength { expected: PARAMETERS, got: gradient.len() })
}

/// Replaces each row of logits by the derivative of the loss with respect to them, which is softmax −
/// one-hot.
/// Returns the sum of the losses.
fn softmax_cross_entropy(logits: &mut Array2<f32>, labels: impl Iterator<Item = usize>) -> f64 {
    logits.rows_mut().into_iter().zip(labels).map(|(row, label)| softmax_row(row, label)).sum()
}

fn softmax_row(mut row: ArrayViewMut1<'_, f32>, label: usize) -> f64 {
    // A shift of all logits does not change softmax, and prevents an overflow of exp.
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let target = row[label] - max;
    row.mapv_inplace(|logit| (logit - max).exp());
    let total = row.sum();
    row /= total;
    row[label] -= 1.0;
    f64::from(total.ln() - target)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::digits::Digits;

    const LAYER_1: Range<usize> = 0..Layer1::PARAMETERS;
    const LAYER_2: Range<usize> = LAYER_1.end..LAYER_1.end + Layer2::PARAMETERS;
    const LAYER_3: Range<usize> = LAYER_2.end..PARAMETERS;

    fn batch(images: usize) -> Images {
        Digits::embedded().unwrap().training.select(&(0..images).collect::<Vec<_>>())
    }

    fn gradient(model: &Model, batch: &Images) -> Vec<f32> {
        let mut gradient = vec![f32::NAN; PARAMETERS];
        model.gradient(batch, &mut gradient).unwrap();
        gradient
    }

    /// Returns the loss after adding `direction · step` to the parameters in `range`.
    fn loss_beside(model: &Model, batch: &Images, range: Range<usize>, direction: &[f32], step: f32) -> f64 {
        let mut moved = model.clone();
        for (parameter, direction) in moved.parameters[range].iter_mut().zip(direction) {
            *parameter += step * direction;
        }
        moved.gradient(batch, &mut vec![0.0; PARAMETERS]).unwrap()
    }

    /// Returns the relative error of the gradient along `direction`.
    /// It is the difference between the slope of the loss, by central differences, and the projection of the gradient.
    /// It is relative to the larger of that projection and the typical projection on a random direction.
    fn slope_error(model: &Model, batch: &Images, range: Range<usize>, direction: &[f32]) -> f64 {
        // A larger step would cross more kinks of the rectifiers. With a smaller one, rounding errors would dominate.
        let step = 1e-3 / dot(direction, direction).sqrt() as f32;
        let up = loss_beside(model, batch, range.clone(), direction, step);
        let down = loss_beside(model, batch, range.clone(), direction, -step);
        let measured = (up - down) / (2.0 * f64::from(step));
        let gradient = &gradient(model, batch)[range];
        let computed = dot(gradient, direction);
        let typical = (dot(gradient, gradient) * dot(direction, direction) / direction.len() as f64).sqrt();
        (measured - computed).abs() / typical.max(computed.abs())
    }

    fn dot(a: &[f32], b: &[f32]) -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let (model, batch) = (Model::new(3), batch(12));
        let gradient = gradient(&model, &batch);
        let mut random = ChaCha8Rng::seed_from_u64(9);
        for (layer, biases) in [(LAYER_1, HIDDEN_1), (LAYER_2, HIDDEN_2), (LAYER_3, CLASSES)] {
            // A layer's last parameters are its biases, which contribute little to the whole layer's slope.
            let (weights, biases) = (layer.start..layer.end - biases, layer.end - biases..layer.end);
            for range in [weights, biases] {
                let steepest = slope_error(&model, &batch, range.clone(), &gradient[range.clone()]);
                assert!(steepest < 2e-3, "parameters {range:?}: off by {steepest} along the gradient");
                for _ in 0..4 {
                    let direction: Vec<f32> = range.clone().map(|_| random.random_range(-1.0..1.0)).collect();
                    let error = slope_error(&model, &batch, range.clone(), &direction);
                    assert!(error < 0.03, "parameters {range:?}: off by {error} along a random direction");
                }
            }
        }
    }

    #[test]
    fn initial_weights_have_he_variance_and_no_bias() {
        let model = Model::new(5);
        assert_eq!(model.parameters().len(), PARAMETERS);
        for (range, inputs, outputs) in
            [(LAYER_1, PIXELS, HIDDEN_1), (LAYER_2, HIDDEN_1, HIDDEN_2), (LAYER_3, HIDDEN_2, CLASSES)]
        {
            let (weights, biases) = model.parameters[range].split_at(inputs * outputs);
            let variance = weights.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / weights.len() as f64;
            let ratio = variance / (2.0 / inputs as f64);
            assert!((0.9..1.1).contains(&ratio), "{inputs} inputs: {ratio} of the variance");
            assert!(biases.iter().all(|bias| *bias == 0.0));
        }
        assert_ne!(model, Model::new(6));
    }

    #[test]
    fn a_step_divides_by_the_samples() {
        let mut model = Model::new(1);
        let before = model.clone();
        let summed: Vec<f32> = (0..PARAMETERS).map(|index| (index % 7) as f32).collect();
        model.apply(&summed, 8, 0.5).unwrap();
        for ((after, before), gradient) in model.parameters.iter().zip(&before.parameters).zip(&summed) {
            assert_eq!(*after, before - 0.0625 * gradient);
        }
    }

    #[test]
    fn wrong_sizes_are_refused_and_change_nothing() {
        let mut model = Model::new(1);
        let before = model.clone();
        let refused = model.gradient(&batch(1), &mut [0.0; 3]).unwrap_err();
        assert!(matches!(refused, TrainerError::WrongLength { got: 3, .. }));
        assert!(matches!(model.apply(&[1.0; 3], 1, 1.0), Err(TrainerError::WrongLength { got: 3, .. })));
        assert!(matches!(model.apply(&vec![1.0; PARAMETERS], 0, 1.0), Err(TrainerError::NoSamples)));
        assert_eq!(model, before);
    }

    #[test]
    fn huge_logits_do_not_overflow_the_loss() {
        let mut model = Model::new(1);
        model.parameters.iter_mut().for_each(|parameter| *parameter *= 1e4);
        let mut gradient = vec![0.0; PARAMETERS];
        let loss = model.gradient(&batch(20), &mut gradient).unwrap();
        assert!(loss.is_finite() && gradient.iter().all(|value| value.is_finite()));
    }
}
