//! The format of codes. All integers and floats are little-endian, as on the CPUs that read them.
//!
//! | bytes | header |
//! |---|---|
//! | 1 | [`VERSION`] |
//! | 1 | codec: 0 `none`, 1 `f16`, 2 `uniform`, 3 `terngrad`, 4 `casq`, 5 `casq-4-shared`, 6 `one-bit`, 7 `top`, 8 `quantile` |
//! | 2 | parameter: bits a value (`uniform`), clusters or buckets that are used (`casq`, `casq-4-shared`, `quantile`), K (`top`), else 0 |
//! | 4 | n, the number of values |
//!
//! The body depends on the codec. *Indexes* are packed at b bits each, the first value's in the lowest bits of the
//! first byte, and fill ceil(n · b / 8) bytes; unused bits of the last byte are 0.
//!
//! | codec | body |
//! |---|---|
//! | `none` | n × f32 |
//! | `f16` | i32 power, −126 to 126; n × f16, each the value / 2^power |
//! | `uniform` | f32 low, f32 high; indexes at the parameter's bits |
//! | `terngrad` | f32 scale; indexes at 2 bits: 0 is 0, 1 is +scale, 2 is −scale |
//! | `casq` | u32 buckets of each cluster; f32 mean of each bucket, cluster by cluster; indexes at ceil(log2 clusters) bits |
//! | `casq-4-shared` | f32 step; i32 zero; u8 level of each cluster, ascending; indexes at ceil(log2 clusters) bits |
//! | `one-bit` | f32 mean of the values from 0 on; f32 mean of the negative ones; indexes at 1 bit: 1 is negative |
//! | `top` | f32 of each of the ceil(n / K) values that are sent, by position; their positions |
//! | `quantile` | f32 mean of each bucket, ascending; indexes at ceil(log2 buckets) bits |
//!
//! Value i of `casq`, whose index is cluster c, is the mean of bucket h(i) · buckets(c) / 2^32, rounded down, of that
//! cluster, with h(i) = i · 0x9E3779B1 mod 2^32. A change of h needs a new version.
//!
//! The c = ceil(n / K) positions of `top` ascend; all other values are 0. With b = floor(log2 K), first come the
//! lowest b bits of each position, packed as indexes are. Then come ceil((c + floor((n − 1) / 2^b)) / 8) bytes, in which
//! bit floor(p / 2^b) + i is 1 for each i, with p the position of that number, counted from 0, and all others are 0.
//!
//! A code has exactly the number of bytes that its fields announce, and all floats in it are finite. Reserved bits are
//! 0, so each content has only one encoding.

use crate::error::{DecodeError, EncodeError};

/// The version of the format that this crate writes and reads.
pub const VERSION: u8 = 1;

/// The number of bytes of a code before its body.
pub const HEADER_LEN: usize = 8;

/// The header of a code, without the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) codec: u8,
    pub(crate) parameter: u16,
    pub(crate) values: u32,
}

impl Header {
    /// Starts a code of `gradient` with its header, and reserves memory for `body` more bytes.
    pub(crate) fn start(
        codec: u8,
        parameter: u16,
        gradient: &[f32],
        body: usize,
    ) -> Result<Vec<u8>, EncodeError> {
        let values = u32::try_from(gradient.len()).map_err(|_| EncodeError::TooLong(gradient.len()))?;
        let mut code = Vec::with_capacity(HEADER_LEN + body);
        code.extend([VERSION, codec]);
        code.extend(parameter.to_le_bytes());
        code.extend(values.to_le_bytes());
        Ok(code)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [version, codec] = reader.array()?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let parameter = u16::from_le_bytes(reader.array()?);
        Ok(Self { codec, parameter, values: reader.u32()? })
    }
}

/// Reads a code from the front, never beyond its end.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    code: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads the header of a code, and returns it with a reader of the body.
    pub(crate) fn open(code: &'a [u8]) -> Result<(Header, Self), DecodeError> {
        let mut reader = Self { code, at: 0 };
        Ok((Header::read(&mut reader)?, reader))
    }

    /// Reads the next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let needed = self.at.saturating_add(len);
        let too_short = DecodeError::TooShort { needed, got: self.code.len() };
        let bytes = self.code.get(self.at..needed).ok_or(too_short)?;
        self.at = needed;
        Ok(bytes)
    }

    /// Reads all remaining bytes. Their number must be `len`.
    pub(crate) fn take_rest(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let bytes = self.take(len)?;
        match self.code.len() - self.at {
            0 => Ok(bytes),
            more => Err(DecodeError::TooLong(more)),
        }
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], DecodeError> {
        let needed = self.at.saturating_add(LEN);
        let (array, _) = self.code[self.at..]
            .split_first_chunk()
            .ok_or(DecodeError::TooShort { needed, got: self.code.len() })?;
        self.at = needed;
        Ok(*array)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_le_bytes)
    }

    /// Reads a float, which must be finite.
    pub(crate) fn f32(&mut self, field: &'static str) -> Result<f32, DecodeError> {
        finite(field, f32::from_le_bytes(self.array()?))
    }

    /// Reads `count` floats, which must be finite.
    pub(crate) fn f32s(&mut self, field: &'static str, count: usize) -> Result<Vec<f32>, DecodeError> {
        let (floats, _) = self.take(count.saturating_mul(4))?.as_chunks();
        floats.iter().map(|bytes| finite(field, f32::from_le_bytes(*bytes))).collect()
    }
}

fn finite(field: &'static str, value: f32) -> Result<f32, DecodeError> {
    if value.is_finite() {
        return Ok(value);
    }
    Err(DecodeError::Field { field, value: value.to_string(), rule: "it has to be finite" })
}

/// Checks the parameter of a codec that has no parameter: it must be 0.
pub(crate) fn no_parameter(parameter: u16) -> Result<(), DecodeError> {
    match parameter {
        0 => Ok(()),
        value => Err(DecodeError::Field {
            field: "the parameter",
            value: value.to_string(),
            rule: "this codec has none, so it has to be 0",
        }),
    }
}
