//! Measures the speed of encoding and decoding on all cores: `cargo bench -p tributary-codec`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tributary_codec::{Kind, decode_into};

/// The numbers of values of the demo's model, and of a larger model.
const LENGTHS: [usize; 2] = [100_000, 8 << 20];
const CODECS: [&str; 15] = [
    "none",
    "f16",
    "uniform-2",
    "uniform-8",
    "terngrad",
    "one-bit",
    "top-100",
    "top-1000",
    "quantile-4",
    "quantile-16",
    "quantile-256",
    "casq-4",
    "casq-4-ef",
    "casq-8",
    "casq-4-shared",
];

/// Returns values with long tails, like in a gradient.
/// Half of them are less than a fiftieth of the largest.
fn gradient(len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at as f32 * 0.7).sin() * 1.2).powi(5)).collect()
}

fn codecs(criterion: &mut Criterion) {
    for len in LENGTHS {
        let gradient = gradient(len);
        let mut out = vec![0.0; len];
        for name in CODECS {
            let mut codec = name.parse::<Kind>().unwrap().codec(1);
            if let Some(sketch) = codec.propose(&gradient).unwrap() {
                codec.agree(&sketch).unwrap();
            }
            let code = codec.encode(&gradient).unwrap();
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Bytes(len as u64 * 4)).sample_size(20);
            group.bench_function(BenchmarkId::new("encode", len), |b| b.iter(|| codec.encode(&gradient)));
            group.bench_function(BenchmarkId::new("decode", len), |b| {
                b.iter(|| decode_into(&code, &mut out));
            });
            group.finish();
        }
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
