//! The codec `terngrad`, which sends a sign or nothing.
//!
//! Source: Wen et al., "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning", NeurIPS
//! 2017.

use rayon::prelude::*;

use crate::bits::{pack, packed_len};
use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::hash;
use crate::kind::{Kind, Lossy};
use crate::levels::look_up;
use crate::pieces::PIECE;
use crate::wire::{Header, Reader, no_parameter};
use crate::write::Write;

pub(crate) const ID: u8 = 3;
const WIDTH: u32 = 2;
/// The number of standard deviations at which values are clipped, as in the paper.
/// Without clipping, one large value would set nearly all other values to 0.
const CLIP: f64 = 2.5;
/// The number of random bits for a choice. It is the largest number that f32 holds exactly.
const RANDOM_BITS: u32 = 24;
/// The number that represents probability 1. All random numbers are below it.
const CERTAIN: f32 = (1 << RANDOM_BITS) as f32;

/// Clips a gradient at 2.5 standard deviations, and sends each value as +s, −s or 0.
/// s is the largest magnitude. A value is sent as ±s with probability |value| / s, and otherwise as 0. Except for
/// clipped values, the decoded values are unbiased, so the errors of many workers and rounds cancel out.
#[derive(Debug, Clone)]
pub struct TernGrad {
    seed: u32,
}

impl TernGrad {
    /// Makes an encoder. Its random choices are derived from `seed`.
    /// The seeds of workers must differ. Otherwise their errors are equal and do not cancel out.
    pub fn new(seed: u64) -> Self {
        Self { seed: hash::random(seed as u32, (seed >> 32) as u32) }
    }
}

impl Codec for TernGrad {
    fn kind(&self) -> Kind {
        Lossy::TernGrad.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let scale = scale(gradient);
        let mut code = Header::start(ID, 0, gradient, 4 + packed_len(gradient.len(), WIDTH))?;
        code.extend(scale.to_le_bytes());
        self.seed = hash::random(self.seed, 1);
        let seed = self.seed;
        let fill = |start: usize, indexes: &mut [u8], _: &mut ()| {
            let values = gradient[start..].iter().zip(start as u32..);
            for (index, (&value, position)) in indexes.iter_mut().zip(values) {
                // Clipped values have probability 1. If the scale is 0, all values are 0.
                let below = value.abs() / scale.max(f32::MIN_POSITIVE) * CERTAIN;
                let sent = ((hash::random(seed, position) >> (u32::BITS - RANDOM_BITS)) as f32) < below;
                *index = u8::from(sent) << u8::from(value < 0.0);
            }
        };
        pack(&mut code, gradient.len(), WIDTH, fill, |(), ()| ());
        Ok(code)
    }
}

/// Returns the scale s: the largest magnitude after clipping.
fn scale(gradient: &[f32]) -> f32 {
    let of_piece = |values: &[f32]| {
        values.iter().fold((0.0_f64, 0.0_f64, 0.0_f32), |(sum, squares, largest), &value| {
            let wide = f64::from(value);
            (sum + wide, squares + wide * wide, largest.max(value.abs()))
        })
    };
    // The sums of pieces are added in order, so that the result does not depend on the number of cores.
    let pieces: Vec<_> = gradient.par_chunks(PIECE).map(of_piece).collect();
    let total = pieces.iter().fold((0.0, 0.0, 0.0_f32), |total, piece| {
        (total.0 + piece.0, total.1 + piece.1, total.2.max(piece.2))
    });
    let n = gradient.len().max(1) as f64;
    let mean = total.0 / n;
    let deviation = (total.1 / n - mean * mean).max(0.0).sqrt();
    // If all values are (nearly) equal, the deviation is zero and nothing is clipped.
    let clip = (CLIP * deviation).min(f64::from(f32::MAX)) as f32;
    if clip > 0.0 { total.2.min(clip) } else { total.2 }
}

pub(crate) fn open(parameter: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    no_parameter(parameter)?;
    let scale = body.f32("the scale")?;
    if scale < 0.0 {
        return Err(DecodeError::Field {
            field: "the scale",
            value: scale.to_string(),
            rule: "it must not be negative",
        });
    }
    let packed = body.take_rest(packed_len(values, WIDTH))?;
    Ok(Box::new(move |out| look_up(packed, WIDTH, &[0.0, scale, -scale], out)))
}
