//! `quantile-B`: buckets of about as many values each, as SketchML has them (Jiang et al., "SketchML:
//! Accelerating Distributed Machine Learning with Data Sketches", SIGMOD 2018).

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
/// The fewest sampled values for each bucket:
/// a bucket's part of all values is then about a quarter off.
const SAMPLE_OF_BUCKET: usize = 16;
/// A cut above all negative values, and below all others.
const LARGEST_NEGATIVE: f32 = -f32::from_bits(1);

/// Cuts the values into B buckets at quantiles, negative and positive values separately, and sends each
/// value's bucket, which stands for the mean of its values.
///
/// This is SketchML as far as it concerns dense gradients: its quantisation by quantile buckets, with buckets for each
/// sign in proportion to its number of values. It leaves out how SketchML compresses sparse gradients: delta-binary
/// encoding of the keys, which a dense gradient does not have, and the MinMaxSketch, which saves some of the indexes'
/// bits where keys identify them; here each value has an index of log2 B bits. Quantiles come from a sample instead of
/// a quantile sketch: this is as accurate and faster. A bucket stands for the mean of its values; in the paper for the
/// middle between its ends, which is less accurate.
///
/// Zeros, which a sparse gradient does not have, do not influence the cuts, and go to the bucket around 0.
#[derive(Debug, Clone)]
pub struct Quantile {
    buckets: u16,
    random: ChaCha8Rng,
}

impl Quantile {
    /// An encoder with at most `buckets` buckets, 2 to 256; other numbers are clamped, and rounded up to a
    /// power of two. Its samples follow from `seed`.
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

/// The largest value of each bucket but the last, ascending.
/// Each bucket contains values of the sample, unless all of these are zeros.
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

/// Cuts values in ascending order into parts of about the same length, none of them empty.
fn quantiles(sorted: &[f32], parts: usize) -> Vec<f32> {
    let Some(last) = sorted.last() else { return Vec::new() };
    let end = |part: usize| sorted[(part * sorted.len()).div_ceil(parts) - 1];
    let mut ends: Vec<f32> = (1..parts).map(end).filter(|end| end < last).collect();
    // A very frequent value would end several parts.
    ends.dedup();
    ends
}

/// Cuts in a form in which a value's bucket is quickly found.
#[derive(Debug)]
struct Cuts {
    /// The cuts, ascending, filled up with infinities.
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

    /// Writes the bucket of each value: the number of cuts below it.
    fn find(&self, values: &[f32], buckets: &mut [u8]) {
        find(values, &self.table, width(self.buckets()), buckets);
    }

    /// The least and the largest value that a bucket can hold.
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

/// A binary search with a number of steps that the compiler knows: it has no branches, and compiles to
/// vector instructions.
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

/// A sum of values and their number.
type Sum = [f64; 2];

/// The most parts of a gradient that are summed separately: few, as each has a table of sums.
const MOST_PARTS: usize = 32;
/// The number of sums of a bucket, to which values are added in turn, because an addition to a sum has
/// to wait for the previous addition.
const ROWS: usize = 4;

/// Writes the bucket of each value, and returns the buckets' means, ascending.
fn means(gradient: &[f32], cuts: &Cuts, buckets: &mut [u8]) -> Vec<f32> {
    // Neither the parts nor the order in which they are added depend on the number of cores: the same gradient always
    // gives the same code.
    let part = gradient.len().div_ceil(MOST_PARTS).next_multiple_of(PIECE);
    let parts = gradient.par_chunks(part).zip(buckets.par_chunks_mut(part));
    let parts: Vec<Vec<Sum>> = parts.map(|(values, buckets)| add_up(values, cuts, buckets)).collect();
    let mean = |bucket: usize| {
        let sums = parts.iter().flat_map(|sums| sums.iter().skip(bucket).step_by(cuts.buckets()));
        let [sum, count] = sums.fold(Sum::default(), |total, sum| [total[0] + sum[0], total[1] + sum[1]]);
        let (least, largest) = cuts.range(bucket);
        // The sum was rounded: that must not move the mean into the next bucket, which might have the same mean.
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
