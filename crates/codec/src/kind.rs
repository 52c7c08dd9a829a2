//! The names of the codecs, and their parameters.

use std::fmt;
use std::str::FromStr;

use crate::error::UnknownCodec;

/// The maximum number of bits of an index in `uniform-K`.
pub(crate) const MOST_BITS: u8 = 8;
/// The smallest K of `top-K`. With K = 1, all values would be sent, like with `none`.
pub(crate) const LEAST_ONE_IN: u16 = 2;
/// The maximum number of buckets of `quantile-B`. It is the number of indexes of 8 bits.
pub(crate) const MOST_BUCKETS: u16 = 256;

/// A codec and its error feedback. Users write it as a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `none`, which keeps every bit.
    None,
    /// A codec that leaves out a part of each gradient.
    Lossy {
        /// The codec.
        codec: Lossy,
        /// True if the part that a code leaves out is added to the next gradient. The name then ends in `-ef`.
        feedback: bool,
    },
    /// `casq-4-shared`.
    /// It has no `feedback`: a client that wants error feedback adds the residual to the next gradient itself.
    Shared,
}

/// The codecs that leave out a part of each gradient and need no agreement of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lossy {
    /// `f16`
    F16,
    /// `uniform-K`
    Uniform {
        /// K, 1 to 8.
        bits: u8,
    },
    /// `terngrad`
    TernGrad,
    /// `one-bit`
    OneBit,
    /// `top-K`
    TopK {
        /// K, 2 to 65535: one in K values is sent.
        one_in: u16,
    },
    /// `quantile-B`
    Quantile {
        /// B, a power of two from 2 to 256.
        buckets: u16,
    },
    /// `casq-K`
    Casq {
        /// K, 4 or 8.
        clusters: u8,
    },
}

/// The suffix of a codec's name with error feedback.
const FEEDBACK: &str = "-ef";
const NONE: &str = "none";
const SHARED: &str = "casq-4-shared";

impl Kind {
    /// The names of all codecs with which each worker encodes separately, as text for users.
    pub const NAMES: &str = "none, f16, uniform-1 to uniform-8, terngrad, one-bit, top-2 to top-65535, quantile-2 to \
                             quantile-256 by powers of two, casq-4, casq-8, or any of these but none with error \
                             feedback, as casq-4-ef";

    /// Returns this codec with error feedback, or the codec unchanged if no such name exists.
    #[must_use]
    pub fn with_feedback(self) -> Self {
        match self {
            Self::Lossy { codec, .. } => Self::Lossy { codec, feedback: true },
            Self::None | Self::Shared => self,
        }
    }

    /// Returns this codec without error feedback.
    #[must_use]
    pub fn without_feedback(self) -> Self {
        match self {
            Self::Lossy { codec, .. } => codec.into(),
            Self::None | Self::Shared => self,
        }
    }

    /// Returns true if workers must sum sketches and agree on a codebook before each encoding.
    pub fn needs_agreement(self) -> bool {
        self == Self::Shared
    }
}

impl From<Lossy> for Kind {
    /// Makes the kind of this codec without error feedback.
    fn from(codec: Lossy) -> Self {
        Self::Lossy { codec, feedback: false }
    }
}

impl Lossy {
    /// Returns the codec with this name. The number in the name may have another spelling, such as `08`.
    fn named(name: &str) -> Option<Self> {
        match name {
            "f16" => return Some(Self::F16),
            "terngrad" => return Some(Self::TernGrad),
            "one-bit" => return Some(Self::OneBit),
            _ => {}
        }
        let (family, number) = name.rsplit_once('-')?;
        let number: u16 = number.parse().ok()?;
        match (family, u8::try_from(number)) {
            ("uniform", Ok(bits)) if (1..=MOST_BITS).contains(&bits) => Some(Self::Uniform { bits }),
            ("casq", Ok(clusters @ (4 | 8))) => Some(Self::Casq { clusters }),
            ("top", _) if number >= LEAST_ONE_IN => Some(Self::TopK { one_in: number }),
            ("quantile", _) if number.is_power_of_two() && (2..=MOST_BUCKETS).contains(&number) => {
                Some(Self::Quantile { buckets: number })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(NONE),
            Self::Lossy { codec, feedback } => {
                write!(f, "{codec}{}", if *feedback { FEEDBACK } else { "" })
            }
            Self::Shared => f.write_str(SHARED),
        }
    }
}

impl fmt::Display for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F16 => f.write_str("f16"),
            Self::Uniform { bits } => write!(f, "uniform-{bits}"),
            Self::TernGrad => f.write_str("terngrad"),
            Self::OneBit => f.write_str("one-bit"),
            Self::TopK { one_in } => write!(f, "top-{one_in}"),
            Self::Quantile { buckets } => write!(f, "quantile-{buckets}"),
            Self::Casq { clusters } => write!(f, "casq-{clusters}"),
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, UnknownCodec> {
        let kind = match name {
            NONE => Some(Self::None),
            SHARED => Some(Self::Shared),
            _ => {
                let plain = name.strip_suffix(FEEDBACK);
                let codec = Lossy::named(plain.unwrap_or(name));
                codec.map(|codec| Self::Lossy { codec, feedback: plain.is_some() })
            }
        };
        // A number can be spelt in several ways (+8, 08), but a codec has only one name.
        kind.filter(|kind| kind.to_string() == name).ok_or_else(|| UnknownCodec(name.to_owned()))
    }
}
