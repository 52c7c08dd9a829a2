//! A fully connected layer, whose parameters are read in place from the model's flat vector.
//!
//! All matrices have one sample per row. `matrixmultiply` computes the products, through ndarray. It selects vector
//! instructions of the CPU at run time, and uses only the calling thread.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis};

/// A layer's parameters: `IN` rows of `OUT` weights, then `OUT` biases.
pub(crate) struct Dense<'a, const IN: usize, const OUT: usize> {
    weights: ArrayView2<'a, f32>,
    bias: ArrayView1<'a, f32>,
}

/// The memory for a layer's gradient, with the layout of [`Dense`].
pub(crate) struct DenseGradient<'a, const IN: usize, const OUT: usize> {
    weights: ArrayViewMut2<'a, f32>,
    bias: ArrayViewMut1<'a, f32>,
}

impl<'a, const IN: usize, const OUT: usize> Dense<'a, IN, OUT> {
    /// The number of parameters of a layer.
    pub(crate) const PARAMETERS: usize = IN * OUT + OUT;

    /// Takes the layer from the front of `flat`, which must have at least the layer's parameters.
    /// Returns the layer and the rest of `flat`.
    pub(crate) fn split(flat: &'a [f32]) -> (Self, &'a [f32]) {
        let (weights, rest) = flat.split_at(IN * OUT);
        let (bias, rest) = rest.split_at(OUT);
        let (rows, _) = weights.as_chunks::<OUT>();
        (Self { weights: ArrayView2::from(rows), bias: ArrayView1::from(bias) }, rest)
    }

    /// Returns `input · weights + bias`.
    pub(crate) fn forward(&self, input: &ArrayRef2<f32>) -> Array2<f32> {
        let mut output = Array2::zeros((input.nrows(), OUT));
        output += &self.bias;
        general_mat_mul(1.0, input, &self.weights, 1.0, &mut output);
        output
    }

    /// Returns the derivative of the loss with respect to this layer's input.
    /// `delta` is the derivative with respect to the layer's output.
    pub(crate) fn backward(&self, delta: &Array2<f32>) -> Array2<f32> {
        delta.dot(&self.weights.t())
    }
}

impl<'a, const IN: usize, const OUT: usize> DenseGradient<'a, IN, OUT> {
    /// Takes the memory for the layer from the front of `flat`, which must have at least the layer's
    /// parameters.
    /// Returns it and the rest of `flat`.
    pub(crate) fn split(flat: &'a mut [f32]) -> (Self, &'a mut [f32]) {
        let (weights, rest) = flat.split_at_mut(IN * OUT);
        let (bias, rest) = rest.split_at_mut(OUT);
        let (rows, _) = weights.as_chunks_mut::<OUT>();
        (Self { weights: ArrayViewMut2::from(rows), bias: ArrayViewMut1::from(bias) }, rest)
    }

    /// Writes the gradient, summed over the samples.
    /// `input` is the layer's input, and `delta` is the derivative of the loss with respect to its output.
    pub(crate) fn store(&mut self, input: &ArrayRef2<f32>, delta: &Array2<f32>) {
        general_mat_mul(1.0, &input.t(), delta, 0.0, &mut self.weights);
        self.bias.assign(&delta.sum_axis(Axis(0)));
    }
}

/// Applies the rectifier (ReLU) in place.
pub(crate) fn relu(values: &mut Array2<f32>) {
    values.mapv_inplace(|value| value.max(0.0));
}

/// Multiplies `delta` by the derivative of the rectifier, which follows from the rectifier's `output`.
pub(crate) fn relu_backward(delta: &mut Array2<f32>, output: &Array2<f32>) {
    delta.zip_mut_with(output, |delta, &output| {
        if output <= 0.0 {
            *delta = 0.0;
        }
    });
}
