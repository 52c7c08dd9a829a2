//! What is compared.

use tributary_codec::{Buckets, Casq, Codec, ErrorFeedback, F16, Shared, TernGrad, Uncompressed, Uniform};

/// An encoder with its random choices from a seed.
type Make = fn(u64) -> Box<dyn Codec>;

/// One row of the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) make: Make,
}

pub(super) const F32: &str = "none";
pub(super) const UNIFORM: &str = "uniform-2";
pub(super) const CASQ: &str = "casq-4";
/// How the names of all kinds of CASQ begin.
pub(super) const CLUSTERED: &str = "casq";

/// All codecs; CASQ's two ideas also each on its own, and with error feedback.
pub(super) fn candidates() -> Vec<Candidate> {
    let candidate = |name, make| Candidate { name, make };
    vec![
        candidate(F32, |_| Box::new(Uncompressed)),
        candidate("f16", |_| Box::new(F16)),
        candidate("uniform-8", |_| Box::new(Uniform::new(8))),
        candidate(UNIFORM, |_| Box::new(Uniform::new(2))),
        candidate("terngrad", |seed| Box::new(TernGrad::new(seed))),
        candidate(CASQ, |seed| Box::new(Casq::new(4, Buckets::InProportion, seed))),
        candidate("casq-4, clusters only", |seed| Box::new(Casq::new(4, Buckets::OnePerCluster, seed))),
        candidate("casq, buckets only", |seed| Box::new(Casq::new(1, Buckets::InProportion, seed))),
        candidate("casq-4-ef", |seed| {
            Box::new(ErrorFeedback::new(Casq::new(4, Buckets::InProportion, seed)))
        }),
        candidate("casq-8", |seed| Box::new(Casq::new(8, Buckets::InProportion, seed))),
        candidate("casq-4-shared", |seed| Box::new(Shared::new(seed))),
        candidate("casq-4-shared, with feedback", |seed| Box::new(ErrorFeedback::new(Shared::new(seed)))),
    ]
}
