//! The codec `quantile-B`, whose buckets have about the same number of values, as in SketchML.
//!
//! Source: Jiang et al., "SketchML: Accelerating Distributed Machine Learning with Data Sketches", SIGMOD 2018.

use multiversion::multiversion;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::bits::{pack, packed_len, width};
use crate::casq::{SAMPLE, sample};
use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::{Kind, Lossy, MOST_BUCKETS};
use crate::levels::look_up;
use crate::pieces::{BLOCK, PIECE};
use crate::wire::{Header, Reader};
use crate::write::Write;

pub(crate) const ID: u8 = 8;
/// The minimum number of sampled values for each bucket.
/// The error of a bucket's part of all values is then about a quarter.
const SAMPLE_OF_BUCKET: usize = 16;
/// A cut above all negative values and below all other values.
const LARGEST_NEGATIVE: f32 = -f32::from_bits(1);

/// Divides the values into B buckets at quantiles, and sends the bucket of each value.
/// Negative and positive values are divided separately. The mean of a bucket's values represents each of them.
///
/// This is the part of SketchML for dense gradients: quantisation by quantile buckets, with buckets for each sign in
/// proportion to its number of values. It leaves out SketchML's compression of sparse gradients: the delta-binary
/// encoding of keys, which a dense gradient does not have, and the MinMaxSketch, which saves some bits of the indexes
/// if keys identify them. Here each value has an index of log2 B bits. Quantiles come from a sample instead of a
/// quantile sketch, which is as accurate and faster. The mean of a bucket's values represents them. The paper uses the
/// middle between the bucket's ends, which is less accurate.
///
/// Zeros, which a sparse gradient does not have, do not influence the cuts. They belong to the bucket around 0.
#[derive(Debug, Clone)]
pub struct Quantile {
    buckets: u16,
    random: ChaCha8Rng,
}

impl Quantile {
    /// Makes an encoder with at most `buckets` buckets, 2 to 256.
    /// Other numbers are clamped, and rounded up to a power of two. The encoder's samples are derived from `seed`.
    pub fn new(buckets: u16, seed: u64) -> Self {
        let buckets = buckets.clamp(2, MOST_BUCKETS).next_power_of_two();
        Self { buckets, random: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl Codec for Quantile {
    fn kind(&self) -> Kind {
        Lossy::Quantile { buckets: self.buckets }.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        if gradient.is_empty() {
            return Header::start(ID, 0, gradient, 0);
        }
        let buckets = usize::from(self.buckets);
        let sample = sample(gradient, SAMPLE.max(buckets * SAMPLE_OF_BUCKET), &mut self.random);
        let cuts = Cuts::new(&cuts(sample, buckets));
        let mut indexes = vec![0; gradient.len()];
        let means = means(gradient, &cuts, &mut indexes);
        let width = width(means.len());
        let body = 4 * means.len() + packed_len(gradient.len(), width);
        let mut code = Header::start(ID, means.len() as u16, gradient, body)?;
        means.iter().for_each(|mean| code.extend(mean.to_le_bytes()));
        let fill = |start: usize, out: &mut [u8], _: &mut ()| {
            out.copy_from_slice(&indexes[start..start + out.len()]);
        };
        pack(&mut code, gradient.len(), width, fill, |(), ()| ());
        Ok(code)
    }
}

/// Returns the largest value of each bucket except the last, ascending.
/// Each bucket contains values of the sample, unless all sampled values are zeros.
fn cuts(mut sample: Vec<f32>, buckets: usize) -> Vec<f32> {
    sample.retain(|value| *value != 0.0);
    sample.sort_unstable_by(f32::total_cmp);
    let (negative, positive) = sample.split_at(sample.partition_point(|value| *value < 0.0));
    let of_negative = match (negative.len(), positive.len()) {
        (_, 0) => buckets,
        (0, _) => 0,
        (negative, _) => ((buckets * negative + sample.len() / 2) / sample.len()).clamp(1, buckets - 1),
    };
    let mut cuts = quantiles(negative, of_negative);
    if !negative.is_empty() && !positive.is_empty() {
        cuts.push(LARGEST_NEGATIVE);
    }
    cuts.extend(quantiles(positive, buckets - of_negative));
    cuts
}

/// Divides sorted values into non-empty parts of about equal length, and returns the ends of all parts
/// except the last.
fn quantiles(sorted: &[f32], parts: usize) -> Vec<f32> {
    let Some(last) = sorted.last() else { return Vec::new() };
    let end = |part: usize| sorted[(part * sorted.len()).div_ceil(parts) - 1];
    let mut ends: Vec<f32> = (1..parts).map(end).filter(|end| end < last).collect();
    // A very frequent value can be the end of several parts.
    ends.dedup();
    ends
}

/// Cuts, stored so that the search for a value's bucket is fast.
#[derive(Debug)]
struct Cuts {
    /// The cuts in ascending order, padded with infinities.
    table: Table,
    count: usize,
}

type Table = [f32; MOST_BUCKETS as usize];

impl Cuts {
    fn new(cuts: &[f32]) -> Self {
        let mut table = [f32::INFINITY; MOST_BUCKETS as usize];
        table.iter_mut().zip(cuts).for_each(|(entry, cut)| *entry = *cut);
        Self { table, count: cuts.len() }
    }

    fn buckets(&self) -> usize {
        self.count + 1
    }

    /// Writes the bucket of each value, which is the number of cuts below the value.
    fn find(&self, values: &[f32], buckets: &mut [u8]) {
        find(values, &self.table, width(self.buckets()), buckets);
    }

    /// Returns the smallest and the largest value that a bucket can hold.
    fn range(&self, bucket: usize) -> (f32, f32) {
        let least = bucket.checked_sub(1).map_or(f32::MIN, |before| self.table[before].next_up());
        (least, self.table[bucket].min(f32::MAX))
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn find(values: &[f32], table: &Table, steps: u32, buckets: &mut [u8]) {
    match steps {
        0 => buckets.fill(0),
        1 => find_in::<1>(values, table, buckets),
        2 => find_in::<2>(values, table, buckets),
        3 => find_in::<3>(values, table, buckets),
        4 => find_in::<4>(values, table, buckets),
        5 => find_in::<5>(values, table, buckets),
        6 => find_in::<6>(values, table, buckets),
        7 => find_in::<7>(values, table, buckets),
        _ => find_in::<8>(values, table, buckets),
    }
}

/// Finds buckets by a binary search whose number of steps the compiler knows.
/// So the search has no branches, and compiles to vector instructions.
#[inline(always)]
fn find_in<const STEPS: u32>(values: &[f32], table: &Table, buckets: &mut [u8]) {
    for (bucket, value) in buckets.iter_mut().zip(values) {
        let mut below = 0_u32;
        for step in (0..STEPS).rev() {
            let cut = table[(below + (1 << step) - 1) as usize % table.len()];
            below += u32::from(*value > cut) << step;
        }
        *bucket = below as u8;
    }
}

/// A sum of values, and the number of values. Both are f64, so that one instruction adds to both.
pub(crate) type Sum = [f64; 2];

/// The maximum number of parts of a gradient that are summed separately.
/// It is small, because each part has a table of sums.
const MOST_PARTS: usize = 32;
/// The number of sums of a bucket.
/// Values are added to them in turn, because an addition to a sum must wait for the previous addition to it.
const ROWS: usize = 4;

/// Writes the bucket of each value, and returns the means of the buckets, ascending.
fn means(gradient: &[f32], cuts: &Cuts, buckets: &mut [u8]) -> Vec<f32> {
    // The parts and the order of their addition do not depend on the number of cores. So the same gradient always gives
    // the same code.
    let part = gradient.len().div_ceil(MOST_PARTS).next_multiple_of(PIECE);
    let parts = gradient.par_chunks(part).zip(buckets.par_chunks_mut(part));
    let parts: Vec<Vec<Sum>> = parts.map(|(values, buckets)| add_up(values, cuts, buckets)).collect();
    let mean = |bucket: usize| {
        let sums = parts.iter().flat_map(|sums| sums.iter().skip(bucket).step_by(cuts.buckets()));
        let [sum, count] = sums.fold(Sum::default(), |total, sum| [total[0] + sum[0], total[1] + sum[1]]);
        let (least, largest) = cuts.range(bucket);
        // The rounding of the sum must not move the mean into the next bucket, which might then have an equal mean.
        ((sum / count.max(1.0)) as f32).clamp(least, largest)
    };
    (0..cuts.buckets()).map(mean).collect()
}

/// Writes the bucket of each value, and returns the sums of all buckets, row by row.
fn add_up(values: &[f32], cuts: &Cuts, buckets: &mut [u8]) -> Vec<Sum> {
    let mut rows = vec![Sum::default(); ROWS * cuts.buckets()];
    for (values, buckets) in values.chunks(BLOCK).zip(buckets.chunks_mut(BLOCK)) {
        cuts.find(values, buckets);
        for (at, (value, bucket)) in values.iter().zip(buckets).enumerate() {
            let [sum, count] = &mut rows[at % ROWS * cuts.buckets() + usize::from(*bucket)];
            *sum += f64::from(*value);
            *count += 1.0;
        }
    }
    rows
}

pub(crate) fn open(buckets: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    if buckets > MOST_BUCKETS || (buckets == 0) != (values == 0) {
        return Err(DecodeError::Field {
            field: "the number of buckets",
            value: buckets.to_string(),
            rule: "1 to 256 are possible, and 0 if there are no values",
        });
    }
    let means = body.f32s("a bucket's mean", buckets.into())?;
    if let Some(pair) = means.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(DecodeError::Field {
            field: "a bucket's mean",
            value: pair[1].to_string(),
            rule: "it has to be above the one before",
        });
    }
    let width = width(means.len());
    let packed = body.take_rest(packed_len(values, width))?;
    Ok(Box::new(move |out| look_up(packed, width, &means, out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_has_about_as_many_values() {
        let values: Vec<f32> = (0..4000).map(|at| (at as f32 - 999.5).powi(3)).collect();
        let cuts = Cuts::new(&cuts(values.clone(), 16));
        assert_eq!(cuts.buckets(), 16);
        let mut buckets = vec![0; values.len()];
        cuts.find(&values, &mut buckets);
        for bucket in 0..16 {
            assert_eq!(buckets.iter().filter(|other| **other == bucket).count(), 250, "{bucket}");
        }
    }

    #[test]
    fn no_bucket_has_both_signs_or_nothing() {
        assert_eq!(cuts(vec![-1.0, 2.0, 0.0, 3.0, 3.0, -0.0], 2), [LARGEST_NEGATIVE]);
        assert_eq!(cuts(vec![3.0, -1.0, 2.0, 3.0, 3.0], 16), [LARGEST_NEGATIVE, 2.0]);
        assert_eq!(cuts(vec![-1.0; 9], 4), []);
        assert_eq!(cuts(vec![0.0; 9], 4), []);
        let cuts = Cuts::new(&[LARGEST_NEGATIVE]);
        let mut buckets = [9; 4];
        cuts.find(&[-f32::MIN_POSITIVE, -0.0, 0.0, 1.0], &mut buckets);
        assert_eq!(buckets, [0, 1, 1, 1]);
    }
}
