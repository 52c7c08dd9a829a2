//! Makes the encoder of each [`Kind`].

use crate::casq::{Buckets, Casq};
use crate::codec::Codec;
use crate::f16::F16;
use crate::feedback::ErrorFeedback;
use crate::kind::{Kind, Lossy};
use crate::none::Uncompressed;
use crate::one_bit::OneBit;
use crate::quantile::Quantile;
use crate::shared::Shared;
use crate::terngrad::TernGrad;
use crate::top::TopK;
use crate::uniform::Uniform;

impl Kind {
    /// Makes an encoder. Its random choices are derived from `seed`, which should differ between workers.
    pub fn codec(self, seed: u64) -> Box<dyn Codec> {
        match self {
            Self::None => Box::new(Uncompressed),
            Self::Lossy { codec, feedback: false } => codec.codec(seed),
            Self::Lossy { codec, feedback: true } => Box::new(ErrorFeedback::new(codec.codec(seed))),
            Self::Shared => Box::new(Shared::new(seed)),
        }
    }
}

impl Lossy {
    fn codec(self, seed: u64) -> Box<dyn Codec> {
        match self {
            Self::F16 => Box::new(F16),
            Self::Uniform { bits } => Box::new(Uniform::new(bits)),
            Self::TernGrad => Box::new(TernGrad::new(seed)),
            Self::OneBit => Box::new(OneBit),
            Self::TopK { one_in } => Box::new(TopK::new(one_in)),
            Self::Quantile { buckets } => Box::new(Quantile::new(buckets, seed)),
            Self::Casq { clusters } => Box::new(Casq::new(clusters, Buckets::default(), seed)),
        }
    }
}
