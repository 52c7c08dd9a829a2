//! `casq-K`: clustered hash-bucket quantisation (CASQ, IEEE CLUSTER 2021).
//!
//! K-means on a sample finds K clusters of values. Each cluster gets hash buckets in proportion to its density, its
//! centre and its entropy. A value belongs to its nearest cluster, and there to the bucket to which its position
//! hashes. The mean of that bucket's values represents the value. A code has the means, and the cluster of each value.

mod buckets;
mod cells;
mod nearest;
mod sample;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use buckets::Buckets;
use buckets::{allot, means, starts};
pub(crate) use nearest::Nearest;
pub(crate) use sample::{SAMPLE, Sample, sample};

use crate::bits::{check_indexes, packed_len, unpack, width};
use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::kind::{Kind, Lossy};
use crate::kmeans::kmeans;
use crate::wire::{Header, Reader};
use crate::write::Write;
use crate::{finite, hash};

pub(crate) const ID: u8 = 4;
/// The maximum number of clusters.
pub(crate) const MOST_CLUSTERS: usize = 8;

/// The CASQ encoder of one worker.
#[derive(Debug, Clone)]
pub struct Casq {
    clusters: u8,
    buckets: Buckets,
    random: ChaCha8Rng,
}

impl Casq {
    /// Makes an encoder with at most `clusters` clusters, clamped to 1 to 8.
    /// Its samples are derived from `seed`.
    pub fn new(clusters: u8, buckets: Buckets, seed: u64) -> Self {
        let clusters = clusters.clamp(1, MOST_CLUSTERS as u8);
        Self { clusters, buckets, random: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl Codec for Casq {
    fn kind(&self) -> Kind {
        Lossy::Casq { clusters: self.clusters }.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        // The scope wakes up the thread pool once, and not for each step.
        rayon::scope(|_| self.encode_in_pool(gradient))
    }
}

impl Casq {
    fn encode_in_pool(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let sample = Sample::new(sample(gradient, SAMPLE, &mut self.random));
        let clusters = kmeans(&sample.points, self.clusters.into());
        let centres: Vec<f64> = clusters.iter().map(|cluster| cluster.centre).collect();
        let nearest = Nearest::new(&centres);

        let width = width(clusters.len());
        let mut packed = Vec::new();
        let members = nearest.pack(gradient, width, &mut packed);
        let shares = sample.shares(&clusters, &members[..clusters.len()], gradient.len());
        let counts = allot(self.buckets.total(gradient.len(), clusters.len()), &shares, &members);
        let means = means(gradient, &nearest, &counts);

        let body = 4 * (counts.len() + means.len()) + packed.len();
        let mut code = Header::start(ID, counts.len() as u16, gradient, body)?;
        counts.iter().for_each(|count| code.extend(count.to_le_bytes()));
        means.iter().for_each(|mean| code.extend(mean.to_le_bytes()));
        code.append(&mut packed);
        Ok(code)
    }
}

pub(crate) fn open(clusters: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    let clusters = check_clusters(clusters, MOST_CLUSTERS, values)?;
    let mut counts = Vec::with_capacity(clusters);
    for _ in 0..clusters {
        counts.push(body.u32()?);
    }
    let total = counts.iter().map(|count| u64::from(*count)).sum::<u64>();
    if counts.contains(&0) || total > values as u64 {
        return Err(DecodeError::Field {
            field: "the clusters' numbers of buckets",
            value: format!("{counts:?}"),
            rule: "each has to be 1 at least, and all together not more than there are values",
        });
    }
    let means = body.f32s("a bucket's mean", total as usize)?;
    let packed = body.take_rest(packed_len(values, width(clusters)))?;
    let table = starts(&counts);
    let read = move |start: usize, indexes: &[u8], out: &mut [f32]| {
        check_indexes(start, indexes, clusters)?;
        for ((out, &cluster), position) in out.iter_mut().zip(indexes).zip(start as u32..) {
            let (first, count) = table[usize::from(cluster) % MOST_CLUSTERS];
            *out = means[(first + hash::bucket(position, count)) as usize];
        }
        Ok(())
    };
    Ok(Box::new(move |out| unpack(packed, width(clusters), out, read)))
}

/// Checks the number of clusters in a code's header.
/// It must be at least one, unless the code has no values.
pub(crate) fn check_clusters(clusters: u16, most: usize, values: usize) -> Result<usize, DecodeError> {
    let clusters = usize::from(clusters);
    if clusters <= most && (clusters == 0) == (values == 0) {
        return Ok(clusters);
    }
    Err(DecodeError::Field {
        field: "the number of clusters",
        value: clusters.to_string(),
        rule: "1 to 8 are possible (4 where they are shared), and 0 if there are no values",
    })
}
