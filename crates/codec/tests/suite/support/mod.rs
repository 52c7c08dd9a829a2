//! Gradients for the tests.

use proptest::collection::vec;
use proptest::prelude::*;
use tributary_codec::{Codec, Kind};

/// A codec of every kind and width. Codecs that support error feedback are also listed with it.
pub(crate) const ALL: [&str; 38] = [
    "none",
    "f16",
    "uniform-1",
    "uniform-2",
    "uniform-3",
    "uniform-4",
    "uniform-5",
    "uniform-6",
    "uniform-7",
    "uniform-8",
    "terngrad",
    "one-bit",
    "top-2",
    "top-3",
    "top-100",
    "top-1000",
    "top-65535",
    "quantile-2",
    "quantile-4",
    "quantile-8",
    "quantile-16",
    "quantile-32",
    "quantile-64",
    "quantile-128",
    "quantile-256",
    "casq-4",
    "casq-8",
    "f16-ef",
    "uniform-2-ef",
    "uniform-8-ef",
    "terngrad-ef",
    "one-bit-ef",
    "top-100-ef",
    "quantile-4-ef",
    "quantile-256-ef",
    "casq-4-ef",
    "casq-8-ef",
    "casq-4-shared",
];

/// Generates values of any size with many equal values, like in gradients.
pub(crate) fn gradients() -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![
        3 => -1.0f32..1.0,
        1 => Just(0.0f32),
        1 => prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
    ];
    let values = prop_oneof![vec(value, 0..600), vec(-1.0f32..1.0, 0..3000), vec(Just(-0.25f32), 0..20)];
    // Some gradients have several blocks and pieces.
    (values, prop_oneof![9 => Just(1usize), 1 => Just(40)]).prop_map(|(values, times)| values.repeat(times))
}

/// Makes an encoder. If it needs an agreement, it has agreed with itself.
pub(crate) fn codec(name: &str, gradient: &[f32]) -> Box<dyn Codec> {
    let mut codec = name.parse::<Kind>().unwrap().codec(7);
    if let Some(sketch) = codec.propose(gradient).unwrap()
        && !gradient.is_empty()
    {
        codec.agree(&sketch).unwrap();
    }
    codec
}

/// Returns the code of a gradient.
pub(crate) fn encode(name: &str, gradient: &[f32]) -> Vec<u8> {
    codec(name, gradient).encode(gradient).unwrap()
}

/// Returns a fixed long-tailed gradient.
pub(crate) fn long_tailed(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at as f32 * 0.7).sin() * 1.2).powi(5)).collect()
}

/// Returns the squared error, relative to the squared norm of the gradient.
pub(crate) fn error(gradient: &[f32], decoded: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let off: f64 = gradient.iter().zip(decoded).map(|(a, b)| square(a - b)).sum();
    off / gradient.iter().map(|value| square(*value)).sum::<f64>()
}
