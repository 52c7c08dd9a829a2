//! The codec `f16`: half-precision floats with a common power of two.

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::{Kind, Lossy};
use crate::pieces::{BLOCK, PIECE};
use crate::wire::{Header, Reader, no_parameter};
use crate::write::Write;

pub(crate) const ID: u8 = 1;
const VALUE_LEN: usize = 2;

/// The exponent to which the largest magnitude is scaled: just below 2^15, half of the maximum of f16.
/// So rounding cannot overflow, and few small values underflow.
const TOP: i32 = 15;
/// The largest f16 below 2^[`TOP`].
const LARGEST: f32 = 32_752.0;
/// The powers for which both 2^power and its inverse are normal f32 numbers.
const POWERS: std::ops::RangeInclusive<i32> = -126..=126;

/// The encoder of half-precision floats.
/// Values have 11 significant bits if they are at least 2^-29 of the largest magnitude, and fewer bits below that.
#[derive(Debug, Clone, Copy, Default)]
pub struct F16;

impl Codec for F16 {
    fn kind(&self) -> Kind {
        Lossy::F16.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let power = power(gradient);
        let len = gradient.len() * VALUE_LEN;
        let mut code = Header::start(ID, 0, gradient, 4 + len)?;
        code.extend(power.to_le_bytes());
        let start = code.len();
        code.resize(start + len, 0);
        let factor = power_of_two(-power);
        // If f16 rounded a value up to 2^TOP, it would be decoded as 2^128, which f32 cannot hold.
        let most = if power + TOP > f32::MAX_EXP - 1 { LARGEST } else { f32::MAX };
        let brought = |value: f32| (value * factor).clamp(-most, most);
        let bytes = code[start..].par_chunks_mut(PIECE * VALUE_LEN);
        bytes.zip(gradient.par_chunks(PIECE)).for_each(|(bytes, values)| {
            let (mut scaled, mut halves) = ([0.0; BLOCK], [f16::ZERO; BLOCK]);
            for (bytes, values) in bytes.chunks_mut(BLOCK * VALUE_LEN).zip(values.chunks(BLOCK)) {
                let (scaled, halves) = (&mut scaled[..values.len()], &mut halves[..values.len()]);
                scaled.iter_mut().zip(values).for_each(|(scaled, value)| *scaled = brought(*value));
                halves.convert_from_f32_slice(scaled);
                for (bytes, half) in bytes.as_chunks_mut().0.iter_mut().zip(halves) {
                    *bytes = half.to_le_bytes();
                }
            }
        });
        Ok(code)
    }
}

pub(crate) fn open(parameter: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    no_parameter(parameter)?;
    let power = body.i32()?;
    if !POWERS.contains(&power) {
        return Err(DecodeError::Field {
            field: "the power",
            value: power.to_string(),
            rule: "-126 to 126 is possible",
        });
    }
    let factor = power_of_two(power);
    let bytes = body.take_rest(values * VALUE_LEN)?;
    Ok(Box::new(move |out| {
        let pieces = out.par_chunks_mut(PIECE).zip(bytes.par_chunks(PIECE * VALUE_LEN));
        pieces.for_each(|(out, bytes)| {
            let mut halves = [f16::ZERO; BLOCK];
            for (out, bytes) in out.chunks_mut(BLOCK).zip(bytes.chunks(BLOCK * VALUE_LEN)) {
                let halves = &mut halves[..out.len()];
                for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks().0) {
                    *half = f16::from_le_bytes(*bytes);
                }
                halves.convert_to_f32_slice(out);
                out.iter_mut().for_each(|value| *value *= factor);
            }
        });
        finite::check_decoded(out)
    }))
}

/// Returns the power of two that scales the largest magnitude to below 2^[`TOP`].
fn power(gradient: &[f32]) -> i32 {
    // The bits of magnitudes have the same order as the magnitudes.
    let magnitude = |values: &[f32]| values.iter().fold(0, |most, value| most.max(value.abs().to_bits()));
    let largest = gradient.par_chunks(PIECE).map(magnitude).max().unwrap_or(0);
    let exponent = (largest >> 23).cast_signed() - 127;
    if largest == 0 { 0 } else { (exponent + 1 - TOP).clamp(*POWERS.start(), *POWERS.end()) }
}

/// Returns 2^`power`. The power must be in [`POWERS`].
fn power_of_two(power: i32) -> f32 {
    f32::from_bits((power + 127).cast_unsigned() << 23)
}
