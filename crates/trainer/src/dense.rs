//! One fully connected layer, read and differentiated in place in the model's flat parameters.
//!
//! All matrices hold one sample per row. The products are `matrixmultiply`'s, through ndarray: vectorised for the CPU
//! at run time, and on the calling thread alone.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis};

/// A layer's parameters: `IN` rows of `OUT` weights, then `OUT` biases.
pub(crate) struct Dense<'a, const IN: usize, const OUT: usize> {
    weights: ArrayView2<'a, f32>,
    bias: ArrayView1<'a, f32>,
}

/// A layer's gradient, to be written; laid out like [`Dense`].
pub(crate) struct DenseGradient<'a, const IN: usize, const OUT: usize> {
    weights: ArrayViewMut2<'a, f32>,
    bias: ArrayViewMut1<'a, f32>,
}

impl<'a, const IN: usize, const OUT: usize> Dense<'a, IN, OUT> {
    /// Number of parameters of a layer.
    pub(crate) const PARAMETERS: usize = IN * OUT + OUT;

    /// Splits the layer off the front of `flat`, which must hold at least its parameters.
    pub(crate) fn split(flat: &'a [f32]) -> (Self, &'a [f32]) {
        let (weights, rest) = flat.split_at(IN * OUT);
        let (bias, rest) = rest.split_at(OUT);
        let (rows, _) = weights.as_chunks::<OUT>();
        (Self { weights: ArrayView2::from(rows), bias: ArrayView1::from(bias) }, rest)
    }

    /// `input · weights + bias`.
    pub(crate) fn forward(&self, input: &ArrayRef2<f32>) -> Array2<f32> {
        let mut output = Array2::zeros((input.nrows(), OUT));
        output += &self.bias;
        general_mat_mul(1.0, input, &self.weights, 1.0, &mut output);
        output
    }

    /// The loss's derivative with respect to this layer's input; `delta` is the one with
    /// respect to its output.
    pub(crate) fn backward(&self, delta: &Array2<f32>) -> Array2<f32> {
        delta.dot(&self.weights.t())
    }
}

impl<'a, const IN: usize, const OUT: usize> DenseGradient<'a, IN, OUT> {
    /// Splits the layer off the front of `flat`, which must hold at least its parameters.
    pub(crate) fn split(flat: &'a mut [f32]) -> (Self, &'a mut [f32]) {
        let (weights, rest) = flat.split_at_mut(IN * OUT);
        let (bias, rest) = rest.split_at_mut(OUT);
        let (rows, _) = weights.as_chunks_mut::<OUT>();
        (Self { weights: ArrayViewMut2::from(rows), bias: ArrayViewMut1::from(bias) }, rest)
    }

    /// Writes the gradient, summed over the samples, from the layer's input and `delta`, the loss's
    /// derivative with respect to its output.
    pub(crate) fn store(&mut self, input: &ArrayRef2<f32>, delta: &Array2<f32>) {
        general_mat_mul(1.0, &input.t(), delta, 0.0, &mut self.weights);
        self.bias.assign(&delta.sum_axis(Axis(0)));
    }
}

/// The rectifier, in place.
pub(crate) fn relu(values: &mut Array2<f32>) {
    values.mapv_inplace(|value| value.max(0.0));
}

/// Multiplies `delta` by the rectifier's derivative, which is known from its `output`.
pub(crate) fn relu_backward(delta: &mut Array2<f32>, output: &Array2<f32>) {
    delta.zip_mut_with(output, |delta, &output| {
        if output <= 0.0 {
            *delta = 0.0;
        }
    });
}
