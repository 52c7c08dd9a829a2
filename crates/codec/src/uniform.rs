//! The codec `uniform-K`, with evenly spaced levels between the smallest and the largest value.

use rayon::prelude::*;

use crate::bits::{pack, packed_len};
use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::{Kind, Lossy, MOST_BITS};
use crate::levels::look_up;
use crate::pieces::PIECE;
use crate::wire::{Header, Reader};
use crate::write::Write;

pub(crate) const ID: u8 = 2;

/// Divides the range of the values into 2^K cells of equal width.
/// A value becomes the middle of its cell.
///
/// With middles, the error of a value is at most half a cell. With levels at the ends of the range, as in other
/// definitions, the error would be larger by the factor 2^K / (2^K − 1).
#[derive(Debug, Clone, Copy)]
pub struct Uniform {
    bits: u8,
}

impl Uniform {
    /// Makes an encoder with indexes of `bits` bits, clamped to 1 to 8.
    pub fn new(bits: u8) -> Self {
        Self { bits: bits.clamp(1, MOST_BITS) }
    }
}

impl Codec for Uniform {
    fn kind(&self) -> Kind {
        Lossy::Uniform { bits: self.bits }.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let (low, high) = range(gradient);
        let width = u32::from(self.bits);
        let mut code = Header::start(ID, self.bits.into(), gradient, 8 + packed_len(gradient.len(), width))?;
        code.extend(low.to_le_bytes());
        code.extend(high.to_le_bytes());
        // In f64, neither the width of a range of f32 nor the inverse of the smallest width can overflow.
        let cells = f64::from(1_u32 << width);
        let per_unit = if high > low { cells / (f64::from(high) - f64::from(low)) } else { 0.0 };
        let last = ((1_u32 << width) - 1) as u8;
        let fill = |start: usize, indexes: &mut [u8], _: &mut ()| {
            for (index, value) in indexes.iter_mut().zip(&gradient[start..]) {
                let cell = (f64::from(*value) - f64::from(low)) * per_unit;
                *index = (cell as u8).min(last);
            }
        };
        pack(&mut code, gradient.len(), width, fill, |(), ()| ());
        Ok(code)
    }
}

/// Returns the smallest and the largest value; both are 0 if the gradient is empty.
fn range(gradient: &[f32]) -> (f32, f32) {
    let start = (f32::INFINITY, f32::NEG_INFINITY);
    let wider = |(low, high): (f32, f32), (l, h): (f32, f32)| (low.min(l), high.max(h));
    let of_piece = |values: &[f32]| values.iter().fold(start, |range, &value| wider(range, (value, value)));
    let (low, high) = gradient.par_chunks(PIECE).map(of_piece).reduce(|| start, wider);
    if low <= high { (low, high) } else { (0.0, 0.0) }
}

pub(crate) fn open(parameter: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    if parameter == 0 || parameter > u16::from(MOST_BITS) {
        return Err(DecodeError::Field {
            field: "the number of bits",
            value: parameter.to_string(),
            rule: "1 to 8 are possible",
        });
    }
    let (low, high) = (body.f32("the lowest value")?, body.f32("the highest value")?);
    if low > high {
        return Err(DecodeError::Field {
            field: "the lowest value",
            value: low.to_string(),
            rule: "it must not be above the highest one",
        });
    }
    let width = u32::from(parameter);
    let packed = body.take_rest(packed_len(values, width))?;
    let cells = 1_u32 << width;
    let (low, size) = (f64::from(low), (f64::from(high) - f64::from(low)) / f64::from(cells));
    let levels: Vec<f32> = (0..cells).map(|cell| (low + (f64::from(cell) + 0.5) * size) as f32).collect();
    Ok(Box::new(move |out| look_up(packed, width, &levels, out)))
}
