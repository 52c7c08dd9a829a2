//! The codecs by name.

use std::fmt;
use std::str::FromStr;

use crate::casq::{Buckets, Casq};
use crate::codec::Codec;
use crate::error::UnknownCodec;
use crate::f16::F16;
use crate::feedback::ErrorFeedback;
use crate::none::Uncompressed;
use crate::shared::Shared;
use crate::terngrad::TernGrad;
use crate::uniform::{MOST_BITS, Uniform};

/// A codec's name, as users write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `none`
    None,
    /// `f16`
    F16,
    /// `uniform-K`
    Uniform {
        /// K, 1 to 8.
        bits: u8,
    },
    /// `terngrad`
    TernGrad,
    /// `casq-K`, or `casq-K-ef` with error feedback
    Casq {
        /// K, 4 or 8.
        clusters: u8,
        /// Whether what a code leaves out is added to the next gradient.
        feedback: bool,
    },
    /// `casq-4-shared`
    Shared,
}

/// What follows a codec's name where it has error feedback.
const FEEDBACK: &str = "-ef";

impl Kind {
    /// An encoder. Its random choices follow from `seed`, which should be another one on each worker.
    pub fn codec(self, seed: u64) -> Box<dyn Codec> {
        match self {
            Self::None => Box::new(Uncompressed),
            Self::F16 => Box::new(F16),
            Self::Uniform { bits } => Box::new(Uniform::new(bits)),
            Self::TernGrad => Box::new(TernGrad::new(seed)),
            Self::Casq { clusters, feedback } => {
                let casq = Casq::new(clusters, Buckets::default(), seed);
                if feedback { Box::new(ErrorFeedback::new(casq)) } else { Box::new(casq) }
            }
            Self::Shared => Box::new(Shared::new(seed)),
        }
    }

    /// Whether workers have to add up sketches and agree before each encoding.
    pub fn needs_agreement(self) -> bool {
        self == Self::Shared
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::F16 => f.write_str("f16"),
            Self::Uniform { bits } => write!(f, "uniform-{bits}"),
            Self::TernGrad => f.write_str("terngrad"),
            Self::Casq { clusters, feedback } => {
                write!(f, "casq-{clusters}{}", if *feedback { FEEDBACK } else { "" })
            }
            Self::Shared => f.write_str("casq-4-shared"),
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, UnknownCodec> {
        match name {
            "none" => Ok(Self::None),
            "f16" => Ok(Self::F16),
            "terngrad" => Ok(Self::TernGrad),
            "casq-4" => Ok(Self::Casq { clusters: 4, feedback: false }),
            "casq-4-ef" => Ok(Self::Casq { clusters: 4, feedback: true }),
            "casq-8" => Ok(Self::Casq { clusters: 8, feedback: false }),
            "casq-8-ef" => Ok(Self::Casq { clusters: 8, feedback: true }),
            "casq-4-shared" => Ok(Self::Shared),
            _ => {
                let bits = name.strip_prefix("uniform-").and_then(|bits| bits.parse().ok());
                let bits = bits.filter(|bits| (1..=MOST_BITS).contains(bits));
                bits.map(|bits| Self::Uniform { bits }).ok_or_else(|| UnknownCodec(name.to_owned()))
            }
        }
    }
}
