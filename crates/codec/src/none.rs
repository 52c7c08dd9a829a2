//! The codec `none`, which sends values unchanged.

use rayon::prelude::*;

use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::Kind;
use crate::pieces::PIECE;
use crate::wire::{Header, Reader, no_parameter};
use crate::write::Write;

pub(crate) const ID: u8 = 0;
const VALUE_LEN: usize = 4;

/// Sends f32 values unchanged, as the baseline for other codecs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncompressed;

impl Codec for Uncompressed {
    fn kind(&self) -> Kind {
        Kind::None
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let len = gradient.len() * VALUE_LEN;
        let mut code = Header::start(ID, 0, gradient, len)?;
        let start = code.len();
        code.resize(start + len, 0);
        let bytes = code[start..].par_chunks_mut(PIECE * VALUE_LEN);
        bytes.zip(gradient.par_chunks(PIECE)).for_each(|(bytes, values)| {
            for (bytes, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                *bytes = value.to_le_bytes();
            }
        });
        Ok(code)
    }
}

pub(crate) fn open(parameter: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    no_parameter(parameter)?;
    let bytes = body.take_rest(values * VALUE_LEN)?;
    Ok(Box::new(move |out| {
        let pieces = out.par_chunks_mut(PIECE).zip(bytes.par_chunks(PIECE * VALUE_LEN));
        pieces.for_each(|(out, bytes)| {
            for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *out = f32::from_le_bytes(*bytes);
            }
        });
        finite::check_decoded(out)
    }))
}
