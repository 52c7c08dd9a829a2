//! The codec `one-bit`, which sends signs.
//!
//! Source: Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training
//! of Speech DNNs", Interspeech 2014.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::bits::{pack, packed_len};
use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::{Kind, Lossy};
use crate::levels::look_up;
use crate::pieces::PIECE;
use crate::wire::{Header, Reader, no_parameter};
use crate::write::Write;

pub(crate) const ID: u8 = 6;
const WIDTH: u32 = 1;

/// Sends the sign of each value.
/// A sign stands for the mean of all values with this sign; 0 counts as positive.
///
/// The paper has separate means for each column of a weight matrix. Here the means are over the whole gradient. For
/// means by column or layer, encode these separately. One bit is not enough without error feedback (`one-bit-ef`),
/// which the paper uses from the first gradient on.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneBit;

impl Codec for OneBit {
    fn kind(&self) -> Kind {
        Lossy::OneBit.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let mut code = Header::start(ID, 0, gradient, 8 + packed_len(gradient.len(), WIDTH))?;
        means(gradient).iter().for_each(|mean| code.extend(mean.to_le_bytes()));
        let fill = |start: usize, indexes: &mut [u8], _: &mut ()| {
            for (index, value) in indexes.iter_mut().zip(&gradient[start..]) {
                *index = u8::from(*value < 0.0);
            }
        };
        pack(&mut code, gradient.len(), WIDTH, fill, |(), ()| ());
        Ok(code)
    }
}

/// Returns the mean of the non-negative values and the mean of the negative values; 0 if there are
/// none.
fn means(gradient: &[f32]) -> [f32; 2] {
    // The sums of pieces are added in order, so that the result does not depend on the number of cores.
    let pieces: Vec<Signs> = gradient.par_chunks(PIECE).map(Signs::of).collect();
    let total = pieces.iter().fold(Signs::default(), |total, piece| Signs {
        positive: total.positive + piece.positive,
        negative: total.negative + piece.negative,
        negatives: total.negatives + piece.negatives,
    });
    let mean = |sum: f64, count: usize| if count > 0 { (sum / count as f64) as f32 } else { 0.0 };
    let positives = gradient.len() - total.negatives;
    [mean(total.positive, positives), mean(total.negative, total.negatives)]
}

/// The sums of values, by sign.
#[derive(Debug, Clone, Copy, Default)]
struct Signs {
    /// The sum of all non-negative values.
    positive: f64,
    /// The sum of all negative values.
    negative: f64,
    /// The number of negative values.
    negatives: usize,
}

/// The number of parallel sums. It fills vector registers, so that no addition waits for another one.
const LANES: usize = 16;

impl Signs {
    fn of(values: &[f32]) -> Self {
        let (mut positive, mut negative, mut negatives) = ([0.0; LANES], [0.0; LANES], [0; LANES]);
        let (whole, rest) = values.as_chunks();
        // The padding with zeros does not change the sums, and zeros do not count as negative.
        let mut last = [0.0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        add(whole, &mut positive, &mut negative, &mut negatives);
        add(&[last], &mut positive, &mut negative, &mut negatives);
        Self {
            positive: positive.iter().sum(),
            negative: negative.iter().sum(),
            negatives: negatives.iter().sum::<u32>() as usize,
        }
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn add(
    rows: &[[f32; LANES]],
    positive: &mut [f64; LANES],
    negative: &mut [f64; LANES],
    negatives: &mut [u32; LANES],
) {
    for row in rows {
        for lane in 0..LANES {
            let value = f64::from(row[lane]);
            positive[lane] += value.max(0.0);
            negative[lane] += value.min(0.0);
            negatives[lane] += u32::from(row[lane] < 0.0);
        }
    }
}

pub(crate) fn open(parameter: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    no_parameter(parameter)?;
    let means = [body.f32("the mean of the positive values")?, body.f32("the mean of the negative values")?];
    if means[0] < 0.0 || means[1] > 0.0 {
        return Err(DecodeError::Field {
            field: "the means of the positive and of the negative values",
            value: format!("{means:?}"),
            rule: "neither must have the other's sign",
        });
    }
    let packed = body.take_rest(packed_len(values, WIDTH))?;
    Ok(Box::new(move |out| look_up(packed, WIDTH, &means, out)))
}
