//! The errors of encoding, of decoding, and of codec names.

use thiserror::Error;

/// An error of encoding a gradient.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum EncodeError {
    /// The gradient has a NaN or an infinity, so it is useless to every receiver.
    #[error(
        "value {position} of the gradient is {value}: only finite values can be encoded. \
         Skip this step; if it happens again, find where the gradient becomes NaN or infinite"
    )]
    NotFinite {
        /// The position of the first such value, from 0.
        position: usize,
        /// The value.
        value: f32,
    },
    /// The gradient has more values than a code's header can count.
    #[error("a gradient of {0} values is too long for one code, which holds 4294967295 at most: cut it")]
    TooLong(usize),
    /// The codec needs an agreement of all workers first.
    #[error("casq-4-shared encodes with a codebook of all workers: add up their sketches and agree first")]
    NoCodebook,
    /// The sketch has no values, or is not a sum of sketches.
    #[error("the sketch to agree on is empty, or not a sum of sketches: each worker has to add its own")]
    EmptySketch,
    /// At least one worker had no sketch to contribute, because its gradient is not finite.
    #[error(
        "some worker's gradient holds a NaN or an infinity: that worker's own error names the value. \
         Skip this step on all of them"
    )]
    NotFiniteSomewhere,
    /// Error feedback could not decode the code that the codec had just made.
    #[error("what was just encoded cannot be read: {0}; this is a defect, please report it")]
    Unreadable(DecodeError),
    /// The gradient's length differs from the agreed one.
    #[error("a gradient of {got} values where {expected} are expected")]
    Values {
        /// The agreed number of values.
        expected: usize,
        /// The gradient's number of values.
        got: usize,
    },
}

/// An error of decoding a code. The sender or the network is at fault.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DecodeError {
    /// The code ends before the end that its own fields announce.
    #[error("the code has {got} bytes where {needed} are needed: it was cut short")]
    TooShort {
        /// The minimum number of bytes that the fields read up to here announce.
        needed: usize,
        /// The number of bytes in the code.
        got: usize,
    },
    /// The code has more bytes than its fields announce.
    #[error("the code has {0} bytes too many")]
    TooLong(usize),
    /// Another version of the format made the code.
    #[error("a code of format version {0}: this program reads version {current}", current = crate::wire::VERSION)]
    Version(u8),
    /// No codec has this number.
    #[error("no codec has the number {0}: the sender is newer than this program, or the code is damaged")]
    Codec(u8),
    /// The code belongs to a gradient of another length.
    #[error("the code holds {got} values where {expected} are expected")]
    Values {
        /// The number of parameters at the receiver.
        expected: usize,
        /// The number of values that the code announces.
        got: u32,
    },
    /// A field has a value that no encoder writes.
    #[error("{field} is {value}: {rule}")]
    Field {
        /// The field's name in the format.
        field: &'static str,
        /// The value of the field.
        value: String,
        /// The rule that the field must follow.
        rule: &'static str,
    },
    /// The code does not define the index of a value.
    #[error("value {position} has the index {index}, and the code defines {defined} only")]
    Index {
        /// The value's position, from 0.
        position: usize,
        /// The index of the value.
        index: u8,
        /// The number of defined indexes.
        defined: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {position} of the code is {value}: only finite values are accepted")]
    NotFinite {
        /// The position of the value, from 0.
        position: usize,
        /// The value.
        value: f32,
    },
}

/// An error: the text is not the name of a codec.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "there is no codec {0:?}: choose {names}; or casq-4-shared, where workers can agree on a codebook",
    names = crate::kind::Kind::NAMES
)]
pub struct UnknownCodec(pub(crate) String);
