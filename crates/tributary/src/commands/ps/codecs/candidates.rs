//! The codecs that `tributary ps compare codecs` compares.

use tributary_codec::{
    Buckets, Casq, Codec, ErrorFeedback, F16, OneBit, Quantile, Shared, TernGrad, TopK, Uncompressed, Uniform,
};

/// Creates an encoder. A seed determines its random choices.
type Make = fn(u64) -> Box<dyn Codec>;

/// A codec of the comparison, which is one row of the results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) make: Make,
}

pub(super) const F32: &str = "none";
pub(super) const UNIFORM: &str = "uniform-2";
pub(super) const CASQ: &str = "casq-4";
/// Prefix of the names of all variants of CASQ.
pub(super) const CLUSTERED: &str = "casq";

/// Returns all codecs. Codecs with few bits also appear with error feedback, so that the comparison
/// with CASQ is fair. Each of CASQ's two ideas also appears alone.
pub(super) fn candidates() -> Vec<Candidate> {
    let candidate = |name, make| Candidate { name, make };
    vec![
        candidate(F32, |_| Box::new(Uncompressed)),
        candidate("f16", |_| Box::new(F16)),
        candidate("uniform-8", |_| Box::new(Uniform::new(8))),
        candidate(UNIFORM, |_| Box::new(Uniform::new(2))),
        candidate("uniform-2-ef", |_| fed_back(Uniform::new(2))),
        candidate("terngrad", |seed| Box::new(TernGrad::new(seed))),
        candidate("terngrad-ef", |seed| fed_back(TernGrad::new(seed))),
        candidate("one-bit-ef", |_| fed_back(OneBit)),
        candidate("top-100-ef", |_| fed_back(TopK::new(100))),
        candidate("quantile-4-ef", |seed| fed_back(Quantile::new(4, seed))),
        candidate("quantile-16", |seed| Box::new(Quantile::new(16, seed))),
        candidate(CASQ, |seed| Box::new(Casq::new(4, Buckets::InProportion, seed))),
        candidate("casq-4, clusters only", |seed| Box::new(Casq::new(4, Buckets::OnePerCluster, seed))),
        candidate("casq, buckets only", |seed| Box::new(Casq::new(1, Buckets::InProportion, seed))),
        candidate("casq-4-ef", |seed| fed_back(Casq::new(4, Buckets::InProportion, seed))),
        candidate("casq-8", |seed| Box::new(Casq::new(8, Buckets::InProportion, seed))),
        candidate("casq-4-shared", |seed| Box::new(Shared::new(seed))),
        candidate("casq-4-shared, with feedback", |seed| fed_back(Shared::new(seed))),
    ]
}

fn fed_back(codec: impl Codec + 'static) -> Box<dyn Codec> {
    Box::new(ErrorFeedback::new(codec))
}
